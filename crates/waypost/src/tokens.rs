//! Tokens: who may use a server, and as what.
//!
//! A token is 256 random bits, shown once. What is kept is its hash, in a private file beside the store that it is for.
//! The token of whoever owns the server is kept as it is, in a private file of that user, for the user's own commands.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::access::{Grant, Role};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use waypost_core::clock::Clock;
use waypost_core::id::Entropy;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::{FileLock, check_private, create_private_dir, create_private_file, replace};

use crate::environment::WAYPOST_TOKEN;
use crate::place::{Location, Place};
use crate::system::{SystemEntropy, clock};

/// What the token of whoever owns the server is called.
pub const OWN: &str = "own";
/// What every token begins with, so that those who look for secrets find it.
const PREFIX: &str = "wayt_";
/// How long to wait for somebody else who makes tokens.
const PATIENCE: Duration = Duration::from_secs(10);

/// A token, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// What it is called.
    pub id: String,
    /// What its bearer is.
    pub role: Role,
    /// The agent that it is the token of.
    pub agent: Option<String>,
    /// The only task that it is for.
    pub task: Option<String>,
    /// The hash of the secret.
    pub hash: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
}

/// What a token is to be.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    /// What its bearer is.
    pub role: Role,
    /// The agent that it is the token of.
    pub agent: Option<String>,
    /// The only task that it is for.
    pub task: Option<String>,
    /// How long it lasts, in milliseconds.
    pub lasts: Option<u64>,
}

#[derive(Default, Serialize, Deserialize)]
struct Kept {
    tokens: Vec<Token>,
}

/// The tokens of a store.
pub struct Tokens {
    file: PathBuf,
    own: Option<PathBuf>,
    clock: Box<dyn Clock + Send + Sync>,
}

impl Tokens {
    /// Returns the tokens of the store that a place chose.
    pub fn of(place: &Place) -> Result<Tokens> {
        let dir = match place.store()?.location {
            Location::Sqlite(path) => path.parent().map(Path::to_owned),
            Location::Server(url) => {
                return Err(Error::refused(format!("the tokens of {url} are made where it runs")));
            }
            Location::UnnamedSqlite | Location::Postgres(_) => place.home.as_ref().map(|(home, _)| home.clone()),
        };
        let dir = dir.ok_or_else(|| Error::invalid("tokens need a home directory").hint("set HOME"))?;
        Ok(Tokens {
            file: dir.join("tokens.json"),
            own: place.in_home("token").map(|(path, _)| path),
            clock: clock(&place.variables)?,
        })
    }

    /// Returns where the token of whoever owns the server is kept.
    pub fn own_path(&self) -> Option<&Path> {
        self.own.as_deref()
    }

    /// Makes a token, and returns its secret, which nobody can ask for again.
    pub fn create(&self, wanted: TokenRequest) -> Result<(Token, String)> {
        let TokenRequest { role, agent, task, lasts } = wanted;
        if role == Role::Agent && agent.is_none() {
            return Err(Error::invalid("the token of an agent names it").hint("--agent NAME"));
        }
        if role == Role::Job && (agent.is_none() || task.is_none()) {
            return Err(
                Error::invalid("the token of a job names its agent and its task").hint("--agent NAME --task ID")
            );
        }
        let (secret, now) = (draw_secret(), self.clock.now());
        let token = Token {
            id: format!("tok_{}", &random_hex(4)),
            role,
            agent,
            task,
            hash: hash(&secret),
            created_at: now,
            expires_at: lasts.map(|lasts| now.plus(lasts)),
        };
        self.change(|tokens| {
            tokens.push(token.clone());
            Ok(())
        })?;
        Ok((token, secret))
    }

    /// Returns all tokens that have not ended.
    pub fn list(&self) -> Result<Vec<Token>> {
        let now = self.clock.now();
        let mut tokens = read(&self.file)?;
        tokens.retain(|token| token.expires_at.is_none_or(|end| now < end));
        Ok(tokens)
    }

    /// Ends a token at once.
    pub fn revoke(&self, id: &str) -> Result<Token> {
        self.change(|tokens| {
            let place = find(tokens, id)?;
            Ok(tokens.remove(place))
        })
    }

    /// Gives a token another secret; the old one ends at once.
    pub fn rotate(&self, id: &str) -> Result<(Token, String)> {
        let secret = draw_secret();
        let token = self.change(|tokens| {
            let place = find(tokens, id)?;
            tokens[place].hash = hash(&secret);
            Ok(tokens[place].clone())
        })?;
        Ok((token, secret))
    }

