//! `way serve`

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use waypost_core::{Error, Result, path_text};
use waypost_fs::{FileLock, create_private_dir};
use waypost_server::http::{Config, Listener, serve};

use crate::CommandContext;
use crate::ui::{BOLD, cell, print_error, styled};
use waypost::app::App;
use waypost::jobs::JobSocket;
use waypost::place::{Place, expand};
use waypost::tokens::{Tokens, hash, random_hex};

/// The default port.
const DEFAULT_PORT: u16 = 7717;

/// Serve the store over HTTP to programs and other machines
///
/// By default listens only on this machine, on a port and on a socket that only you can use. Clients of the port need a
/// token; the server creates yours on first use. Other commands connect to the server with --db or WAYPOST_DB.
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
    let server = Server::bind(&place, args)?;
    cx.ui.answer(&server.data, |text| {
        let mut rows = vec![
            vec![styled(BOLD, "url"), cell(&server.url)],
            vec![styled(BOLD, "socket"), cell(format!("unix:{}", server.path.display()))],
            vec![styled(BOLD, "token"), cell(format!("in {}", server.token_path.display()))],
        ];
        rows.extend(server.login().map(|login| vec![styled(BOLD, "browser"), cell(login)]));
        text.table(&rows);
    })?;
    server.serve(|line| print_error(&line), None).map(|()| ExitCode::SUCCESS)
}

impl Args {
    /// Returns the options of a server for a browser on this machine, on any free port.
    pub(crate) fn for_browser() -> Args {
        let listen = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Args { port: 0, listen, allowed_hosts: Vec::new(), socket: None, open: true }
    }
}

/// A server that listens, and does not answer yet.
pub(crate) struct Server {
    /// How to reach it, for programs.
    pub(crate) data: Value,
    place: Place,
    app: App,
    tokens: Tokens,
    tcp: TcpListener,
    unix: UnixListener,
    path: PathBuf,
    _lock: FileLock,
    url: String,
    token_path: PathBuf,
    code: Option<String>,
    allowed_hosts: Vec<String>,
}

impl Server {
    /// Opens the store and listens.
    pub(crate) fn bind(place: &Place, args: &Args) -> Result<Server> {
        let app = App::group_commit(place)?;
        let tokens = Tokens::of(place)?;
        let token_path = tokens.ensure_owner_token()?;
        let tcp = TcpListener::bind(SocketAddr::new(args.listen, args.port)).map_err(|error| {
            let is_in_use = error.kind() == ErrorKind::AddrInUse;
            let error = Error::unavailable(format!("cannot listen on port {}", args.port)).because(error);
            if is_in_use { error.hint("choose another port, or any free one with --port 0") } else { error }
        })?;
        let address = tcp.local_addr().map_err(|error| Error::unavailable("cannot listen").because(error))?;
        let (unix, path, lock) = bind_socket(place, args.socket.as_deref())?;
        let url = format!("http://{address}");
        let code = args.open.then(|| random_hex(32));
        let mut server = Server {
            data: Value::Null,
            place: place.clone(),
            app,
            tokens,
            tcp,
            unix,
            path,
            _lock: lock,
            url,
            token_path,
            code,
            allowed_hosts: args.allowed_hosts.clone(),
        };
        server.data = json!({
            "url": server.url,
            "socket": path_text::to_text(&server.path),
            "token": path_text::to_text(&server.token_path),
            "login": server.login(),
            "store": place.store()?.location.to_string(),
            "pid": std::process::id(),
        });
        Ok(server)
    }

    /// Returns the address at which one browser can log in.
    pub(crate) fn login(&self) -> Option<String> {
        self.code.as_ref().map(|code| format!("{}/login?code={code}", self.url))
    }

    /// Serves until the other end of `stop` is closed; without one, until SIGTERM or SIGINT.
    pub(crate) fn serve(self, log: impl Fn(String) + Send + Sync + 'static, stop: Option<UnixStream>) -> Result<()> {
        let app = Arc::new(self.app);
        let (jobs, provers) = (Arc::clone(&app), Arc::clone(&app));
        let tokens = Arc::new(self.tokens);
        let (known, owners) = (Arc::clone(&tokens), Arc::clone(&tokens));
        let served = serve(
            app,
            Config {
                listeners: vec![Listener::Tcp(self.tcp), Listener::Unix(self.unix)],
                allowed_hosts: self.allowed_hosts,
                lookup: Box::new(move |secret| Ok(tokens.lookup(secret))),
                lookup_in_store: Box::new(move |secret| jobs.grant_of_job(secret)),
                answer: Box::new(move |challenge| match known.find_hash(|hash| challenge.answer(&hash)) {
                    Some(proof) => Ok(Some(proof)),
                    None => provers.answer_for_job(challenge),
                }),
                owner_hash: Box::new(move || owners.owner_hash()),
                actor: self.place.actor(),
                uid: rustix::process::geteuid().as_raw(),
                code: self.code,
                log: Box::new(log),
                stop,
            },
        );
        // A failure is harmless: the next server replaces a stale socket.
        let _ = std::fs::remove_file(&self.path);
        served
    }
}

/// Answers on the socket of a job. Only the token of the job is valid there: any process of the user can connect.
pub(crate) fn serve_job(socket: JobSocket) -> Result<()> {
    let lookup = socket.lookup();
    let JobSocket { place, listener, stop, .. } = socket;
    serve(
        Arc::new(App::for_job(&place)?),
        Config {
            listeners: vec![Listener::Job(listener)],
            allowed_hosts: Vec::new(),
            lookup: Box::new(move |secret| Ok(lookup(secret))),
            lookup_in_store: Box::new(|_| Ok(None)),
            answer: Box::new(|_| Ok(None)),
            owner_hash: Box::new(|| None),
            actor: place.actor(),
            uid: rustix::process::geteuid().as_raw(),
            code: None,
            log: Box::new(|line| log::debug!("{line}")),
            stop: Some(stop),
        },
    )
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
        let name = format!("run/{}.sock", &hash(&store)[..12]);
        let no_home = || Error::invalid("the socket needs a home directory").hint("set HOME, or use --socket PATH");
        place.in_home(&name).ok_or_else(no_home)?.0
    };
    let cannot =
        |error: std::io::Error| Error::unavailable(format!("cannot listen on {}", path.display())).because(error);
    let dir = path.parent().unwrap_or(Path::new("/"));
    create_private_dir(dir).map_err(cannot)?;
    let lock = FileLock::acquire(&path.with_extension("lock"), Duration::ZERO).map_err(|_| {
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
