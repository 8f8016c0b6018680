//! A synthetic repository for benchmarks of workspaces, the same in every run.
//!
//! With 20,000 files it has about 210 MB and 1,500 commits; with fewer files also fewer of these. The content looks like source code to a compressor.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Result, run};

/// The size of a full repository.
const FILES: usize = 20_000;
const COMMITS: usize = 1_500;
/// Files that every commit but the first one rewrites.
const TOUCHED: usize = 28;
/// Files of 1 MiB that cannot be compressed.
const LARGE_FILES: usize = 20;
const LARGE_BYTES: usize = 1024 * 1024;
const POOL_BYTES: usize = 24 * 1024 * 1024;

/// Creates the repository, with `main` checked out.
pub(super) fn create(repo: &Path, files: usize) -> Result {
    run(Command::new("git").args(["init", "-q", "-b", "main"]).arg(repo))?;
    let git = || {
        let mut command = Command::new("git");
        command.arg("-C").arg(repo).args(["-c", "gc.auto=0"]);
        command
    };
    let importing = git().args(["fast-import", "--quiet", "--depth=1"]).stdin(Stdio::piped()).spawn();
    let mut importing = importing.map_err(|error| error.to_string())?;
    let input = importing.stdin.take().ok_or("git has no standard input")?;
    write_history(BufWriter::new(input), files).map_err(|error| error.to_string())?;
    if !importing.wait().map_err(|error| error.to_string())?.success() {
        return Err("git fast-import failed".to_owned());
    }
    run(git().args(["reset", "-q", "--hard", "main"]))?;
    run(git().args(["commit-graph", "write", "--reachable"]))
}

fn write_history(mut out: impl Write, files: usize) -> std::io::Result<()> {
    let mut random = Random(7);
    let pool = source_text(&mut random, POOL_BYTES * files / FILES);
    let extensions = ["rs", "py", "ts", "go", "md", "json"];
    // About 12 files per directory.
    let path = |file: usize| {
        let dir = file / 12;
        let (package, module, part) = (dir % 40, dir / 40 % 40, dir / 1_600);
        format!("pkg{package:02}/mod{module:02}/sub{part}/file{file:05}.{}", extensions[file % 6])
    };
    let small_files = files - LARGE_FILES - 1;
    for commit in 0..COMMITS * files / FILES {
        let message = format!("commit {commit}");
        let time = 1_700_000_000 + commit * 600;
        writeln!(out, "commit refs/heads/main\nmark :{}", commit + 1)?;
        writeln!(out, "committer bench <bench@example.org> {time} +0000\ndata {}\n{message}", message.len())?;
        if commit == 0 {
            put(&mut out, ".gitignore", b"target/\nnode_modules/\n.env\n.state/\n")?;
            for number in 0..LARGE_FILES {
                let bytes: Vec<u8> = (0..LARGE_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect();
                put(&mut out, &format!("assets/bin{number:02}.dat"), &bytes)?;
            }
            for file in 0..small_files {
                put(&mut out, &path(file), &content(&mut random, &pool, &path(file)))?;
            }
        } else {
            writeln!(out, "from :{commit}")?;
            for _ in 0..TOUCHED {
                let file = path(random.below(small_files));
                put(&mut out, &file, &content(&mut random, &pool, &file))?;
            }
        }
        writeln!(out)?;
    }
    out.flush()
}

fn put(out: &mut impl Write, path: &str, bytes: &[u8]) -> std::io::Result<()> {
    writeln!(out, "M 100644 inline {path}\ndata {}", bytes.len())?;
    out.write_all(bytes)?;
    writeln!(out)
}

/// Returns a unique first line and a piece of the pool: most files have some KB, a few are much larger.
fn content(random: &mut Random, pool: &[u8], path: &str) -> Vec<u8> {
    let scale = 1 << random.below(5);
    let bytes = 400 + scale * random.below(2_700);
    let start = random.below(pool.len() - bytes);
    let first = format!("// {path} {:016x}\n", random.next());
    [first.as_bytes(), &pool[start..start + bytes], b"\n"].concat()
}

/// Returns lines of words and numbers.
fn source_text(random: &mut Random, bytes: usize) -> Vec<u8> {
    let letters = b"abcdefghijklmnopqrstuvwxyz_";
    let mut word = || (0..2 + random.below(10)).map(|_| letters[random.below(letters.len())]).collect();
    let words: Vec<Vec<u8>> = (0..6_000).map(|_| word()).collect();
    let mut text = Vec::with_capacity(bytes + 256);
    while text.len() < bytes {
        text.resize(text.len() + 4 * random.below(5), b' ');
        for _ in 0..2 + random.below(11) {
            text.extend_from_slice(&words[random.below(words.len())]);
            text.push(b' ');
        }
        if random.below(3) == 0 {
            text.extend_from_slice(format!("= 0x{:016x};", random.next()).as_bytes());
        }
        text.push(b'\n');
    }
    text
}

/// Numbers that look random, and are the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or_default()
    }
}
