//! A workspace as a file: export, verification, import and erasure.

mod charged;
mod copies;
mod earlier;
mod erasing;
pub mod exports;
mod files;
mod hidden;
mod imports;
pub mod origin;
mod tampering;
mod together;
mod transfers;
