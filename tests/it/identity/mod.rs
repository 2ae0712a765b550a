//! Members and tokens: who may act, and with whose authority.

mod authority;
mod tokens;
