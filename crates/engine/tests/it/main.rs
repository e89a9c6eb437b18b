//! The engine on a virtual clock: each test moves the time and takes the steps itself.

extern crate punctual_engine as engine;

mod agent_proxies;
mod alerts;
mod audit;
mod calendars;
mod clock;
mod cluster;
mod commands;
mod dag_messages;
mod dag_numbers;
mod dag_operations;
mod dag_versions;
mod dags;
mod data_path;
mod dependencies;
mod explain;
mod held;
mod hints;
mod intervals;
mod leases;
mod line;
mod overlap;
mod planning;
mod pools;
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
