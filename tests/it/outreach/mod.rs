//! Mail and notifications for members.

mod mail;
mod mail_server;
mod mail_times;
mod overtaken;
mod push;
mod push_services;
mod refusals;
mod shares;
mod unsubscribing;
mod web_push;
