//! Safe file operations: locks, durable replacement, private files, and trees that are copied, measured or deleted.
//!
//! The store, the ledger, the configuration and the workspaces need the same guarantees from the file system: a fair lock
//! with a timeout, a replacement that survives a power cut, directories that only their owner can read, and tree
//! operations that never follow a link out of the tree. This crate provides them once. It knows nothing about the
//! meaning of the files.

mod clock;
mod copy;
mod flock;
mod fs_type;
mod identity;
mod lock;
mod measure;
mod mounts;
mod overlay;
mod private;
mod private_dir;
mod process;
mod queue;
mod remove;
mod replace;
mod small_file;
mod stamp;
mod swap;

pub use clock::{boot_clock, kernel_time_ms};
pub use copy::{Copied, copy_below, copy_tree};
pub use fs_type::network_file_system;
pub use identity::FileIdentity;
pub use lock::FileLock;
pub use measure::{Usage, measure_tree};
pub use mounts::{check_no_mount_in, mounts_in};
pub use overlay::{mount_overlay, unmount_overlay};
pub use private::{check_path, check_private, create_durable_dir, create_private_dir, create_private_file};
pub use private_dir::PrivateDir;
pub use process::{check_threads, process_start};
pub use remove::remove_tree;
pub use replace::{create_beside, rename_new, replace, replace_entry, sweep_temporaries, sync_dir, sync_file_system};
pub use small_file::{
    MAX_SMALL_FILE, open_regular_file, read_own_small_file, read_permitted_small_file, read_regular_file,
    read_small_file,
};
pub use stamp::{Stamp, age, boot_id};
pub use swap::{
    FileVersion, Replaced, find_displaced, read_version, replace_if_unchanged, restore_displaced, scan_version,
};
