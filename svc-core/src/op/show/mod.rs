//! Projections of the table: OpenAPI, MCP tools, contracts and manual pages. The projections contain no rules
//! of their own.

pub mod contract;
pub mod routes;
mod tool_text;
pub mod mcp;
pub mod manual;
pub mod openapi;
