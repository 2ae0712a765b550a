//! Tickets by which strangers read one channel.

mod tickets;
