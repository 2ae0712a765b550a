//! The effect of calling an operation, which determines whether calls are recorded, repeated or need a
//! confirmation.

/// The effect of calling an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes nothing; returns when something has happened, or the timeout expires.
    Wait,
    /// Adds something on each call.
    Write,
    /// Changes something; a second identical call changes nothing more.
    Idempotent,
    /// Ends or removes something.
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

    /// Returns whether a call changes nothing.
    pub fn changes_nothing(self) -> bool {
        matches!(self, Self::Read | Self::Wait)
    }
}
