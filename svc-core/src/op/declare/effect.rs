//! The effect of calling an operation, which determines whether calls are recorded, repeated or need a
//! confirmation.

/// The effect of calling an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes no data.
    Read,
    /// Changes no data. Returns when an awaited event has occurred, or when the timeout expires.
    Wait,
    /// Adds an object on each call.
    Write,
    /// Changes data. A second identical call changes nothing more.
    Idempotent,
    /// Ends or removes an object.
    Destructive,
}

impl Effect {
    /// Returns the name of the effect in contracts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Wait => "wait",
            Self::Write => "write",
            Self::Idempotent => "idempotent",
            Self::Destructive => "destructive",
        }
    }

    /// Returns whether calls of the operation change no data.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::Read | Self::Wait)
    }
}
