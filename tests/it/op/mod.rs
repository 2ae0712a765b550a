//! Operations: who is let in, who sees what, and how requests are read, run, awaited and answered in pages.

mod access;
mod admission;
mod borders;
mod chores;
mod extension;
mod hooks;
mod input;
mod long_reads;
mod pages;
mod refusals;
mod waits;
