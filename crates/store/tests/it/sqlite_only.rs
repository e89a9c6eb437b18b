//! Behaviour of the embedded store: one file, one process, an injected clock, and disks that fail.

mod child;
mod clock;
mod copy;
mod disk;
mod kill;
mod plans;
mod readers;
mod reopen;
mod starts;
