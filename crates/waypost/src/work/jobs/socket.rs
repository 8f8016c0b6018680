//! The socket through which the processes of a job reach the store. They do not get the store itself: its address may
//! contain a password, and a sandbox must not reach its file.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use waypost_core::op::JobView;
use waypost_core::{Error, Result};
use waypost_fs::create_private_dir;

use super::records_dir;
use crate::app::session::Session;
use crate::machine::place::Place;
use crate::serving::access::{Grant, Role};
use crate::serving::challenge::Challenge;
use crate::serving::sockets::short_path;
use crate::serving::tokens::{hash_token, is_equal};

/// A socket of a job, for the server that answers on it.
pub struct JobSocket {
    /// The place whose store it gives access to.
    pub place: Place,
    /// The socket.
    pub listener: UnixListener,
    /// The rights of the job.
    grant: Grant,
    /// The hash of the job's token, the only one that is valid.
    token_hash: String,
    /// The server has to stop when the other end is closed.
    pub stop: UnixStream,
}

impl JobSocket {
    /// Returns a function that returns the rights of a token: those of the job, or none.
    pub fn lookup(&self) -> impl Fn(&str) -> Option<Grant> + Send + Sync + 'static {
        let (grant, token_hash) = (self.grant.clone(), self.token_hash.clone());
        move |secret| is_equal(&hash_token(secret), &token_hash).then(|| grant.clone())
    }

    /// Returns a function that proves to a client that this server knows the token of the job.
    pub fn prover(&self) -> impl Fn(&Challenge) -> Option<String> + Send + Sync + 'static {
        let token_hash = self.token_hash.clone();
        move |challenge| challenge.answer(&token_hash)
    }

    fn try_clone(&self) -> std::io::Result<JobSocket> {
        Ok(JobSocket {
            place: self.place.clone(),
            listener: self.listener.try_clone()?,
            grant: self.grant.clone(),
            token_hash: self.token_hash.clone(),
            stop: self.stop.try_clone()?,
        })
    }

    /// Starts the server when a process connects: most commands of jobs never do, and a server costs connections and
    /// threads.
    fn serve_when_used(&self, serve: Serve) {
        loop {
            let mut watched =
                [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN | PollFlags::HUP)];
            let _ = poll(&mut watched, None);
            let [is_used, has_stopped] = watched.map(|fd| !fd.revents().is_empty());
            if has_stopped {
                return;
            }
            if !is_used {
                continue;
            }
            let served = self.try_clone().map_err(|error| Error::unavailable("cannot serve").because(error));
            match served.and_then(serve) {
                Ok(()) => return,
                Err(error) => {
                    log::warn!("cannot serve the socket of the job: {}", error.full_message());
                    self.drop_pending();
                }
            }
        }
    }

    /// Closes the connections that no server answers, so that their clients fail at once.
    fn drop_pending(&self) {
        let _ = self.listener.set_nonblocking(true);
        while self.listener.accept().is_ok() {}
    }
}

/// Answers requests on the socket of a job until it has to stop.
pub type Serve = fn(JobSocket) -> Result<()>;

/// A socket of a job that is being served. It ends when this is dropped.
pub(super) struct Served {
    path: PathBuf,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Creates the socket of a job, in a directory that no other user can enter.
    pub(super) fn start(session: &Session, job: &JobView, token_hash: String, serve: Serve) -> Result<Served> {
        let path = records_dir(session, &job.job.id)?.join("run").join("socket");
        let cannot = |error| Error::unavailable(format!("cannot listen on {}", path.display())).because(error);
        let listener = listen(&path).map_err(cannot)?;
        let (stop, stopped) = UnixStream::pair().map_err(cannot)?;
        let grant = Grant {
            token: job.job.id.to_string(),
            role: Role::Job,
            agent: job.agent.clone(),
            task: job.job.task_id.as_ref().map(ToString::to_string),
        };
        let socket = JobSocket { place: session.place.clone(), listener, grant, token_hash, stop: stopped };
        let thread = thread::Builder::new().name("socket".to_owned()).spawn(move || socket.serve_when_used(serve));
        Ok(Served { thread: Some(thread.map_err(cannot)?), stop: Some(stop), path })
    }

    /// Returns the directory of the socket, which has nothing else in it.
    pub(super) fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Returns the socket as a value of `WAYPOST_DB`.
    pub(super) fn address(&self) -> OsString {
        let mut address = OsString::from("unix:");
        address.push(&self.path);
        address
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Pending requests complete before the end of the job is recorded.
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_file(&self.path);
    }
}

fn listen(path: &Path) -> std::io::Result<UnixListener> {
    create_private_dir(path.parent().unwrap_or(Path::new("/")))?;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (short, _dir) = short_path(path)?;
    let listener = UnixListener::bind(&short)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
