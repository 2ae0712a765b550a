//! Integration tests, in one program so that they link once. The folders are the layers of the core, and a
//! file has the name of the area that it tests, as in `svc-core/src`; `house` has the rules for all of the
//! project, `shells` what stands in front of the core. The generated tests go over the whole operation table;
//! the others tell what the service promises beyond it.

mod conversation;
mod coordination;
mod house;
mod identity;
mod integrity;
mod log;
mod op;
mod shells;
mod store;
