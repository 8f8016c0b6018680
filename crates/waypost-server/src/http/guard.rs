//! Checks of the host and the origin of every request, before authentication.
//!
//! A foreign web page, opened in a browser on this machine, can send requests to the server too. It cannot choose their
//! `Host` and `Origin`, nor send JSON without a CORS preflight, and the server never answers a preflight.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use waypost_core::seeded::seeded_bug;

use crate::mcp::Allowed;

/// The host names of the server.
pub(crate) struct Names {
    /// The names in lower case, with the port unless it is the default one.
    names: Vec<String>,
}

impl Names {
    /// The loopback addresses, and the configured names.
    pub(crate) fn new(port: Option<u16>, allowed: &[String]) -> Names {
        let mut names = Vec::new();
        if let Some(port) = port {
            for host in ["127.0.0.1", "localhost", "[::1]"] {
                names.push(format!("{host}:{port}"));
                if port == 80 {
                    names.push(host.to_owned());
                }
            }
        }
        names.extend(allowed.iter().map(|name| name.to_ascii_lowercase()));
        Names { names }
    }

    /// Returns the same names for the MCP endpoint, which checks them again.
    pub(crate) fn allowed(&self) -> Allowed {
        // Clients of the Unix socket send this name.
        let hosts = self.names.iter().cloned().chain(["localhost".to_owned()]).collect();
        let origins = self.names.iter().flat_map(|name| ["http", "https"].map(|scheme| format!("{scheme}://{name}")));
        Allowed { hosts, origins: origins.collect() }
    }

    fn contains(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        self.names.contains(&name)
    }
}

/// How a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Over the network, including loopback.
    Network,
    /// Over a Unix socket, from a process of the same user.
    Socket,
    /// Over the socket of a job, or from a process of a job over that of the owner.
    JobSocket,
}

/// Returns the status and the message with which a request is rejected.
pub(crate) fn check(
    names: &Names,
    transport: Transport,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), (u16, &'static str)> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err((403, "a request must have exactly one Host header"));
    };
    let Ok(host) = host.to_str() else { return Err((403, "the Host header is not text")) };
    let is_own_name = |name: &str| match transport {
        Transport::Network => names.contains(name),
        Transport::Socket | Transport::JobSocket => name.eq_ignore_ascii_case("localhost"),
    };
    if (!is_own_name(host) && !seeded_bug("accept_any_host"))
        || uri.authority().is_some_and(|authority| !is_own_name(authority.as_str()))
    {
        return Err((403, "the Host header does not name this server"));
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => {}
        (Some(origin), None) => {
            let origin = origin.to_str().unwrap_or_default();
            let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            // No browser uses a Unix socket.
            let is_own = transport == Transport::Network && name.is_some_and(|name| name.eq_ignore_ascii_case(host));
            if !is_own && !seeded_bug("accept_any_origin") {
                return Err((403, "the Origin header does not name this server"));
            }
        }
        _ => return Err((403, "a request must have at most one Origin header")),
    }
    for site in headers.get_all("sec-fetch-site") {
        if site != "same-origin" && site != "none" {
            return Err((403, "cross-site request"));
        }
    }
    // A form can send a POST request without a preflight, but no JSON.
    let has_type = headers.contains_key(header::CONTENT_TYPE) && !matches!(*method, Method::GET | Method::HEAD);
    if (has_body(headers) || has_type) && !is_json(headers) {
        return Err((415, "the content type must be application/json"));
    }
    Ok(())
}

/// Returns whether a request has a body.
fn has_body(headers: &HeaderMap) -> bool {
    let is_empty = headers.get(header::CONTENT_LENGTH).is_none_or(|length| length == "0");
    !is_empty || headers.contains_key(header::TRANSFER_ENCODING)
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(one), None) = (types.next(), types.next()) else { return false };
    let kind = one.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// The security headers of every response.
