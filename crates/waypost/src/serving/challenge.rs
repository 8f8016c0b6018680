//! The proof that a program on a port is the server: without it, no token is sent there.
//!
//! Any program of any user can listen on a port of this machine. The client sends a random challenge, and the server
//! answers with a code over it that only a holder of the token's hash can compute. The code also covers the addresses of both
//! ends of the connection: another program cannot pass the challenge on to the server, because its own connection to the
//! server has other ends.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use waypost_core::digest::hex;
use waypost_core::{Error, Result};

use crate::serving::tokens::{hash_token, is_equal, random_hex};

/// Number of hexadecimal digits of a nonce or a code.
const DIGITS: usize = 64;

/// The addresses of both ends of a connection. Client and server see the same ones, unless a program between them forwards
/// what they send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    client: SocketAddr,
    server: SocketAddr,
}

impl Ends {
    /// The ends of a connection. A socket for both families reports addresses of IPv4 as mapped ones.
    pub fn new(client: SocketAddr, server: SocketAddr) -> Ends {
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Ends { client: plain(client), server: plain(server) }
    }

    /// The ends of a connection over a Unix socket, which have no addresses. Its path alone decides who listens there.
    pub fn of_socket() -> Ends {
        let none = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Ends { client: none, server: none }
    }

    /// Returns whether both ends are on this machine.
    pub fn are_on_this_machine(&self) -> bool {
        self.server.ip().is_loopback() || self.server.ip() == self.client.ip()
    }
}

/// The challenge of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The connection on which the token will be sent.
    ends: Ends,
    /// Random digits.
    nonce: String,
    /// A code over the nonce, by which the server finds the token. It does not reveal the token or its hash.
    key: String,
}

impl Challenge {
    /// Draws a challenge about a token.
    pub fn draw(secret: &str, ends: Ends) -> Challenge {
        let nonce = random_hex(DIGITS / 2);
        let key = code(&hash_token(secret), &["key", &nonce]);
        Challenge { ends, nonce, key }
    }

    /// Reads a challenge from a request on a connection.
    pub fn read(ends: Ends, nonce: &str, key: &str) -> Result<Challenge> {
        let is_code = |text: &str| text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_code(nonce) || !is_code(key) {
            return Err(Error::invalid(format!("nonce and key must have {DIGITS} hexadecimal digits")));
        }
        Ok(Challenge { ends, nonce: nonce.to_owned(), key: key.to_owned() })
    }

    /// Returns the parameters of the request.
    pub fn query(&self) -> String {
        format!("nonce={}&key={}", self.nonce, self.key)
    }

    /// Returns the proof, if the challenge is about the token with this hash.
    pub fn answer(&self, token_hash: &str) -> Option<String> {
        let is_meant = is_equal(&code(token_hash, &["key", &self.nonce]), &self.key);
        let Ends { client, server } = self.ends;
        is_meant.then(|| code(token_hash, &["server", &self.nonce, &client.to_string(), &server.to_string()]))
    }

    /// Returns whether a proof shows that the server knows the token.
    pub fn is_proved_by(&self, secret: &str, proof: &str) -> bool {
        self.answer(&hash_token(secret)).is_some_and(|expected| is_equal(&expected, proof))
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

    fn ends(client: &str, server: &str) -> Ends {
        Ends::new(client.parse().unwrap(), server.parse().unwrap())
    }

    #[test]
    fn only_the_server_at_the_other_end_that_knows_the_token_can_prove_it() {
        let own = ends("127.0.0.1:50000", "127.0.0.1:7717");
        let challenge = Challenge::draw("wayt_secret", own);
        let proof = challenge.answer(&hash_token("wayt_secret")).unwrap();
        assert!(challenge.is_proved_by("wayt_secret", &proof));
        assert!(!challenge.is_proved_by("wayt_other", &proof));
        assert_eq!(challenge.answer(&hash_token("wayt_other")), None);
        // A program passes the challenge on to the server, from whatever address it can have.
        for (client, server) in [
            ("127.0.0.1:50001", "127.0.0.1:7717"),
            ("127.0.0.2:50000", "127.0.0.1:7717"),
            ("127.0.0.1:50000", "127.0.0.2:7717"),
            ("127.0.0.1:50000", "127.0.0.1:9999"),
            ("[::1]:50000", "[::1]:7717"),
            ("[::1]:50000", "127.0.0.1:7717"),
        ] {
            let relayed = Challenge::read(ends(client, server), &challenge.nonce, &challenge.key).unwrap();
            let answer = relayed.answer(&hash_token("wayt_secret")).unwrap();
            assert!(!challenge.is_proved_by("wayt_secret", &answer), "{client} {server}");
        }
        let again = Challenge::draw("wayt_secret", own);
        assert!(!again.is_proved_by("wayt_secret", &proof), "a proof is valid once");
        assert!(Challenge::read(own, "x", &challenge.key).is_err());
    }

    #[test]
    fn both_ends_see_the_same_addresses_and_whether_they_are_on_this_machine() {
        let plain = ends("127.0.0.1:50000", "127.0.0.1:7717");
        assert_eq!(ends("[::ffff:127.0.0.1]:50000", "[::ffff:127.0.0.1]:7717"), plain);
        for (client, server) in [
            ("127.0.0.1:5", "127.0.0.1:7"),
            ("127.0.0.1:5", "127.0.0.2:7"),
            ("[::1]:5", "[::1]:7"),
            ("[::ffff:127.0.0.1]:5", "[::ffff:127.0.0.1]:7"),
            ("10.0.0.5:5", "10.0.0.5:7"),
            ("[fd00::2]:5", "[fd00::2]:7"),
        ] {
            assert!(ends(client, server).are_on_this_machine(), "{client} {server}");
        }
        assert!(!ends("10.0.0.5:5", "10.0.0.6:7").are_on_this_machine());
    }
}
