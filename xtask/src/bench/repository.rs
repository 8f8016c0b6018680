//! A synthetic repository for benchmarks of workspaces, the same in every run.
//!
//! With 20,000 files it has about 210 MB. The content looks like source code to a compressor.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use super::random::Random;
use super::scratch::create_dir;
use crate::{Result, run};

/// Commits after the first one, each of which rewrites some files.
const COMMITS: usize = 3;
const TOUCHED: usize = 28;
/// Files of 1 MiB that cannot be compressed.
const LARGE_FILES: usize = 20;
const LARGE_BYTES: usize = 1024 * 1024;
const POOL_BYTES: usize = 4 * 1024 * 1024;

/// Creates the repository, with `main` checked out.
pub(super) fn create(repo: &Path, files: usize) -> Result {
    run(Command::new("git").args(["init", "-q", "-b", "main"]).arg(repo))?;
    let mut random = Random(7);
    let pool = source_text(&mut random);
    for number in 0..LARGE_FILES {
        let bytes: Vec<u8> = (0..LARGE_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        put(&repo.join(format!("assets/bin{number:02}.dat")), &bytes)?;
    }
    for commit in 0..=COMMITS {
        let written = if commit == 0 { files } else { TOUCHED };
        for number in 0..written {
            // About 12 files per directory. Most have some KB, a few are much larger.
            let dir = number / 12;
            let path = format!("pkg{:02}/mod{:02}/sub{}/file{number:05}.rs", dir % 40, dir / 40 % 40, dir / 1_600);
            let bytes = 400 + (1 << random.below(5)) * random.below(2_700);
            let start = random.below(pool.len() - bytes);
            let first = format!("// {path} {:016x}\n", random.next());
            put(&repo.join(path), &[first.as_bytes(), &pool.as_bytes()[start..start + bytes], b"\n"].concat())?;
        }
        let git = |args: &[&str]| {
            let identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0"];
            run(Command::new("git").arg("-C").arg(repo).args(identity).args(args))
        };
        git(&["add", "--all"])?;
        git(&["commit", "--quiet", "--message", &format!("Commit {commit}")])?;
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result {
    create_dir(path.parent().unwrap_or(path))?;
    let written = File::create(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns lines of words and numbers.
fn source_text(random: &mut Random) -> String {
    let letters = b"abcdefghijklmnopqrstuvwxyz_";
    let mut word = || (0..2 + random.below(10)).map(|_| char::from(letters[random.below(letters.len())])).collect();
    let words: Vec<String> = (0..6_000).map(|_| word()).collect();
    let mut text = String::new();
    while text.len() < POOL_BYTES {
        text.push_str(&" ".repeat(4 * random.below(5)));
        for _ in 0..2 + random.below(11) {
            text.extend([words[random.below(words.len())].as_str(), " "]);
        }
        if random.below(3) == 0 {
            text.extend([format!("= 0x{:016x};", random.next())]);
        }
        text.push('\n');
    }
    text
}
