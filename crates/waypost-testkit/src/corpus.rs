//! Ledgers and merges for tests: a small corpus in this repository, and optionally a large one outside.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// A directory of ledgers, `*.jsonl`, and of merges, `merge-cases/*/{base,left,right}.jsonl`.
#[derive(Clone, Debug)]
pub struct Corpus {
    dir: PathBuf,
    /// Whether it is the large one.
    pub is_large: bool,
}

impl Corpus {
    /// Returns the path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Reads a file.
    pub fn read(&self, name: &str) -> Vec<u8> {
        let path = self.path(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Returns the names of the ledgers, sorted.
    pub fn ledgers(&self) -> Vec<String> {
        let mut names = entries(&self.dir);
        names.retain(|name| Path::new(name).extension().is_some_and(|end| end == "jsonl"));
        names
    }

    /// Returns the names of the merges, sorted, as the path of their directory.
    pub fn merges(&self) -> Vec<String> {
        entries(&self.dir.join("merge-cases")).into_iter().map(|name| format!("merge-cases/{name}")).collect()
    }
}

/// Returns the corpus of this repository, and the large one if `WAYPOST_TEST_CORPUS` names its directory.
///
/// Each test program prints once which it uses, even if the runner captures the output of tests.
pub fn corpora() -> Vec<Corpus> {
    static ANNOUNCED: Once = Once::new();
    let own = Corpus { dir: Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus"), is_large: false };
    let large = std::env::var_os("WAYPOST_TEST_CORPUS").map(|dir| Corpus { dir: dir.into(), is_large: true });
    ANNOUNCED.call_once(|| {
        let used = large.as_ref().map_or_else(
            || "not the large one: set WAYPOST_TEST_CORPUS to its directory".to_owned(),
            |large| format!("and the large one, {}", large.dir.display()),
        );
        let _ = writeln!(std::io::stderr(), "CORPUS: tests use the small corpus of the repository, {used}");
    });
    std::iter::once(own).chain(large).collect()
}

fn entries(dir: &Path) -> Vec<String> {
    let found = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut names: Vec<String> =
        found.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns texts that try to give orders to a model or a terminal, with their names. The word `obey-me` is in each order.
pub fn injections() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/injections");
    let read = |name: String| {
        let text = std::fs::read_to_string(dir.join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, text)
    };
    entries(&dir).into_iter().map(read).collect()
}
