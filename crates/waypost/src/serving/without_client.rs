//! Stands in for the module `client` in a program that is built without it: no server can be reached.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use waypost_core::{Error, Result, url_text};

pub(crate) use crate::serving::wire::{Caller, ServerReply};

/// A connection that does not exist: this type has no values.
pub(crate) enum Client {}

/// Returns whether no other user can read requests to a URL, which is so because none is sent.
pub(crate) fn is_private(_url: &str) -> bool {
    true
}

impl Client {
    /// Refuses to reach a server.
    pub(crate) fn new(url: &str, _socket: Option<PathBuf>, _token: Option<String>) -> Result<Client> {
        Err(Error::unavailable(format!("cannot reach {}", url_text::without_password(url)))
            .because("this program was built without the client of servers"))
    }

    /// Cannot be called, because there is no connection.
    pub(crate) fn connect(&mut self) -> Result<()> {
        match *self {}
    }

    /// Cannot be called, because there is no connection.
    pub(crate) fn call(&mut self, _: &str, _: &Value, _: &Caller, _: Option<&str>) -> Result<ServerReply> {
        match *self {}
    }

    /// Cannot be called, because there is no connection.
    pub(crate) fn wait(&mut self, _: u64, _: Duration) -> Result<()> {
        match *self {}
    }
}
