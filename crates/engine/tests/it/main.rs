//! The engine on a virtual clock: each test moves the time and takes the steps itself.

mod alerts;
mod audit;
mod clock;
mod cluster;
mod commands;
mod corridor;
mod dependencies;
mod explain;
mod guests;
mod leases;
mod overlap;
mod process;
mod retention;
mod tally;
mod tracer;
mod world;
