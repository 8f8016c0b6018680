//! Images of file systems, loop devices and mounts, each released on drop.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system for power cuts.
pub(crate) struct FileSystem {
    pub(crate) name: &'static str,
    /// The smallest size that works, in MiB.
    size: u64,
    make: &'static [&'static str],
    options: &'static str,
}

/// Common file systems.
pub(crate) const FILE_SYSTEMS: [FileSystem; 3] = [
    FileSystem { name: "ext4", size: 96, make: &["mkfs.ext4", "-q", "-F"], options: "defaults" },
    FileSystem { name: "xfs", size: 320, make: &["mkfs.xfs", "-q", "-f"], options: "nouuid" },
    FileSystem { name: "btrfs", size: 160, make: &["mkfs.btrfs", "-q", "-f"], options: "defaults" },
];

impl FileSystem {
    /// Creates an empty file system in a file.
    pub(crate) fn make(&self, image: &Path) -> Result<(), String> {
        let file = std::fs::File::create(image).map_err(|error| error.to_string())?;
        file.set_len(self.size << 20).map_err(|error| error.to_string())?;
        run(Command::new(self.make[0]).args(&self.make[1..]).arg(image)).map(drop)
    }

    /// Mounts a device.
    pub(crate) fn mount(&self, device: &Path, directory: &Path) -> Result<Mounted, String> {
        if self.name == "btrfs" {
            // Btrfs remembers devices, and would confuse this one with another of the same content.
            let _ = run(Command::new("btrfs").args(["device", "scan", "--forget"]));
        }
        run(Command::new("mount").args(["-t", self.name, "-o", self.options]).arg(device).arg(directory))?;
        Ok(Mounted { directory: directory.to_owned() })
    }
}

/// A mounted file system.
pub(crate) struct Mounted {
    directory: PathBuf,
}

impl Mounted {
    /// Flushes the file system to the device.
    pub(crate) fn sync(&self) -> Result<(), String> {
        run(Command::new("sync").arg("-f").arg(&self.directory)).map(drop)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if run(Command::new("umount").arg(&self.directory)).is_err() {
            let _ = run(Command::new("umount").arg("--lazy").arg(&self.directory));
        }
    }
}

/// A loop device over a file.
pub(crate) struct LoopDevice {
    pub(crate) path: PathBuf,
}

impl LoopDevice {
    pub(crate) fn over(file: &Path) -> Result<LoopDevice, String> {
        let found = run(Command::new("losetup").args(["--find", "--show"]).arg(file))?;
        Ok(LoopDevice { path: PathBuf::from(found.trim()) })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = run(Command::new("losetup").arg("--detach").arg(&self.path));
    }
}

/// Returns the first requirement of power cuts that this machine does not meet.
pub(crate) fn missing() -> Option<String> {
    for file in ["/dev/fuse", "/dev/loop-control"] {
        let opened = std::fs::OpenOptions::new().read(true).write(true).open(file);
        if let Err(error) = opened {
            return Some(format!("{file}: {error}"));
        }
    }
    let makers = FILE_SYSTEMS.iter().map(|kind| kind.make[0]);
    let is_missing = |program: &str| Command::new(program).arg("-V").output().is_err();
    makers
        .chain(["losetup", "mount", "unshare"])
        .find(|program| is_missing(program))
        .map(|program| format!("no {program}"))
}

/// Runs a program, which must succeed. Returns its output.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
