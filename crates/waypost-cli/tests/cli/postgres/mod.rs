//! Stores on a PostgreSQL server.

mod conflicts;
mod failover;
mod frozen;
mod jobs;
mod servers;
