//! `way serve`

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use waypost_core::{Error, Result, path_text};
use waypost_fs::{FileLock, create_private_dir};
use waypost_server::http::{Config, Listener, serve};

use crate::CommandContext;
use crate::ui::{BOLD, cell, print_error, styled};
use waypost::app::App;
use waypost::machine::place::{Place, expand};
use waypost::serving::{Tokens, hash_token, random_hex};
use waypost::work::jobs::JobSocket;

/// The default port.
const DEFAULT_PORT: u16 = 7717;
/// How often a port is tried: any free one, until it is free on both addresses of loopback, or the given one, which a child of a
/// killed server may still have.
const MAX_ATTEMPTS: usize = 32;
/// Time between two attempts.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(10);
/// How long to wait for the lock of the socket. A server that was killed may have left a child that has not started its program
/// yet, and holds the lock until then.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// Serve the store over HTTP to programs and other machines
///
/// By default listens only on this machine, on a port and on a socket that only you can use. Clients need a token; the server
/// creates yours on first use. Other commands connect to the server with --db or WAYPOST_DB, and find your token themselves.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way serve
  way serve --open                        and print a one-time login URL for a browser
  way serve --port 0 --json               on any free port, printed as JSON
  WAYPOST_DB=http://127.0.0.1:7717 way status
  way serve --socket ~/way.sock           then: WAYPOST_DB=unix:~/way.sock way status
  way serve --listen 10.0.0.5 --allowed-host way.example.org   behind a TLS proxy")]
pub(crate) struct Args {
    /// Port to listen on; 0 for any free port
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Address to listen on; an address other than loopback needs --allowed-host
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// Host name of the server for other machines, with the port unless it is the default; may be given repeatedly
    #[arg(long = "allowed-host", value_name = "HOST")]
    allowed_hosts: Vec<String>,
    /// Path of the socket [default: one for each store in ~/.waypost/run]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print a one-time login URL for a browser
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    cx.uses_store = true;
    let place = cx.place()?;
    if !args.listen.is_loopback() && args.allowed_hosts.is_empty() {
        return Err(Error::refused(format!("other machines can reach {}", args.listen))
            .hint("give the host name that they use: --allowed-host NAME")
            .hint("tokens are not encrypted: put a TLS proxy in front of the server"));
    }
    if let Some(wrong) = args.allowed_hosts.iter().find(|host| !is_host(host)) {
        return Err(
            Error::invalid(format!("{wrong:?} is not a host name")).hint("use a name such as way.example.org:8443")
        );
    }
    let app = Arc::new(App::group_commit(&place)?);
    let tokens = Arc::new(Tokens::of(&place)?);
    let token_path = tokens.ensure_owner_token()?;
    let (unix, path, _lock) = bind_socket(&place, args.socket.as_deref())?;
    let bound = bind_port(args.listen, other_address(args.listen), args.port);
    let (tcp, address) = bound.inspect_err(|_| drop(std::fs::remove_file(&path)))?;
    let url = format!("http://{address}");
    let code = args.open.then(|| random_hex(32));
    // One browser can log in there. The code is in the part that browsers send to no server.
    let login = code.as_ref().map(|code| format!("{url}/#login={code}"));
    let data = json!({
        "url": url,
        "socket": path_text::to_text(&path),
        "token": path_text::to_text(&token_path),
        "login": login,
        "store": place.store()?.location.to_string(),
        "pid": std::process::id(),
    });
    cx.ui.answer(&data, |text| {
        let mut rows = vec![
            vec![styled(BOLD, "url"), cell(&url)],
            vec![styled(BOLD, "socket"), cell(format!("unix:{}", path.display()))],
            vec![styled(BOLD, "token"), cell(format!("in {}", token_path.display()))],
        ];
        rows.extend(login.map(|login| vec![styled(BOLD, "browser"), cell(login)]));
        text.table(&rows);
    })?;
    let (jobs, provers) = (Arc::clone(&app), Arc::clone(&app));
    let (known, owners) = (Arc::clone(&tokens), Arc::clone(&tokens));
    let served = serve(
        app,
        Config {
            listeners: tcp.into_iter().map(Listener::Tcp).chain([Listener::Unix(unix)]).collect(),
            allowed_hosts: args.allowed_hosts.clone(),
            lookup: Box::new(move |secret| Ok(tokens.lookup(secret))),
            lookup_in_store: Box::new(move |secret| jobs.grant_of_job(secret)),
            answer: Box::new(move |challenge| match known.find_hash(|hash| challenge.answer(&hash)) {
                Some(proof) => Ok(Some(proof)),
                None => provers.answer_for_job(challenge),
            }),
            owner_hash: Box::new(move || owners.owner_hash()),
            actor: place.actor(),
            uid: rustix::process::geteuid().as_raw(),
            code,
            log: Box::new(|line| print_error(&line)),
            stop: None,
        },
    );
    // A failure is harmless: the next server replaces a stale socket.
    let _ = std::fs::remove_file(&path);
    served.map(|()| ExitCode::SUCCESS)
}

