//! Classes of database columns.

/// The class of a database column: the kind of data in the column. Determines whether exports contain the
/// column.
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
    /// Text that exported evidence always contains, such as a state, or JSON as text.
    Text,
    /// Free text that members write. Evidence that is exported without content omits this text.
    Words,
    /// Content that is encrypted under the key of a message.
    Sealed,
    /// The hash of an event, or a hash in the payload of an event.
    Hash,
    /// A digest of other columns, for finding the row.
    Digest,
    /// A credential, or a key of sealed content. Exports omit this column.
    Secret,
    /// Data that the instance derives from other data. Exports omit this column.
    Derived,
}

impl Class {
    /// Returns whether an export contains columns of this class.
    pub(crate) fn is_exported(self) -> bool {
        !matches!(self, Self::InstancePosition | Self::Secret | Self::Derived)
    }
}
