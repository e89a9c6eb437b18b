//! Jobs in real databases: a PostgreSQL server of our own, and SQLite files.

mod bed;
mod lost;
mod maintenance;
mod parameters;
mod procedure;
mod role;
mod script;
mod sqlite;
mod stop;
mod tls;
mod value;
