//! Decoding of headers and query strings, and hashing of secrets.

use axum::http::HeaderMap;
use waypost_core::digest::sha256;
use waypost_core::{Error, Result};

use crate::percent;
use waypost::app::origin;

pub(super) fn hash(secret: &str) -> [u8; 32] {
    sha256(secret)
}

/// Returns a header whose value is percent-encoded where it is not ASCII.
pub(super) fn text_header(headers: &HeaderMap, name: &str) -> Result<Option<String>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let undecodable = || Error::invalid(format!("cannot decode header {name}"));
    if values.next().is_some() {
        return Err(Error::invalid(format!("duplicate header {name}")));
    }
    let text = value.to_str().map_err(|_| undecodable())?;
    let text = if name == origin::HEADER { text.to_owned() } else { percent::decode(text).ok_or_else(undecodable)? };
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Parses a query string.
pub(super) fn pairs(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}
