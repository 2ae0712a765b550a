//! Integration tests, in one program so that they link once.
//!
//! The folders are the layers of the core, and a file has the name of the area that it tests, as in
//! `svc-core/src`; `house` has the rules for the whole project, `shells` the tests of the shells in front of
//! the core, `embed` those of programs that embed the core, and `attacks` the limits of what one workspace
//! may take from others. The generated tests cover the whole operation table; the others test the guarantees
//! of the service beyond it.

mod attacks;
mod audit;
mod conversation;
mod coordination;
mod embed;
mod gates;
mod house;
mod identity;
mod log;
mod op;
mod outreach;
mod portability;
mod retention;
mod sharing;
mod shells;
mod store;
mod stream;
