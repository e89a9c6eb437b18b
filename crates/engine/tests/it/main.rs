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
mod hints;
mod intervals;
mod leases;
mod line;
mod overlap;
mod planning;
mod prepared;
mod present;
mod process;
mod recall;
mod retention;
mod shards;
mod slots;
mod tally;
mod test_cluster;
mod tracer;
mod world;
