//! A disk that records every write and every flush: one file in a FUSE file system, for a loop device.
//!
//! It implements the protocol of the kernel itself, because a loop device sends only a few kinds of requests.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Maximum size of a write request of the kernel.
const MAX_WRITE_BYTES: usize = 128 * 1024;

/// The numbers of the two nodes: the root, and the disk in it.
const ROOT: u64 = 1;
const DISK: u64 = 2;

/// The name of the disk.
const NAME: &[u8] = b"disk\0";

/// Error numbers of the protocol.
const NOT_FOUND: i32 = -2;
const NOT_IMPLEMENTED: i32 = -38;
const NOT_SUPPORTED: i32 = -95;

/// A request to a disk.
pub(crate) enum Entry {
    Write {
        offset: u64,
        data: Vec<u8>,
    },
    /// Makes all earlier writes durable.
    Flush,
}

/// All requests to a disk, in order.
pub(crate) type Log = Arc<Mutex<Vec<Entry>>>;

/// A recording disk. It is unmounted on drop.
pub(crate) struct RecordingDisk {
    mountpoint: PathBuf,
    pub(crate) log: Log,
    server: Option<JoinHandle<()>>,
}

impl RecordingDisk {
    /// Shows an image as the file `disk` in a directory.
    pub(crate) fn mount(image: &Path, mountpoint: &Path) -> std::io::Result<RecordingDisk> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        let image = OpenOptions::new().read(true).write(true).open(image)?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = CString::new(options).expect("options without a zero");
        mount("waypost-torture", mountpoint, "fuse", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
        let log = Log::default();
        let size = image.metadata()?.len();
        let server = Server { device, image, size, log: Arc::clone(&log) };
        let server = Some(std::thread::spawn(move || server.serve()));
        Ok(RecordingDisk { mountpoint: mountpoint.to_owned(), log, server })
    }

    /// Returns the disk's file.
    pub(crate) fn file(&self) -> PathBuf {
        self.mountpoint.join("disk")
    }
}

impl Drop for RecordingDisk {
    fn drop(&mut self) {
        let _ = unmount(&self.mountpoint, UnmountFlags::DETACH);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

struct Server {
    device: File,
    image: File,
    size: u64,
    log: Log,
}

/// A reply: the bytes after the header, or an error.
type Reply = Result<Vec<u8>, i32>;

impl Server {
    /// Answers until the file system is unmounted.
    fn serve(mut self) {
        let mut buffer = vec![0; MAX_WRITE_BYTES + 4096];
        while let Ok(length) = self.device.read(&mut buffer) {
            let request = &buffer[..length];
            let (opcode, unique, node) = (number(request, 4), long(request, 8), long(request, 16));
            let body = &request[40..];
            let reply = match opcode {
                // FORGET, INTERRUPT and BATCH_FORGET have no reply.
                2 | 36 | 42 => continue,
                _ => self.answer(opcode, node, body),
            };
            let (error, data) = reply.map_or_else(|error| (error, Vec::new()), |data| (0, data));
            let mut message = Vec::with_capacity(16 + data.len());
            message.extend(u32::try_from(16 + data.len()).expect("a short answer").to_ne_bytes());
            message.extend(error.to_ne_bytes());
            message.extend(unique.to_ne_bytes());
            message.extend(data);
            let _ = self.device.write(&message);
        }
    }

    fn answer(&mut self, opcode: u32, node: u64, body: &[u8]) -> Reply {
        match opcode {
            // LOOKUP
            1 if body == NAME => Ok([words(&[DISK, 0, 3600, 3600, 0]), self.attributes(DISK)].concat()),
            1 => Err(NOT_FOUND),
            // GETATTR, SETATTR
            3 | 4 => Ok([words(&[3600, 0]), self.attributes(node)].concat()),
            // OPEN, OPENDIR
            14 | 27 => Ok(words(&[0, 0])),
            // READ
            15 => self.read(long(body, 8), number(body, 16)),
            // WRITE
            16 => self.write(long(body, 8), &body[40..]),
            // STATFS
            17 => Ok(vec![0; 80]),
            // FSYNC
            20 => {
                self.image.sync_data().ok();
                self.log.lock().expect("the log").push(Entry::Flush);
                Ok(Vec::new())
            }
            // RELEASE, FLUSH, READDIR, RELEASEDIR, DESTROY
            18 | 25 | 28 | 29 | 38 => Ok(Vec::new()),
            // INIT
            26 => Ok(init_reply()),
            // FALLOCATE
            43 => Err(NOT_SUPPORTED),
            _ => Err(NOT_IMPLEMENTED),
        }
    }

    /// Returns the attributes of a node, in the layout of the protocol.
    fn attributes(&self, node: u64) -> Vec<u8> {
        let (mode, size): (u32, u64) = if node == ROOT { (0o040_755, 0) } else { (0o100_600, self.size) };
        let mut bytes = words(&[node, size, size / 512, 0, 0, 0]);
        for field in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
            bytes.extend(field.to_ne_bytes());
        }
        bytes
    }

    fn read(&self, offset: u64, size: u32) -> Reply {
        let size = u64::from(size).min(self.size.saturating_sub(offset));
        let mut data = vec![0; usize::try_from(size).expect("a short read")];
        self.image.read_exact_at(&mut data, offset).map_err(|_| -5)?;
        Ok(data)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Reply {
        self.image.write_all_at(data, offset).map_err(|_| -5)?;
        self.log.lock().expect("the log").push(Entry::Write { offset, data: data.to_vec() });
        Ok(words(&[data.len() as u64]))
    }
}

/// Returns the reply to INIT: version 7.31, and large writes.
fn init_reply() -> Vec<u8> {
    let (large_writes, many_pages) = (1 << 5, 1 << 22);
    let mut bytes = Vec::new();
    for field in [7_u32, 31, 128 * 1024, large_writes | many_pages] {
        bytes.extend(field.to_ne_bytes());
    }
    bytes.extend(16_u16.to_ne_bytes());
    bytes.extend(12_u16.to_ne_bytes());
    bytes.extend(u32::try_from(MAX_WRITE_BYTES).expect("a short write").to_ne_bytes());
    bytes.extend(1_u32.to_ne_bytes());
    bytes.extend(u16::try_from(MAX_WRITE_BYTES / 4096).expect("few pages").to_ne_bytes());
    bytes.resize(64, 0);
    bytes
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
