//! Why a file is refused.

use serde::Serialize;

use crate::error::{Code, Error};

/// Why a file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// It is not an export, or one of a newer version.
    NotAnExport,
    /// It ends before its end.
    Truncated,
    /// Records are not in their order.
    Order,
    /// Records are not those that the manifest counts, or the manifest is not the one that was signed.
    Hash,
    /// A signature is not one of the manifest.
    Signature,
    /// No known key has signed it.
    UnknownKey,
    /// It has a credential.
    CredentialField,
    /// It has something that no export has.
    UnknownField,
    /// Its log does not verify.
    Chain,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Why it is refused.
    pub reason: Reason,
    /// The number of the record, from 1; none if it is about no record.
    pub record: Option<u64>,
    /// What was found.
    pub detail: String,
}

impl Invalid {
    pub(super) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, record: None, detail: detail.into() }
    }

    /// What is said of a file that the service fails to keep.
    pub(super) fn not_kept() -> Self {
        Self::new(Reason::NotAnExport, "the file could not be kept")
    }

    /// Returns the error that names it.
    pub fn error(self) -> Error {
        Error::new(Code::ExportInvalid, self.detail).with("reason", self.reason).with("record", self.record)
    }
}

/// Returns why a file with something of this name, which no export has, is refused.
pub(super) fn reason_for(name: &str) -> Reason {
    const OF_CREDENTIALS: [&str; 9] =
        ["secret", "token", "password", "api_key", "apikey", "private_key", "wrapped", "kek", "credential"];
    let name = name.to_lowercase();
    let is_credential = OF_CREDENTIALS.iter().any(|part| name.contains(part));
    if is_credential { Reason::CredentialField } else { Reason::UnknownField }
}
