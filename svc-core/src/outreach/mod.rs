//! Notifications outside of the service, by email and web push, and the pages of the board.
//!
//! - `hours`: computes quiet hours and digest times, `preferences`: stores which notifications members want
//! - `workspace_turns`: selects the workspaces with due notifications
//! - `delivery_address`: stores and confirms email addresses, `mail`: sends emails to them
//! - `unsubscribe`: handles the link in an email that turns emails off
//! - `web_push`: registers browsers, `push`: sends notifications to them
//! - `board`: declares the web pages of the board

pub(crate) mod hours;
mod workspace_turns;
pub(crate) mod delivery_address;
pub(crate) mod unsubscribe;
pub(crate) mod web_push;
pub(crate) mod preferences;
pub(crate) mod mail;
pub(crate) mod push;
pub(crate) mod board;
