//! Tickets that let outsiders read one channel.

mod tickets;
