//! The output of a job, in two files of bounded size: the current one and the one before it.
//!
//! Offsets count from the first byte that the job printed, also after the oldest output is dropped. So a reader that
//! was disconnected can resume where it stopped.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use waypost_core::redact::{Redactor, Secrets};
use waypost_core::{Error, Result};

/// How often a read is retried because the files were rotated meanwhile.
const MAX_READ_ATTEMPTS: u32 = 20;

/// A log that is being written.
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    /// The offset of the current file's first byte.
    before: u64,
    written: u64,
    limit: u64,
    dropped: u64,
    redactor: Redactor,
}

impl Log {
    pub(crate) fn open(path: &Path, limit: u64, secrets: Secrets) -> Result<Log> {
        let cannot = |error| Error::unavailable(format!("cannot write {}", path.display())).because(error);
        let file = open_log(path).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        let before = Offsets::read(path).of(metadata.ino()).unwrap_or_default();
        let (written, limit) = (metadata.len(), (limit / 2).max(4096));
        let redactor = Redactor::new(secrets);
        Ok(Log { path: path.to_owned(), file, before, written, limit, dropped: 0, redactor })
    }

    /// Copies everything but secrets from a reader into the log. Returns how many bytes were dropped.
    pub(crate) fn keep(mut self, mut from: impl Read) -> u64 {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let part = match from.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => None,
                Ok(count) => Some(&buffer[..count]),
            };
            let redacted = match part {
                Some(part) => self.redactor.push(part),
                None => self.redactor.finish(),
            };
            // Output that cannot be written is lost, but the job must not block.
            if !redacted.is_empty() && self.write(&redacted).is_err() {
                self.dropped += redacted.len() as u64;
            }
            if part.is_none() {
                return self.dropped;
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written + bytes.len() as u64 > self.limit && self.written > 0 {
            self.rotate()?;
        }
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let (older, next) = (older(&self.path), beside(&self.path, ".next"));
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        let begin = self.before + self.written;
        // Written before the renames: readers identify files by inode, not by name.
        let known = vec![(self.file.metadata()?.ino(), self.before), (file.metadata()?.ino(), begin)];
        Offsets(known).write(&self.path)?;
        self.dropped += fs::metadata(&older).map_or(0, |metadata| metadata.len());
        fs::rename(&self.path, older)?;
        fs::rename(next, &self.path)?;
        (self.file, self.before, self.written) = (file, begin, 0);
        Ok(())
    }
}

/// The offsets at which the files of a log begin, by inode.
#[derive(PartialEq, Eq)]
struct Offsets(Vec<(u64, u64)>);

impl Offsets {
    /// Reads the offsets. A log that was never rotated has none.
    fn read(log: &Path) -> Offsets {
        let text = fs::read_to_string(beside(log, ".begins")).unwrap_or_default();
        let pair = |line: &str| {
            let (inode, offset) = line.split_once(' ')?;
            Some((inode.parse().ok()?, offset.parse().ok()?))
        };
        Offsets(text.lines().filter_map(pair).collect())
    }

    fn write(&self, log: &Path) -> io::Result<()> {
        let new = beside(log, ".begins.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        for (inode, offset) in &self.0 {
            writeln!(file, "{inode} {offset}")?;
        }
        fs::rename(new, beside(log, ".begins"))
    }

    fn of(&self, inode: u64) -> Option<u64> {
        self.0.iter().find(|(known, _)| *known == inode).map(|(_, offset)| *offset)
    }
}

/// A part of a job's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The offset of its first byte: the requested one, or the first that is still kept.
    pub from: u64,
    /// The output.
    pub bytes: Vec<u8>,
}

impl Part {
    /// Returns the offset of the next part.
    pub fn next(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }
}

/// Reads a job's output from an offset, at most `max` bytes. The part is empty at the end.
pub fn read_from(log: &Path, from: u64, max: u64) -> Part {
    for _ in 0..MAX_READ_ATTEMPTS {
        let offsets = Offsets::read(log);
        let part = read_at(log, &offsets, from, max);
        if let Some(part) = part.filter(|_| Offsets::read(log) == offsets) {
            return part;
        }
    }
    Part { from, bytes: Vec::new() }
}

