//! What only the embedded store can show: one file, one process, a clock that is handed in, and
//! disks that fail.

mod child;
mod clock;
mod copy;
mod disk;
mod kill;
mod plans;
mod readers;
mod reopen;
mod starts;
