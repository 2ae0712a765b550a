//! What leaves the service.

mod mail;
mod mail_server;
mod mail_times;