/// Answers on the socket of a job. Only the token of the job is valid there: any process of the user can connect.
pub(crate) fn serve_job(socket: JobSocket) -> Result<()> {
    let (lookup, prover) = (socket.lookup(), socket.prover());
    let JobSocket { place, listener, stop, .. } = socket;
    serve(
        Arc::new(App::for_job(&place)?),
        Config {
            listeners: vec![Listener::Job(listener)],
            allowed_hosts: Vec::new(),
            lookup: Box::new(move |secret| Ok(lookup(secret))),
            lookup_in_store: Box::new(|_| Ok(None)),
            answer: Box::new(move |challenge| Ok(prover(challenge))),
            owner_hash: Box::new(|| None),
            actor: place.actor(),
            uid: rustix::process::geteuid().as_raw(),
            code: None,
            log: Box::new(|line| log::debug!("{line}")),
            stop: Some(stop),
        },
    )
}

/// Returns the other address of loopback. The name `localhost` may lead to each of the two: another program that listens on the
/// one that is free would get what is meant for the server.
fn other_address(listen: IpAddr) -> Option<IpAddr> {
    let (v4, v6) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
    match listen {
        _ if listen == v4 || listen == IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Some(v6),
        _ if listen == v6 => Some(v4),
        // The unspecified address of IPv6 is that of both families.
        _ => None,
    }
}

/// Listens on a port of an address, and of another one unless the machine does not have it. Returns the first address too.
fn bind_port(listen: IpAddr, other: Option<IpAddr>, port: u16) -> Result<(Vec<TcpListener>, SocketAddr)> {
    let bind = |address: SocketAddr| TcpListener::bind(address).map_err(|error| (address, error));
    let cannot = |(address, error): (SocketAddr, std::io::Error)| {
        let is_in_use = error.kind() == ErrorKind::AddrInUse;
        let error = Error::unavailable(format!("cannot listen on {address}")).because(error);
        if is_in_use { error.hint("choose another port, or any free one with --port 0") } else { error }
    };
    let mut attempts = 0;
    loop {
        attempts += 1;
        let bound = bind(SocketAddr::new(listen, port)).and_then(|first| {
            let address = first.local_addr().map_err(|error| (SocketAddr::new(listen, port), error))?;
            let Some(other) = other else { return Ok((vec![first], address)) };
            match bind(SocketAddr::new(other, address.port())) {
                Ok(second) => Ok((vec![first, second], address)),
                Err((_, error)) if is_absent(&error) => Ok((vec![first], address)),
                Err(error) => Err(error),
            }
        });
        match bound {
            Err((_, error)) if error.kind() == ErrorKind::AddrInUse && attempts < MAX_ATTEMPTS => {
                // The system does not tell when a port is free.
                std::thread::park_timeout(ATTEMPT_INTERVAL);
            }
            bound => return bound.map_err(cannot),
        }
    }
}

