//! What leaves the service for its members.

mod mail;
mod mail_server;
mod mail_times;
mod overtaken;
mod push;
mod push_services;
mod shares;
mod web_push;
