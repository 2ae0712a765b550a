//! Reasons why an export file is refused.

use serde::Serialize;

use crate::error::{Code, Error};

/// Reason why an export file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvalidReason {
    /// The file is not an export, or has a newer version.
    NotAnExport,
    /// The file ends before the export is complete.
    Truncated,
    /// Records are out of order.
    Order,
    /// The records do not match the manifest, or the manifest is not the one that was signed.
    Hash,
    /// A signature does not match the manifest.
    Signature,
    /// The file was not signed with a key that this service knows.
    UnknownKey,
    /// The file contains a field whose name indicates a credential.
    CredentialField,
    /// The file contains a field that does not occur in exports.
    UnknownField,
    /// The log in the file does not verify.
    Chain,
}

/// A fault in an export file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidFile {
    /// The reason why the file is refused.
    pub reason: InvalidReason,
    /// The number of the faulty record, from 1; `None` if the fault is not in a record.
    pub record: Option<u64>,
    /// Description of the fault.
    pub detail: String,
}

impl InvalidFile {
    pub(super) fn new(reason: InvalidReason, detail: impl Into<String>) -> Self {
        Self { reason, record: None, detail: detail.into() }
    }

    /// Returns the fault to report if the service could not store the file.
    pub(super) fn not_stored() -> Self {
        Self::new(InvalidReason::NotAnExport, "the file could not be stored")
    }

    /// Converts the fault to an error for the caller.
    pub fn into_error(self) -> Error {
        Error::new(Code::ExportInvalid, self.detail).with("reason", self.reason).with("record", self.record)
    }
}

/// Returns the reason for refusing a file with a field of this name, which does not occur in exports.
pub(super) fn reason_for_field(name: &str) -> InvalidReason {
    const CREDENTIAL_NAMES: [&str; 9] =
        ["secret", "token", "password", "api_key", "apikey", "private_key", "wrapped", "kek", "credential"];
    let name = name.to_lowercase();
    let is_credential = CREDENTIAL_NAMES.iter().any(|part| name.contains(part));
    if is_credential { InvalidReason::CredentialField } else { InvalidReason::UnknownField }
}
