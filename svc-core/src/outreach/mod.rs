//! Notifications outside of the service: preferences and delivery; and the pages that people open.
//!
//! - `hours`: quiet hours and the times of digests, and `preferences`: the notifications that each member
//!   wants
//! - `workspace_turns`: selects the workspaces with something to deliver
//! - `delivery_address`: the email addresses of members, and `mail`: the emails to them
//! - `unsubscribe`: the link in an email that turns emails off
//! - `web_push`: the browsers of members, and `push`: the notifications pushed to them
//! - `board`: the pages

mod hours;
mod workspace_turns;
pub(crate) mod delivery_address;
pub(crate) mod unsubscribe;
pub(crate) mod web_push;
pub(crate) mod preferences;
pub(crate) mod mail;
pub(crate) mod push;
pub(crate) mod board;
