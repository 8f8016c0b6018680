//! Stores on a PostgreSQL server.

mod failover;
mod frozen;
mod servers;