/// Reads from both files. None if the offset of the current file is unknown, because the log was rotated meanwhile.
fn read_at(log: &Path, offsets: &Offsets, from: u64, max: u64) -> Option<Part> {
    let mut part = Part { from, bytes: Vec::new() };
    let mut end = 0;
    for (path, is_older) in [(older(log), true), (log.to_owned(), false)] {
        let Ok(mut file) = File::open(path) else { continue };
        let metadata = file.metadata().ok()?;
        let begin = match offsets.of(metadata.ino()) {
            Some(begin) => begin,
            None if offsets.0.is_empty() => end,
            // Another rotation is about to replace it.
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
        let left = max - part.bytes.len() as u64;
        file.seek(SeekFrom::Start(part.next() - begin)).ok()?;
        file.take(left).read_to_end(&mut part.bytes).ok()?;
        if part.bytes.len() as u64 >= max {
            break;
        }
    }
    Some(part)
}

/// Reads the end of a job's output, at most `max` bytes, beginning with a whole line if possible.
pub fn tail(log: &Path, max: u64) -> Part {
    let kept: u64 =
        [older(log), log.to_owned()].iter().map(|path| fs::metadata(path).map_or(0, |file| file.len())).sum();
    let first = read_from(log, 0, 0).from;
    let from = first + kept.saturating_sub(max);
    let mut part = read_from(log, from, max);
    let line = part.bytes.iter().position(|byte| *byte == b'\n').filter(|line| line + 1 < part.bytes.len());
    if let (true, Some(line)) = (from > first, line) {
        part.bytes.drain(..=line);
        part.from += line as u64 + 1;
    }
    part
}

/// Returns the path of the log file before the current one.
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
    fn bytes_keep_their_offset_after_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        let lines: Vec<String> = (0..2_000).map(|number| format!("line {number}\n")).collect();
        let mut log = Log::open(&path, 0, Secrets::default()).unwrap();
        let (mut whole, mut read) = (Vec::new(), Vec::new());
        for (number, line) in lines.iter().enumerate() {
            log.write(line.as_bytes()).unwrap();
            whole.extend_from_slice(line.as_bytes());
            if number % 100 == 0 {
                // A reader that keeps up misses nothing.
                let part = read_from(&path, read.len() as u64, u64::MAX);
                assert_eq!(part.from, read.len() as u64);
                read.extend(part.bytes);
                assert_eq!(read, whole);
            }
            if number == 1_000 {
                let before = read_from(&path, 0, u64::MAX);
                log = Log::open(&path, 0, Secrets::default()).unwrap();
                assert_eq!(read_from(&path, 0, u64::MAX), before);
            }
        }
        let late = read_from(&path, 7, u64::MAX);
        assert!(late.from > 7, "{}", late.from);
        let from = usize::try_from(late.from).unwrap();
        assert_eq!(late.bytes, whole[from..]);
        assert_eq!(read_from(&path, late.from + 3, 5).bytes, whole[from + 3..from + 8]);
        assert_eq!(read_from(&path, late.next(), 5), Part { from: late.next(), bytes: Vec::new() });
        let end = tail(&path, 20);
        assert_eq!((end.next(), end.bytes), (whole.len() as u64, b"line 1999\n".to_vec()));
        assert_eq!(tail(&path, u64::MAX), late);
        assert_eq!(read_from(&dir.path().join("none"), 3, 9), Part { from: 3, bytes: Vec::new() });
    }

    #[test]
    fn a_concurrent_reader_reads_each_byte_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        let byte = |number: u64| u8::try_from(number % 251).unwrap();
        let all: u64 = 400_000;
        std::thread::scope(|scope| {
            let mut log = Log::open(&path, 0, Secrets::default()).unwrap();
            scope.spawn(move || {
                let bytes: Vec<u8> = (0..all).map(byte).collect();
                bytes.chunks(997).for_each(|chunk| log.write(chunk).unwrap());
            });
            let mut next = 0;
            while next < all {
                let part = read_from(&path, next, 5_000);
                assert!(part.from >= next);
                for (number, found) in (part.from..).zip(&part.bytes) {
                    assert_eq!(*found, byte(number), "{number}");
                }
                next = part.next();
            }
        });
    }
}
