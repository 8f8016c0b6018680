//! The server, database and schema of a URL, and the security of the connection.
//!
//! A connection to another machine is encrypted, and the server's certificate is verified, whatever `sslmode` says; only
//! an explicit `sslmode=disable` turns that off, for networks that are secured by other means. On this machine, over a
//! Unix socket or the loopback, the connection is plain unless `sslmode` requires more.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use waypost_core::digest::fnv;
use waypost_core::{Error, Result, url_text};

/// The schema of a URL that names none.
pub(super) const DEFAULT_SCHEMA: &str = "waypost";
/// The maximum time to connect, if the URL does not set one.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long sent bytes may stay unacknowledged before the connection counts as lost.
const TCP_TIMEOUT: Duration = Duration::from_secs(15);
/// PostgreSQL truncates longer identifiers.
const MAX_NAME_BYTES: usize = 63;
/// The directories with the sockets of local servers, used if the URL names no host.
const SOCKET_DIRS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// The address of a store. It contains the password, so it cannot be printed.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) schema: String,
    /// The role that is meant to own the schema, if it is not an obvious one.
    pub(super) owner: Option<String>,
    pub(super) security: Security,
    shown: String,
}

/// The security of the connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Security {
    /// Not encrypted: the connection stays on this machine, or the URL disables encryption.
    Plain,
    /// Encrypted. The server's certificate is verified with these authorities, or with the system's.
    Verified { authorities: Option<PathBuf> },
}

impl Address {
    /// Returns whether the connection goes over a Unix socket.
    pub(super) fn is_socket(&self) -> bool {
        self.config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)))
    }

    pub(super) fn parse(url: &str, timeout: Duration) -> Result<Address> {
        let shown = url_text::without_password(url);
        // The driver's message may quote the URL with its password, so only the source of the error is kept.
        let invalid = |why: &str| Error::invalid(format!("{shown} is not a URL of a store: {why}"));
        let (rest, own) = split(url).map_err(|why| invalid(&why))?;
        let mut config = Config::from_str(&rest).map_err(|error| {
            invalid(&std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
        })?;
        let schema = own.schema.unwrap_or_else(|| DEFAULT_SCHEMA.to_owned());
        check_schema(&schema).map_err(|why| invalid(&why))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host_path(SOCKET_DIRS.iter().find(|dir| Path::new(dir).is_dir()).unwrap_or(&SOCKET_DIRS[1]));
        }
        let is_local =
            config.get_hosts().iter().all(is_this_machine) && config.get_hostaddrs().iter().all(IpAddr::is_loopback);
        let security = match own.sslmode.as_deref() {
            Some("disable") => Security::Plain,
            None | Some("allow" | "prefer") if is_local => Security::Plain,
            None | Some("allow" | "prefer" | "require" | "verify-ca" | "verify-full") => {
                Security::Verified { authorities: own.sslrootcert.filter(|file| file.as_os_str() != "system") }
            }
            Some(_) => return Err(invalid("sslmode is disable or verify-full")),
        };
        config.ssl_mode(if security == Security::Plain { SslMode::Disable } else { SslMode::Require });
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(DEFAULT_CONNECT_TIMEOUT.min(timeout.max(Duration::from_secs(1))));
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(TCP_TIMEOUT);
        }
        config.keepalives(true).keepalives_idle(TCP_TIMEOUT).keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(3);
        if config.get_application_name().is_none() {
            // The error of a process that waits for the lock shows this name.
            config.application_name(format!("way, process {}", std::process::id()));
        }
        if config.get_hosts().len() > 1 {
            // Of several servers only the primary has current data.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(Address { config, schema, owner: own.owner, security, shown })
    }

    /// Returns the URL without the password.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns a name in the store's schema, as SQL.
    pub(super) fn qualified(&self, name: &str) -> String {
        format!("\"{}\".{name}", self.schema)
    }

    /// Returns a number that stands for the schema.
    fn number(&self) -> i64 {
        fnv(format!("waypost {}", self.schema).as_bytes()).cast_signed()
    }

    /// Returns the channel on which writers of this schema send notifications. Any role can send some too, so they are only
    /// a hint to read the store.
    pub(super) fn channel(&self) -> String {
        format!("waypost_{:016x}", self.number())
    }
}

