//! Tokens: which callers may use a server, and with which role.
//!
//! A token is 256 random bits and is shown once. Its hash is kept in a private file beside the store. The owner's token is
//! kept as it is, in a private file of the owner, so that the owner's commands can send it.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::serving::access::{Grant, Role};
use serde::{Deserialize, Serialize};
use waypost_core::clock::Clock;
use waypost_core::digest::{hex, sha256};
use waypost_core::id::Entropy;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::{FileLock, check_private, create_private_dir, create_private_file, replace};

use crate::machine::environment::WAYPOST_TOKEN;
use crate::machine::place::{Location, Place};
use crate::machine::system::{SystemEntropy, clock};

/// The id of the owner's token.
pub const OWNER_TOKEN_ID: &str = "own";
/// Prefix of every token, so that secret scanners find it.
const PREFIX: &str = "wayt_";
/// Prefix of the token that a job gets. The record of the job has its hash.
pub(crate) const JOB_PREFIX: &str = "wpj_";
/// Maximum time to wait for another process that changes tokens.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A stored token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its id.
    pub id: String,
    /// The role of its bearer.
    pub role: Role,
    /// The agent that it belongs to.
    pub agent: Option<String>,
    /// The only task that it gives access to.
    pub task: Option<String>,
    /// The hash of the secret.
    pub hash: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

/// A new token.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    /// The role of its bearer.
    pub role: Role,
    /// The agent that it belongs to.
    pub agent: Option<String>,
    /// The only task that it gives access to.
    pub task: Option<String>,
    /// Time until it expires, in milliseconds.
    pub ttl_ms: Option<u64>,
}

#[derive(Default, Serialize, Deserialize)]
struct TokenFile {
    tokens: Vec<Token>,
}

/// The tokens of a store.
pub struct Tokens {
    file: PathBuf,
    own: Option<PathBuf>,
    clock: Box<dyn Clock + Send + Sync>,
    /// What a server has read from the two files: it looks a token up for each request.
    in_file: Unchanged<Vec<Token>>,
    in_owner_file: Unchanged<Option<String>>,
}

impl Tokens {
    /// Returns the tokens of the store that a place chose.
    pub fn of(place: &Place) -> Result<Tokens> {
        let dir = match place.store()?.location {
            Location::Sqlite(path) => path.parent().map(Path::to_owned),
            Location::Server(url) => {
                return Err(Error::refused(format!("tokens of {url} are created on the machine of the server")));
            }
            Location::UnnamedSqlite | Location::Postgres(_) => place.home.as_ref().map(|(home, _)| home.clone()),
        };
        let dir = dir.ok_or_else(|| Error::invalid("tokens need a home directory").hint("set HOME"))?;
        Ok(Tokens {
            file: dir.join("tokens.json"),
            own: place.in_home("token").map(|(path, _)| path),
            clock: clock(&place.variables)?,
            in_file: Unchanged::new(SETTLED_AFTER),
            in_owner_file: Unchanged::new(SETTLED_AFTER),
        })
    }

    /// Creates a token and returns its secret, which is not stored.
    pub fn create(&self, request: TokenRequest) -> Result<(Token, String)> {
        let TokenRequest { role, agent, task, ttl_ms } = request;
        if role == Role::Agent && agent.is_none() {
            return Err(Error::invalid("an agent token needs an agent").hint("--agent NAME"));
        }
        if role == Role::Job && (agent.is_none() || task.is_none()) {
            return Err(Error::invalid("a job token needs an agent and a task").hint("--agent NAME --task ID"));
        }
        let (secret, now) = (new_secret(), self.clock.now());
        let token = Token {
            id: format!("tok_{}", &random_hex(4)),
            role,
            agent,
            task,
            hash: hash_token(&secret),
            created_at: now,
            expires_at: ttl_ms.map(|ttl| now.plus(ttl)),
        };
        self.change(|tokens| {
            tokens.push(token.clone());
            Ok(())
        })?;
        Ok((token, secret))
    }

    /// Returns all tokens that have not expired.
    pub fn list(&self) -> Result<Vec<Token>> {
        let now = self.clock.now();
        let mut tokens = read(&self.file)?;
        tokens.retain(|token| token.expires_at.is_none_or(|end| now < end));
        Ok(tokens)
    }

    /// Revokes a token.
    pub fn revoke(&self, id: &str) -> Result<Token> {
        self.change(|tokens| {
            let place = find(tokens, id)?;
            Ok(tokens.remove(place))
        })
    }

    /// Replaces the secret of a token. The old secret is invalid at once.
    pub fn rotate(&self, id: &str) -> Result<(Token, String)> {
        let secret = new_secret();
        let token = self.change(|tokens| {
            let place = find(tokens, id)?;
            tokens[place].hash = hash_token(&secret);
            Ok(tokens[place].clone())
        })?;
        Ok((token, secret))
    }

