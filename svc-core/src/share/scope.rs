//! The scopes of a ceiling: client, workspace and server.

/// The level at which the places of a ceiling are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CeilingScope {
    /// The places of the client are used up.
    Client,
    /// The places of the workspace are used up.
    Workspace,
    /// The places of the whole server are used up.
    Server,
}

impl CeilingScope {
    /// Returns the name of the scope, as error messages contain it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Workspace => "workspace",
            Self::Server => "server",
        }
    }
}
