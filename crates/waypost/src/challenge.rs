//! The proof that a program on a port is the server: without it, no token is sent there.
//!
//! Any program of any user can listen on a port of this machine. The client sends a random challenge, and the server
//! answers with a code over it that only a holder of the token's hash can compute. The code also covers the host and port
//! that the client connected to: another program cannot pass the challenge on to the server, because that answers for its
//! own address only.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use waypost_core::digest::hex;
use waypost_core::{Error, Result};

use crate::tokens::{hash, is_equal, random_hex};

/// Number of hexadecimal digits of a nonce or a code.
const DIGITS: usize = 64;

/// The challenge of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The host and port of the server, as the client addresses it.
    host: String,
    /// Random digits.
    nonce: String,
    /// A code over the nonce, by which the server finds the token. It does not reveal the token or its hash.
    key: String,
}

impl Challenge {
    /// Draws a challenge about a token.
    pub fn draw(secret: &str, host: &str) -> Challenge {
        let nonce = random_hex(DIGITS / 2);
        let key = code(&hash(secret), &["key", &nonce]);
        Challenge { host: host.to_owned(), nonce, key }
    }

    /// Reads a challenge from a request to this host.
    pub fn read(host: &str, nonce: &str, key: &str) -> Result<Challenge> {
        let is_code = |text: &str| text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_code(nonce) || !is_code(key) {
            return Err(Error::invalid(format!("nonce and key must have {DIGITS} hexadecimal digits")));
        }
        Ok(Challenge { host: host.to_owned(), nonce: nonce.to_owned(), key: key.to_owned() })
    }

    /// Returns the parameters of the request.
    pub fn query(&self) -> String {
        format!("nonce={}&key={}", self.nonce, self.key)
    }

    /// Returns the proof, if the challenge is about the token with this hash.
    pub fn answer(&self, token_hash: &str) -> Option<String> {
        let is_meant = is_equal(&code(token_hash, &["key", &self.nonce]), &self.key);
        is_meant.then(|| code(token_hash, &["server", &self.nonce, &self.host.to_ascii_lowercase()]))
    }

    /// Returns whether a proof shows that the server knows the token.
    pub fn is_proved_by(&self, secret: &str, proof: &str) -> bool {
        self.answer(&hash(secret)).is_some_and(|expected| is_equal(&expected, proof))
    }
}

/// Returns the HMAC-SHA-256 of some parts in hexadecimal.
fn code(key: &str, parts: &[&str]) -> String {
    let code = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("a key may have any length");
    hex(&code.chain_update(format!("waypost {}", parts.join("\0"))).finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_an_hmac() {
        // printf 'waypost what do ya want\0for nothing?' | openssl dgst -sha256 -hmac Jefe
        let expected = "c4db98b7946e2146af53dca737bd85794b801b3e41c284cc442d83b18fc1c841";
        assert_eq!(code("Jefe", &["what do ya want", "for nothing?"]), expected);
    }

    #[test]
    fn only_the_server_that_was_addressed_and_knows_the_token_can_prove_it() {
        let challenge = Challenge::draw("wayt_secret", "127.0.0.1:7717");
        let proof = challenge.answer(&hash("wayt_secret")).unwrap();
        assert!(challenge.is_proved_by("wayt_secret", &proof));
        assert!(!challenge.is_proved_by("wayt_other", &proof));
        assert_eq!(challenge.answer(&hash("wayt_other")), None);
        // A program on another port passes the challenge on to the server.
        let relayed = Challenge::read("127.0.0.1:9999", &challenge.nonce, &challenge.key).unwrap();
        assert!(!challenge.is_proved_by("wayt_secret", &relayed.answer(&hash("wayt_secret")).unwrap()));
        let again = Challenge::draw("wayt_secret", "127.0.0.1:7717");
        assert!(!again.is_proved_by("wayt_secret", &proof), "a proof is valid once");
        assert!(Challenge::read("h", "x", &challenge.key).is_err());
    }
}
