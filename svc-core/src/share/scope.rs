//! The scopes of a ceiling.

/// The level at which a ceiling is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CeilingScope {
    /// The client's.
    Client,
    /// The workspace's.
    Workspace,
    /// The server's.
    Server,
}

impl CeilingScope {
    /// Returns the name of the scope in errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Workspace => "workspace",
            Self::Server => "server",
        }
    }
}