pub(crate) static HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"),
    ),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(transport: Transport, uri: &str, headers: &[(&str, &str)]) -> Result<(), (u16, &'static str)> {
        let names = Names::new(Some(7777), &["way.example.org".to_owned()]);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        check(&names, transport, &Method::GET, &uri.parse().unwrap(), &map)
    }

    #[test]
    fn t1_only_requests_to_own_host_names_are_accepted() {
        for host in ["127.0.0.1:7777", "localhost:7777", "LOCALHOST:7777", "[::1]:7777", "way.example.org"] {
            assert_eq!(checked(Transport::Network, "/", &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "",
            "evil.com",
            "evil.com:7777",
            "127.0.0.1",
            "127.0.0.1:7778",
            "127.0.0.1:07777",
            "127.0.0.1:7777.",
            "127.0.0.1.:7777",
            "localhost",
            "localhost.:7777",
            "localhost:7777 ",
            "localhost:7777@evil.com",
            "user@localhost:7777",
            "0.0.0.0:7777",
            "0:7777",
            "127.1:7777",
            "2130706433:7777",
            "0x7f.1:7777",
            "[::]:7777",
            "[::ffff:127.0.0.1]:7777",
            "::1:7777",
            "localhost.evil.com:7777",
            "evil.localhost:7777",
            "way.example.org:7777",
            "way.example.org.",
            "way.example.org.evil.com",
            "xway.example.org",
            "localhost:7777,evil.com",
            "localhost:7777/evil.com",
        ] {
            assert!(checked(Transport::Network, "/", &[("host", host)]).is_err(), "{host:?}");
        }
        assert!(checked(Transport::Network, "/", &[]).is_err(), "no Host");
        let twice = [("host", "localhost:7777"), ("host", "evil.com")];
        assert!(checked(Transport::Network, "/", &twice).is_err(), "two Hosts");
        let own_host = [("host", "localhost:7777")];
        assert!(checked(Transport::Network, "http://evil.com/", &own_host).is_err(), "an absolute URI");
        assert_eq!(checked(Transport::Network, "http://localhost:7777/", &own_host), Ok(()));
        assert_eq!(checked(Transport::Socket, "/", &[("host", "localhost")]), Ok(()));
        assert!(checked(Transport::Socket, "/", &[("host", "evil.com")]).is_err());
    }

    #[test]
    fn t3_requests_with_a_foreign_origin_are_refused() {
        let with = |origin: &str| checked(Transport::Network, "/", &[("host", "localhost:7777"), ("origin", origin)]);
        assert_eq!(with("http://localhost:7777"), Ok(()));
        for origin in [
            "null",
            "",
            "http://localhost",
            "http://localhost:3000",
            "http://127.0.0.1:7777",
            "http://evil.com",
            "https://evil.com",
            "localhost:7777",
            "file://",
            "http://localhost:7777.evil.com",
        ] {
            assert!(with(origin).is_err(), "{origin:?}");
        }
        let socket_headers = [("host", "localhost"), ("origin", "http://localhost")];
        assert!(checked(Transport::Socket, "/", &socket_headers).is_err());
    }

    #[test]
    fn t2_cross_site_requests_and_other_content_types_are_refused() {
        for (site, is_accepted) in [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)]
        {
            let headers = [("host", "localhost:7777"), ("sec-fetch-site", site)];
            assert_eq!(checked(Transport::Network, "/", &headers).is_ok(), is_accepted, "{site}");
        }
        let names = Names::new(Some(1), &[]);
        let post = |kind: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("localhost:1"));
            if let Some(kind) = kind {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            }
            for (name, value) in [("content-length", "2"), ("transfer-encoding", "chunked")] {
                let mut headers = headers.clone();
                headers.insert(name, HeaderValue::from_static(value));
                for method in [Method::GET, Method::POST, Method::PATCH, Method::DELETE] {
                    let checked = check(&names, Transport::Network, &method, &Uri::from_static("/"), &headers);
                    assert_eq!(checked.is_ok(), is_json(&headers), "{method} {kind:?} with a body");
                }
            }
            check(&names, Transport::Network, &Method::POST, &Uri::from_static("/"), &headers).is_ok()
        };
        assert!(post(Some("application/json")) && post(Some("Application/JSON; charset=utf-8")));
        assert!(post(None), "a request without a body needs no content type");
        for kind in [Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("multipart/form-data")] {
            assert!(!post(kind), "{kind:?}");
        }
    }
}