    /// Creates the owner's token if it is missing. Returns its file.
    pub fn ensure_owner_token(&self) -> Result<PathBuf> {
        let path = self.require_owner_file()?;
        match create_private_file(path) {
            Ok(mut file) => {
                let written = file.write_all(format!("{}\n", new_secret()).as_bytes()).and_then(|()| file.sync_all());
                written.map_err(cannot("write", path))?;
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => check_owner_file(path)?,
            Err(error) => return Err(cannot("write", path)(error)),
        }
        Ok(path.to_owned())
    }

    /// Replaces the owner's token.
    pub fn rotate_owner_token(&self) -> Result<PathBuf> {
        let path = self.require_owner_file()?;
        // Create a new file instead of overwriting: others may have opened the old one.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(cannot("write", path)(error)),
            _ => self.ensure_owner_token(),
        }
    }

    /// Returns the rights of a secret. It looks at the files each time, so that revoking takes effect at once.
    pub fn lookup(&self, secret: &str) -> Option<Grant> {
        let (presented, now) = (hash_token(secret), self.clock.now());
        if self.owner_hash().is_some_and(|own| is_equal(&own, &presented)) {
            return Some(Grant::owner(OWNER_TOKEN_ID));
        }
        // An unreadable file grants no access.
        let tokens = self.in_file.get(&self.file, || read(&self.file)).unwrap_or_default();
        let token = tokens.into_iter().find(|token| is_equal(&token.hash, &presented))?;
        let Token { id, role, agent, task, expires_at, .. } = token;
        expires_at.is_none_or(|end| now < end).then_some(Grant { token: id, role, agent, task })
    }

    /// Returns the first result for the hash of a valid token.
    pub fn find_hash<T>(&self, find: impl FnMut(String) -> Option<T>) -> Option<T> {
        let tokens = self.list().unwrap_or_default().into_iter().map(|token| token.hash);
        self.owner_hash().into_iter().chain(tokens).find_map(find)
    }

    /// Returns the hash of the owner's token. None if its file is missing or not private.
    pub fn owner_hash(&self) -> Option<String> {
        let path = self.own.as_deref()?;
        let read = || {
            check_owner_file(path)?;
            let secret = std::fs::read_to_string(path).map_err(cannot("read", path))?;
            Ok((secret.trim().len() > PREFIX.len()).then(|| hash_token(secret.trim())))
        };
        self.in_owner_file.get(path, read).ok().flatten()
    }

    fn require_owner_file(&self) -> Result<&Path> {
        let path =
            self.own.as_deref().ok_or_else(|| Error::invalid("tokens need a home directory").hint("set HOME"))?;
        if let Some(dir) = path.parent() {
            create_private_dir(dir).map_err(cannot("create", dir))?;
        }
        Ok(path)
    }

    /// Changes the file under its lock.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Token>) -> Result<T>) -> Result<T> {
        if let Some(dir) = self.file.parent() {
            create_private_dir(dir).map_err(cannot("create", dir))?;
        }
        let _lock = FileLock::acquire(&self.file.with_extension("lock"), LOCK_TIMEOUT)?;
        let mut tokens = self.list()?;
        let answer = change(&mut tokens)?;
        let content = serde_json::to_vec_pretty(&TokenFile { tokens })
            .map_err(|error| Error::internal("cannot write tokens as JSON").because(error))?;
        replace(&self.file, &content, 0o600).map_err(cannot("write", &self.file))?;
        Ok(answer)
    }
}

/// A file whose metadata stayed the same for this long has the content that was read since: file systems count time in steps
/// of some milliseconds, and a second change within a step would not show.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// The content of a file, which is read again when the file's metadata changed, and until they have settled.
struct Unchanged<T> {
    settled_after: Duration,
    seen: Mutex<Option<Seen<T>>>,
}

struct Seen<T> {
    stamp: Stamp,
    since: Instant,
    /// The content, if it was read when the metadata had settled.
    content: Option<T>,
}

/// Device, inode, size, owner, mode, and the times of the last change of content and metadata.
type Stamp = ([u64; 3], [u32; 2], [i64; 4]);

impl<T: Clone> Unchanged<T> {
    fn new(settled_after: Duration) -> Unchanged<T> {
        Unchanged { settled_after, seen: Mutex::default() }
    }

    fn get(&self, path: &Path, read: impl FnOnce() -> Result<T>) -> Result<T> {
        // Before it is read: if it changes in between, the next call finds other metadata.
        let Ok(found) = std::fs::symlink_metadata(path) else { return read() };
        let stamp = (
            [found.dev(), found.ino(), found.size()],
            [found.uid(), found.mode()],
            [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()],
        );
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *seen {
            Some(seen) if seen.stamp == stamp => {
                if let Some(content) = &seen.content {
                    return Ok(content.clone());
                }
                let content = read()?;
                if seen.since.elapsed() > self.settled_after {
                    seen.content = Some(content.clone());
                }
                Ok(content)
            }
            _ => {
                *seen = Some(Seen { stamp, since: Instant::now(), content: None });
                drop(seen);
                read()
            }
        }
    }
}

