//! Why a file is refused.

use serde::Serialize;

use crate::error::{Code, Error};

/// Why a file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvalidReason {
    /// It is not an export, or one of a newer version.
    NotAnExport,
    /// It is cut off.
    Truncated,
    /// Records are not in their order.
    Order,
    /// The records differ from the counts of the manifest, or the manifest was not the signed one.
    Hash,
    /// A signature does not match the manifest.
    Signature,
    /// It was not signed by a known key.
    UnknownKey,
    /// It contains a credential.
    CredentialField,
    /// It contains a field that no export has.
    UnknownField,
    /// Its log does not verify.
    Chain,
}

/// A fault of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidFile {
    /// Why it is refused.
    pub reason: InvalidReason,
    /// The number of the record, from 1; `None` if the fault concerns no record.
    pub record: Option<u64>,
    /// A description of the fault.
    pub detail: String,
}

impl InvalidFile {
    pub(super) fn new(reason: InvalidReason, detail: impl Into<String>) -> Self {
        Self { reason, record: None, detail: detail.into() }
    }

    /// Returns the error for a file that the service fails to store.
    pub(super) fn not_kept() -> Self {
        Self::new(InvalidReason::NotAnExport, "the file could not be kept")
    }

    /// Returns the error with this fault.
    pub fn error(self) -> Error {
        Error::new(Code::ExportInvalid, self.detail).with("reason", self.reason).with("record", self.record)
    }
}

/// Returns the reason to refuse a file with a field of this name, which no export has.
pub(super) fn reason_for(name: &str) -> InvalidReason {
    const OF_CREDENTIALS: [&str; 9] =
        ["secret", "token", "password", "api_key", "apikey", "private_key", "wrapped", "kek", "credential"];
    let name = name.to_lowercase();
    let is_credential = OF_CREDENTIALS.iter().any(|part| name.contains(part));
    if is_credential { InvalidReason::CredentialField } else { InvalidReason::UnknownField }
}
