//! Decoding of headers and query strings, and hashing of secrets.

use axum::http::HeaderMap;
use sha2::{Digest as _, Sha256};
use waypost_core::{Error, Result};

use waypost::origin;

pub(super) fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
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
    let text = if name == origin::HEADER { text.to_owned() } else { decode(text).ok_or_else(undecodable)? };
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Parses a query string.
pub(super) fn pairs(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| decode(&text.replace('+', " ")).unwrap_or_else(|| text.to_owned());
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(name), decode(value))
        })
        .collect()
}

/// Decodes percent-encoding.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        if byte == b'%' {
            let (high, low) = (digit(rest.next())?, digit(rest.next())?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