/// Returns whether the machine does not have an address or its family, so that no program can listen there.
fn is_absent(error: &std::io::Error) -> bool {
    let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(code, Some(rustix::io::Errno::ADDRNOTAVAIL | rustix::io::Errno::AFNOSUPPORT))
}

/// Returns whether a text has the characters of a host name, with or without a port.
fn is_host(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
    !text.is_empty() && text.bytes().all(is_allowed)
}

/// Creates the socket, in a directory that other users cannot enter. The lock prevents two servers on one socket.
fn bind_socket(place: &Place, named: Option<&Path>) -> Result<(UnixListener, PathBuf, FileLock)> {
    let path = if let Some(path) = named {
        expand(path, &place.cwd, &place.variables)?
    } else {
        let store = place.store()?.location.to_string();
        let name = format!("run/{}.sock", &hash_token(&store)[..12]);
        let no_home = || Error::invalid("the socket needs a home directory").hint("set HOME, or use --socket PATH");
        place.in_home(&name).ok_or_else(no_home)?.0
    };
    let cannot =
        |error: std::io::Error| Error::unavailable(format!("cannot listen on {}", path.display())).because(error);
    let dir = path.parent().unwrap_or(Path::new("/"));
    create_private_dir(dir).map_err(cannot)?;
    let lock = FileLock::acquire(&path.with_extension("lock"), LOCK_TIMEOUT).map_err(|_| {
        Error::conflict(format!("another server uses {}", path.display())).hint("stop it, or use --socket PATH")
    })?;
    // This process holds the lock, so no server listens on an existing socket. Links and other files are not removed.
    match std::fs::symlink_metadata(&path) {
        Ok(found) if std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
            std::fs::remove_file(&path).map_err(cannot)?;
        }
        Ok(_) => return Err(Error::refused(format!("{} exists and is not a socket", path.display()))),
        Err(_) => {}
    }
    // Set the umask before binding: changing the mode afterwards would leave a gap in which other users can connect.
    let previous = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(&path);
    rustix::process::umask(previous);
    let listener = bound.map_err(cannot)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(cannot)?;
    Ok((listener, path, lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_taken_on_both_addresses_of_loopback_or_on_none() {
        let (v4, v6) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
        assert_eq!((other_address(v4), other_address(v6)), (Some(v6), Some(v4)));
        assert_eq!(other_address("0.0.0.0".parse().unwrap()), Some(v6));
        for one in ["127.0.0.2", "10.0.0.5", "::"] {
            assert_eq!(other_address(one.parse().unwrap()), None, "{one}");
        }
        // Another address of IPv4 stands for that of IPv6, which a machine may not have.
        let second: IpAddr = "127.0.0.2".parse().unwrap();
        let (bound, address) = bind_port(v4, Some(second), 0).unwrap();
        assert_eq!((bound.len(), address.ip()), (2, v4));
        assert_eq!(bound[1].local_addr().unwrap(), SocketAddr::new(second, address.port()));
        drop(bound);
        // Another program has the second one.
        let squatter = TcpListener::bind((second, 0)).unwrap();
        let port = squatter.local_addr().unwrap().port();
        let refused = bind_port(v4, Some(second), port).unwrap_err();
        assert!(refused.to_string().contains(&format!("cannot listen on 127.0.0.2:{port}")), "{refused}");
        drop(TcpListener::bind((v4, port)).expect("the first one is free again"));
    }

    #[test]
    fn an_address_that_the_machine_does_not_have_is_left_out() {
        // Addresses for documentation.
        for absent in ["192.0.2.1", "2001:db8::1"] {
            let (bound, _) = bind_port(IpAddr::V4(Ipv4Addr::LOCALHOST), Some(absent.parse().unwrap()), 0).unwrap();
            assert_eq!(bound.len(), 1, "{absent}");
        }
    }
}
