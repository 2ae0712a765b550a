//! Classes of columns: the kind of data in each.

/// The kind of data in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// An id of an object of the workspace. A copy has another one.
    Id,
    /// An id of a row of the same table that may come later.
    LaterId,
    /// A number, such as a position in the workspace's log, which a copy keeps.
    Int,
    /// A position in the instance's log, which means nothing on another instance.
    InstancePosition,
    Time,
    Bool,
    /// Text that is part of the record, or JSON as text.
    Text,
    /// Free text of members: evidence without content omits it.
    Words,
    /// Content that is sealed under the key of a message.
    Sealed,
    /// The hash of an event, or a hash that an event names.
    Hash,
    /// A digest of other columns, by which a row is found.
    Digest,
    /// A credential, or a key of sealed content. It never leaves the instance.
    Secret,
    /// Data that the instance derives. It never leaves the instance either.
    Derived,
}

impl Class {
    /// Returns whether an export contains it.
    pub(crate) fn is_exported(self) -> bool {
        !matches!(self, Self::InstancePosition | Self::Secret | Self::Derived)
    }
}
