//! Stores on a PostgreSQL server.

mod failover;
mod frozen;
mod jobs;
mod servers;
