//! The executors on the real things: databases, servers, processes.

mod sql;