    /// Makes sure that whoever owns the server has a token, and returns where it is.
    pub fn ensure_own(&self) -> Result<PathBuf> {
        let path = self.require_own()?;
        match create_private_file(path) {
            Ok(mut file) => {
                let written = file.write_all(format!("{}\n", draw_secret()).as_bytes()).and_then(|()| file.sync_all());
                written.map_err(cannot("write", path))?;
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => check_own(path)?,
            Err(error) => return Err(cannot("write", path)(error)),
        }
        Ok(path.to_owned())
    }

    /// Gives whoever owns the server another token.
    pub fn rotate_own(&self) -> Result<PathBuf> {
        let path = self.require_own()?;
        // Made anew and not written over: it may have become readable by others.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(cannot("write", path)(error)),
            _ => self.ensure_own(),
        }
    }

    /// Returns what a secret allows. The files are read each time: what was revoked is so at once.
    pub fn lookup(&self, secret: &str) -> Option<Grant> {
        let (shown, now) = (hash(secret), self.clock.now());
        let own = self.own.as_deref().filter(|path| check_own(path).is_ok());
        let own = own.and_then(|path| std::fs::read_to_string(path).ok());
        if own.is_some_and(|own| own.trim().len() > PREFIX.len() && is_equal(&hash(own.trim()), &shown)) {
            return Some(Grant::owner(OWN));
        }
        // Nobody is let in by a file that cannot be read.
        let tokens = read(&self.file).unwrap_or_default();
        let token = tokens.into_iter().find(|token| is_equal(&token.hash, &shown))?;
        let Token { id, role, agent, task, expires_at, .. } = token;
        expires_at.is_none_or(|end| now < end).then_some(Grant { token: id, role, agent, task })
    }

    fn require_own(&self) -> Result<&Path> {
        let path =
            self.own.as_deref().ok_or_else(|| Error::invalid("tokens need a home directory").hint("set HOME"))?;
        if let Some(dir) = path.parent() {
            create_private_dir(dir).map_err(cannot("make", dir))?;
        }
        Ok(path)
    }

    /// Changes what is kept, one at a time.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Token>) -> Result<T>) -> Result<T> {
        if let Some(dir) = self.file.parent() {
            create_private_dir(dir).map_err(cannot("make", dir))?;
        }
        let _lock = FileLock::acquire(&self.file.with_extension("lock"), PATIENCE)?;
        let mut tokens = self.list()?;
        let answer = change(&mut tokens)?;
        let content = serde_json::to_vec_pretty(&Kept { tokens })
            .map_err(|error| Error::internal("tokens are not JSON").because(error))?;
        replace(&self.file, &content, 0o600).map_err(cannot("write", &self.file))?;
        Ok(answer)
    }
}

/// Returns the token that a command of this user shows to a server.
pub fn shown_by(place: &Place, is_private: bool) -> Result<Option<String>> {
    if let Some(token) = place.variables.text(WAYPOST_TOKEN) {
        return Ok(Some(token));
    }
    let Some((path, _)) = place.in_home("token") else { return Ok(None) };
    match std::fs::read_to_string(&path) {
        Ok(_) if !is_private => Err(Error::refused("a token is not sent where others can read it")
            .hint("use https://, or a tunnel")
            .hint(format!("{WAYPOST_TOKEN} is sent wherever it is meant for"))),
        Ok(token) => {
            check_own(&path)?;
            Ok(Some(token.trim().to_owned()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("read", &path)(error)),
    }
}

fn check_own(path: &Path) -> Result<()> {
    match check_private(path).map_err(cannot("read", path))? {
        None => Ok(()),
        Some(problem) => {
            Err(Error::refused(format!("{} {problem}", path.display()))
                .hint("chmod 600, and then: way token rotate own"))
        }
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
    let kept: Kept = serde_json::from_slice(&content)
        .map_err(|error| Error::damaged(format!("{} is not a list of tokens", file.display())).because(error))?;
    Ok(kept.tokens)
}

fn cannot(what: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::unavailable(format!("cannot {what} {}", path.display())).because(error)
}

fn draw_secret() -> String {
    format!("{PREFIX}{}", random_hex(32))
}

/// Returns random bytes in hexadecimal.
pub fn random_hex(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    SystemEntropy.fill(&mut random);
    hex(&random)
}

/// Returns the SHA-256 of a secret in hexadecimal, which is what files and stores keep of it.
pub fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// Writes bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Compares in a time that says nothing about where two hashes differ.
fn is_equal(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