/// The URL parameters that Waypost handles, because the driver does not know them or treats them differently.
#[derive(Default)]
struct Own {
    schema: Option<String>,
    owner: Option<String>,
    sslmode: Option<String>,
    sslrootcert: Option<PathBuf>,
}

/// Removes Waypost's parameters from a URL.
fn split(url: &str) -> Result<(String, Own), String> {
    // The driver, too, ends the password at the first `@`.
    let after_user = url.find('@').map_or(0, |at| at + 1);
    let Some(mark) = url[after_user..].find('?').map(|at| after_user + at) else {
        return Ok((url.to_owned(), Own::default()));
    };
    let mut own = Own::default();
    let mut others = Vec::new();
    for parameter in url[mark + 1..].split('&').filter(|parameter| !parameter.is_empty()) {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match key {
            "schema" => own.schema = Some(decode(value)?),
            "owner" => own.owner = Some(decode(value)?),
            "sslmode" => own.sslmode = Some(decode(value)?),
            "sslrootcert" => own.sslrootcert = Some(decode(value)?.into()),
            _ => others.push(parameter),
        }
    }
    Ok((format!("{}?{}", &url[..mark], others.join("&")), own))
}

fn decode(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| "a parameter is not UTF-8")?;
    Ok(decoded.into_owned())
}

fn check_schema(name: &str) -> Result<(), String> {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_plain = name.bytes().all(is_word) && !name.is_empty() && name.len() <= MAX_NAME_BYTES;
    if is_plain && !name.starts_with("pg_") && name != "information_schema" {
        Ok(())
    } else {
        Err(format!("{name:?} is not a valid schema name: use letters a-z, digits and _"))
    }
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address> {
        Address::parse(url, Duration::from_secs(30))
    }

    fn security(url: &str) -> Security {
        parse(url).unwrap().security
    }

    #[test]
    fn t37_the_certificate_of_another_machine_is_verified() {
        for mode in ["", "?sslmode=prefer", "?sslmode=require", "?sslmode=verify-full", "?sslrootcert=system"] {
            let url = format!("postgres://me@db.example.org/way{mode}");
            assert_eq!(security(&url), Security::Verified { authorities: None }, "{url}");
            assert_eq!(parse(&url).unwrap().config.get_ssl_mode(), SslMode::Require);
        }
        let named = security("postgres://me@10.0.0.7/way?sslrootcert=%2Fetc%2Fca.pem&connect_timeout=3");
        assert_eq!(named, Security::Verified { authorities: Some("/etc/ca.pem".into()) });
        assert_eq!(security("postgres://me@localhost,db.example.org/way"), Security::Verified { authorities: None });
        assert_eq!(security("postgres://me@localhost/way?hostaddr=10.0.0.7"), Security::Verified { authorities: None });
    }

    #[test]
    fn a_local_connection_is_plain_unless_sslmode_requires_more() {
        for host in ["localhost", "127.0.0.1:5433", "[::1]", "%2Ftmp%2Fsockets", ""] {
            assert_eq!(security(&format!("postgres://me@{host}/way")), Security::Plain, "{host}");
        }
        assert_eq!(
            security("postgres://me@localhost/way?sslmode=verify-full"),
            Security::Verified { authorities: None }
        );
        assert_eq!(security("postgres://me@db.example.org/way?sslmode=disable"), Security::Plain);
    }

    #[test]
    fn the_url_names_the_schema() {
        assert_eq!(parse("postgres://me@localhost/way").unwrap().schema, "waypost");
        let other = parse("postgres://me@localhost/way?schema=team_2").unwrap();
        assert_eq!(other.schema, "team_2");
        assert_ne!(other.channel(), parse("postgres://me@localhost/way").unwrap().channel());
        for bad in ["", "Team", "a-b", "a%22b", "pg_x", &"x".repeat(64)] {
            parse(&format!("postgres://me@localhost/way?schema={bad}")).err().expect(bad);
        }
    }

    #[test]
    fn p29_no_error_about_a_url_contains_its_password() {
        for bad in ["sslmode=no", "port=x", "nonsense=1", "schema=A", "password=secret&port=x"] {
            let error = parse(&format!("postgres://me:secret@localhost/way?{bad}")).err().expect(bad);
            assert!(!error.full_message().contains("secret"), "{}", error.full_message());
        }
        let address = parse("postgres://me:secret@localhost/way").unwrap();
        assert!(!format!("{:?} {}", address.config, address.shown()).contains("secret"));
    }
}
