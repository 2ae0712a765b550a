//! The table shown to others: OpenAPI, MCP tools, contracts, manual pages. Projections that decide nothing.

pub mod contract;
pub mod manual;
pub mod mcp;
pub mod openapi;
