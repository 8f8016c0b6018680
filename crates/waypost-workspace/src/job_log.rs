//! What a job prints, kept in two files of bounded size: the one that is written, and the one before it.
//!
//! Bytes are counted from the first that the job printed, also after the first ones are gone. So whoever was cut off can
//! say where to go on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use waypost_core::{Error, Result};

/// How often reading begins anew because the files were changed meanwhile.
const TRIES: u32 = 20;

/// A log that is written.
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    /// How much was printed before this file began.
    before: u64,
    written: u64,
    limit: u64,
    dropped: u64,
}

impl Log {
    pub(crate) fn open(path: &Path, limit: u64) -> Result<Log> {
        let cannot = |error| Error::unavailable(format!("cannot write {}", path.display())).because(error);
        let file = open_log(path).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        let before = Begins::read(path).of(metadata.ino()).unwrap_or_default();
        let (written, limit) = (metadata.len(), (limit / 2).max(4096));
        Ok(Log { path: path.to_owned(), file, before, written, limit, dropped: 0 })
    }

    /// Keeps what comes until nothing more does. Returns how much was not kept.
    pub(crate) fn keep(mut self, mut from: impl Read) -> u64 {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return self.dropped,
                // What cannot be written is lost, but whoever prints goes on.
                Ok(count) => {
                    if self.write(&buffer[..count]).is_err() {
                        self.dropped += count as u64;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.dropped,
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written + bytes.len() as u64 > self.limit && self.written > 0 {
            self.begin_anew()?;
        }
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn begin_anew(&mut self) -> io::Result<()> {
        let (older, next) = (older(&self.path), beside(&self.path, ".next"));
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        let begins = self.before + self.written;
        // Said before it is so: whoever reads knows a file by what it is, and not by its name.
        let known = vec![(self.file.metadata()?.ino(), self.before), (file.metadata()?.ino(), begins)];
        Begins(known).write(&self.path)?;
        self.dropped += fs::metadata(&older).map_or(0, |metadata| metadata.len());
        fs::rename(&self.path, older)?;
        fs::rename(next, &self.path)?;
        (self.file, self.before, self.written) = (file, begins, 0);
        Ok(())
    }
}

/// Where the files of a log begin, by inode.
#[derive(PartialEq, Eq)]
struct Begins(Vec<(u64, u64)>);

impl Begins {
    /// Reads it. There is none while a log has one file.
    fn read(log: &Path) -> Begins {
        let text = fs::read_to_string(beside(log, ".begins")).unwrap_or_default();
        let pair = |line: &str| {
            let (inode, begins) = line.split_once(' ')?;
            Some((inode.parse().ok()?, begins.parse().ok()?))
        };
        Begins(text.lines().filter_map(pair).collect())
    }

    fn write(&self, log: &Path) -> io::Result<()> {
        let new = beside(log, ".begins.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        for (inode, begins) in &self.0 {
            writeln!(file, "{inode} {begins}")?;
        }
        fs::rename(new, beside(log, ".begins"))
    }

    fn of(&self, inode: u64) -> Option<u64> {
        self.0.iter().find(|(known, _)| *known == inode).map(|(_, begins)| *begins)
    }
}

/// A part of what a job printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of its first byte: the one that was asked for, or the first that is still kept.
    pub from: u64,
    /// What was printed.
    pub bytes: Vec<u8>,
}

impl Part {
    /// Returns where the next part begins.
    pub fn next(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }
}

/// Reads on from a byte of what a job printed, at most so many. There are none at its end.
pub fn read_on(log: &Path, from: u64, most: u64) -> Part {
    for _ in 0..TRIES {
        let begins = Begins::read(log);
        let part = read_at(log, &begins, from, most);
        if let Some(part) = part.filter(|_| Begins::read(log) == begins) {
            return part;
        }
    }
    Part { from, bytes: Vec::new() }
}

/// Reads from both files; none if the one that is written is not one that it is known of where it begins.
fn read_at(log: &Path, begins: &Begins, from: u64, most: u64) -> Option<Part> {
    let mut part = Part { from, bytes: Vec::new() };
    let mut end = 0;
    for (path, is_older) in [(older(log), true), (log.to_owned(), false)] {
        let Ok(mut file) = File::open(path) else { continue };
        let metadata = file.metadata().ok()?;
        let begin = match begins.of(metadata.ino()) {
            Some(begin) => begin,
            None if begins.0.is_empty() => end,
            // It is about to go.
            None if is_older => continue,
            None => return None,
        };
        end = begin + metadata.len();
        if part.next() >= end {
            continue;
        }
        if part.bytes.is_empty() {
            part.from = from.max(begin);
        }
        let left = most - part.bytes.len() as u64;
        file.seek(SeekFrom::Start(part.next() - begin)).ok()?;
        file.take(left).read_to_end(&mut part.bytes).ok()?;
        if part.bytes.len() as u64 >= most {
            break;
        }
    }
    Some(part)
}

/// Reads the end of what a job printed, at most so many bytes, beginning with a whole line if it can.
pub fn tail(log: &Path, most: u64) -> Part {
    let kept: u64 =
        [older(log), log.to_owned()].iter().map(|path| fs::metadata(path).map_or(0, |file| file.len())).sum();
    let first = read_on(log, 0, 0).from;
    let from = first + kept.saturating_sub(most);
    let mut part = read_on(log, from, most);
    let line = part.bytes.iter().position(|byte| *byte == b'\n').filter(|line| line + 1 < part.bytes.len());
    if let (true, Some(line)) = (from > first, line) {
        part.bytes.drain(..=line);
        part.from += line as u64 + 1;
    }
    part
}

/// Returns where the part of a log lies that came before the current one.
pub fn older(log: &Path) -> PathBuf {
    beside(log, ".1")
}

fn beside(log: &Path, suffix: &str) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_their_number_when_the_first_ones_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        let lines: Vec<String> = (0..2_000).map(|number| format!("line {number}\n")).collect();
        let mut log = Log::open(&path, 0).unwrap();
        let (mut whole, mut read) = (Vec::new(), Vec::new());
        for (number, line) in lines.iter().enumerate() {
            log.write(line.as_bytes()).unwrap();
            whole.extend_from_slice(line.as_bytes());
            if number % 100 == 0 {
                // Whoever reads soon enough misses nothing.
                let part = read_on(&path, read.len() as u64, u64::MAX);
                assert_eq!(part.from, read.len() as u64);
                read.extend(part.bytes);
                assert_eq!(read, whole);
            }
            if number == 1_000 {
                let before = read_on(&path, 0, u64::MAX);
                log = Log::open(&path, 0).unwrap();
                assert_eq!(read_on(&path, 0, u64::MAX), before);
            }
        }
        let late = read_on(&path, 7, u64::MAX);
        assert!(late.from > 7, "{}", late.from);
        let from = usize::try_from(late.from).unwrap();
        assert_eq!(late.bytes, whole[from..]);
        assert_eq!(read_on(&path, late.from + 3, 5).bytes, whole[from + 3..from + 8]);
        assert_eq!(read_on(&path, late.next(), 5), Part { from: late.next(), bytes: Vec::new() });
        let end = tail(&path, 20);
        assert_eq!((end.next(), end.bytes), (whole.len() as u64, b"line 1999\n".to_vec()));
        assert_eq!(tail(&path, u64::MAX), late);
        assert_eq!(read_on(&dir.path().join("none"), 3, 9), Part { from: 3, bytes: Vec::new() });
    }

    #[test]
    fn whoever_reads_while_it_is_written_reads_each_byte_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        let byte = |number: u64| u8::try_from(number % 251).unwrap();
        let all: u64 = 400_000;
        std::thread::scope(|scope| {
            let mut log = Log::open(&path, 0).unwrap();
            scope.spawn(move || {
                let bytes: Vec<u8> = (0..all).map(byte).collect();
                bytes.chunks(997).for_each(|chunk| log.write(chunk).unwrap());
            });
            let mut next = 0;
            while next < all {
                let part = read_on(&path, next, 5_000);
                assert!(part.from >= next);
                for (number, found) in (part.from..).zip(&part.bytes) {
                    assert_eq!(*found, byte(number), "{number}");
                }
                next = part.next();
            }
        });
    }
}