/// Returns the token that a command of this user sends to a server.
pub(crate) fn token_for_server(place: &Place, is_private: bool) -> Result<Option<String>> {
    if let Some(token) = place.variables.text(WAYPOST_TOKEN) {
        return Ok(Some(token));
    }
    // A sandbox keeps jobs from the file of the owner's token.
    let Some((path, _)) = place.in_home("token").filter(|_| !place.is_confined()) else { return Ok(None) };
    match std::fs::read_to_string(&path) {
        Ok(_) if !is_private => Err(Error::refused("the token is not sent over an unencrypted connection")
            .hint("use https://, or a tunnel")
            .hint(format!("a token in {WAYPOST_TOKEN} is sent to any server"))),
        Ok(token) => {
            check_owner_file(&path)?;
            Ok(Some(token.trim().to_owned()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("read", &path)(error)),
    }
}

fn check_owner_file(path: &Path) -> Result<()> {
    match check_private(path).map_err(cannot("read", path))? {
        None => Ok(()),
        Some(problem) => Err(Error::refused(format!("{} {problem}", path.display()))
            .hint("run chmod 600 on it, then: way token rotate own")),
    }
}

fn find(tokens: &[Token], id: &str) -> Result<usize> {
    tokens
        .iter()
        .position(|token| token.id == id)
        .ok_or_else(|| Error::not_found(format!("there is no token {id:?}")).hint("way token list"))
}

fn read(file: &Path) -> Result<Vec<Token>> {
    let content = match std::fs::read(file) {
        Ok(content) => content,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(cannot("read", file)(error)),
    };
    if let Some(problem) = check_private(file).map_err(cannot("read", file))? {
        return Err(Error::refused(format!("{} {problem}, so its tokens are not used", file.display()))
            .hint("if the file is yours: chmod 600 on it"));
    }
    let file: TokenFile = serde_json::from_slice(&content)
        .map_err(|error| Error::damaged(format!("{} is not a list of tokens", file.display())).because(error))?;
    Ok(file.tokens)
}

fn cannot(what: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::unavailable(format!("cannot {what} {}", path.display())).because(error)
}

fn new_secret() -> String {
    format!("{PREFIX}{}", random_hex(32))
}

/// Returns random bytes in hexadecimal.
pub fn random_hex(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    SystemEntropy.fill(&mut random);
    hex(&random)
}

/// Returns the SHA-256 of a secret in hexadecimal, which is what files and stores keep of it.
pub fn hash_token(secret: &str) -> String {
    hex(&sha256(secret))
}

/// Returns the hash of a job token. None if the secret is not one.
pub(crate) fn hash_of_job(secret: &str) -> Option<String> {
    secret.starts_with(JOB_PREFIX).then(|| hash_token(secret))
}

/// Compares two hashes in constant time.
pub(crate) fn is_equal(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_read_again_when_it_changes_and_not_when_it_has_settled() {
        let sandbox = waypost_testkit::Sandbox::new("");
        let path = sandbox.path("file");
        let (cached, reads) = (Unchanged::new(Duration::ZERO), std::cell::Cell::new(0));
        let get = || {
            let read = || {
                reads.set(reads.get() + 1);
                std::fs::read_to_string(&path).map_err(cannot("read", &path))
            };
            cached.get(&path, read).map_err(|error| error.kind())
        };
        assert_eq!(get(), Err(waypost_core::Kind::Unavailable), "there is no file");
        sandbox.write("file", "one");
        for _ in 0..5 {
            assert_eq!(get().unwrap(), "one");
        }
        assert_eq!(reads.get(), 3, "when it is missing, when it is new, and once more");
        // In place, replaced by another file, with other rights, and deleted.
        sandbox.write("file", "three");
        assert_eq!(get().unwrap(), "three");
        waypost_fs::replace(&path, b"other", 0o600).unwrap();
        assert_eq!([get().unwrap(), get().unwrap(), get().unwrap()], ["other", "other", "other"]);
        let before = reads.get();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!((get().unwrap().as_str(), reads.get()), ("other", before + 1));
        std::fs::remove_file(&path).unwrap();
        assert!(get().is_err());
    }

    #[test]
    fn a_file_that_changed_a_moment_ago_is_read_each_time() {
        let sandbox = waypost_testkit::Sandbox::new("");
        let path = sandbox.path("file");
        sandbox.write("file", "1");
        let (cached, reads) = (Unchanged::new(Duration::from_hours(1)), std::cell::Cell::new(0));
        for _ in 0..4 {
            let _ = cached.get(&path, || {
                reads.set(reads.get() + 1);
                Ok(())
            });
        }
        assert_eq!(reads.get(), 4);
    }
}
