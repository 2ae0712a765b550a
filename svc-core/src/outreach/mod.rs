//! What leaves the service: which notifications members want outside of it, and how these get there; and the
//! pages that people open.
//!
//! - `hours`: quiet hours and the times of digests, and `preferences`: what each member wants
//! - `turns`: which workspaces have something waiting
//! - `delivery_address`: where members are mailed, and `mail`: what they are mailed
//! - `unsubscribe`: the link in a mail that turns mail off
//! - `web_push`: the browsers of members, and `push`: what they are told
//! - `board`: the pages

mod hours;
mod turns;
pub(crate) mod delivery_address;
pub(crate) mod unsubscribe;
pub(crate) mod web_push;
pub(crate) mod preferences;
pub(crate) mod mail;
pub(crate) mod push;
pub(crate) mod board;
