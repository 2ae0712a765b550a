//! Classes of columns: the kind of data in each.

/// The kind of data in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Id of an object of the workspace. A copy of the workspace gets a new id.
    Id,
    /// Id of a row of the same table, which an export may contain after this row.
    LaterId,
    /// A number that a copy of the workspace keeps, such as a position in the workspace's log.
    Int,
    /// A position in the instance's log, which has no meaning on another instance.
    InstancePosition,
    Time,
    Bool,
    /// Text that is part of the record, or JSON as text.
    Text,
    /// Free text that members write. Exported evidence without content omits it.
    Words,
    /// Content that is encrypted under the key of a message.
    Sealed,
    /// The hash of an event, or a hash in the payload of an event.
    Hash,
    /// A digest of other columns, by which a row is found.
    Digest,
    /// A credential, or a key of sealed content. Never leaves the instance.
    Secret,
    /// Data that the instance derives. Never leaves the instance.
    Derived,
}

impl Class {
    /// Returns whether an export contains columns of this class.
    pub(crate) fn is_exported(self) -> bool {
        !matches!(self, Self::InstancePosition | Self::Secret | Self::Derived)
    }
}
