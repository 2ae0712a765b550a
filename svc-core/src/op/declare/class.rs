//! Classes of columns: what each holds.

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// An id of something of the workspace. A copy has another one.
    Id,
    /// An id of a row of the same table that may come later.
    LaterId,
    /// A number, such as a position in the workspace's log, which a copy keeps.
    Int,
    /// A position in the instance's log, which is that of another instance elsewhere.
    InstancePosition,
    Time,
    Bool,
    /// Text that is part of the record, or JSON as text.
    Text,
    /// What somebody has said, as text: evidence without words does not have it.
    Words,
    /// Words that are sealed under the key of a message.
    Sealed,
    /// The hash of an event, or that an event names.
    Hash,
    /// A digest of other columns, by which a row is found again.
    Digest,
    /// What proves who somebody is, or opens what is sealed. It never leaves the instance.
    Secret,
    /// What the instance makes by itself. It never leaves it either.
    Derived,
}

impl Class {
    /// Returns whether an export has it.
    pub(crate) fn is_exported(self) -> bool {
        !matches!(self, Self::InstancePosition | Self::Secret | Self::Derived)
    }
}
