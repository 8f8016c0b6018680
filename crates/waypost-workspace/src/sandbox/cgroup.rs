//! A cgroup for the processes of one job, which limits their memory and their number.
//!
//! Both versions of cgroups are used: a machine may have either, or both. A group needs a directory that this process may
//! write: that of root, or one that systemd delegated to the user.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use waypost_core::{Error, Result};

/// The maximum time until a group without processes can be removed.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two attempts to remove a group.
const REMOVE_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// How often the limits of a group took effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Processes that were killed because of the memory limit.
    pub killed: u64,
    /// Processes that could not be started because of the process limit.
    pub refused: u64,
}

/// The cgroup of a job. With version 1 it is a directory for each controller.
#[derive(Debug)]
pub(crate) struct Cgroup {
    dirs: Vec<PathBuf>,
}

/// A controller of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Controller {
    Memory,
    Pids,
}

impl Controller {
    fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
        }
    }
}

/// A directory in which a group can be created.
#[derive(Debug, PartialEq, Eq)]
struct Parent {
    dir: PathBuf,
    is_second_version: bool,
}

impl Cgroup {
    /// Creates the group of a job. None if there is no directory in which this process may create one.
    pub(crate) fn create(job: &str, memory: Option<u64>, processes: Option<u32>) -> Result<Option<Cgroup>> {
        let limits = [(Controller::Memory, memory), (Controller::Pids, processes.map(u64::from))];
        let mut group = Cgroup { dirs: Vec::new() };
        for (controller, limit) in limits.into_iter().filter_map(|(controller, limit)| Some((controller, limit?))) {
            let Some(parent) = parent(controller) else {
                group.remove();
                return Ok(None);
            };
            let dir = parent.dir.join(name_of(job));
            let created = if group.dirs.contains(&dir) { Ok(()) } else { fs::create_dir(&dir) };
            if let Err(error) = created {
                log::debug!("cannot create {}: {error}", dir.display());
                group.remove();
                return Ok(None);
            }
            if !group.dirs.contains(&dir) {
                group.dirs.push(dir.clone());
            }
            if let Err(error) = set_limit(&dir, controller, limit, parent.is_second_version) {
                group.remove();
                return Err(
                    Error::unavailable(format!("cannot set the {} limit of the job", controller.name())).because(error)
                );
            }
        }
        Ok(Some(group))
    }

    /// Moves a process into the group. Its later children are in the group too.
    pub(crate) fn add(&self, pid: u32) -> Result<()> {
        for dir in &self.dirs {
            write(&dir.join("cgroup.procs"), &pid.to_string())
                .map_err(|error| Error::unavailable("cannot limit the processes of the job").because(error))?;
        }
        Ok(())
    }

    /// Returns how often its limits took effect.
    pub(crate) fn hits(&self) -> Hits {
        let count = |file: &str, word: &str| {
            let texts = self.dirs.iter().filter_map(|dir| fs::read_to_string(dir.join(file)).ok());
            texts.filter_map(|text| field(&text, word)).sum()
        };
        Hits {
            killed: count("memory.events", "oom_kill") + count("memory.oom_control", "oom_kill"),
            refused: count("pids.events", "max"),
        }
    }

    /// Removes the group. Its processes must have ended.
    pub(crate) fn remove(&self) {
        self.dirs.iter().for_each(|dir| remove(dir));
    }
}

/// Removes the group that a killed supervisor left.
pub(crate) fn remove_cgroup_of(job: &str) {
    let dirs = [Controller::Memory, Controller::Pids].into_iter().filter_map(parent);
    let dirs = dirs.map(|parent| parent.dir.join(name_of(job)));
    dirs.filter(|dir| dir.is_dir()).for_each(|dir| remove(&dir));
}

/// Returns whether this process may create groups with both limits.
pub(super) fn is_available() -> bool {
    [Controller::Memory, Controller::Pids].into_iter().all(|controller| {
        parent(controller).is_some_and(|parent| {
            let test = parent.dir.join(name_of(&format!("test-{}", std::process::id())));
            fs::create_dir(&test).is_ok() && fs::remove_dir(&test).is_ok()
        })
    })
}

fn name_of(job: &str) -> String {
    format!("waypost-{job}")
}

fn remove(dir: &Path) {
    let until = Instant::now() + REMOVE_TIMEOUT;
    while let Err(error) = fs::remove_dir(dir) {
        if Instant::now() >= until {
            log::debug!("cannot remove {}: {error}", dir.display());
            return;
        }
        let _ = poll(&mut [], Some(&REMOVE_INTERVAL));
    }
}

fn set_limit(dir: &Path, controller: Controller, limit: u64, is_second_version: bool) -> std::io::Result<()> {
    let limit = limit.to_string();
    match (controller, is_second_version) {
        (Controller::Pids, _) => write(&dir.join("pids.max"), &limit),
        (Controller::Memory, true) => {
            write(&dir.join("memory.max"), &limit)?;
            // Without swap the file does not exist.
            let _ = write(&dir.join("memory.swap.max"), "0");
            Ok(())
        }
        (Controller::Memory, false) => {
            write(&dir.join("memory.limit_in_bytes"), &limit)?;
            let _ = write(&dir.join("memory.memsw.limit_in_bytes"), &limit);
            Ok(())
        }
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

fn field(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
}

/// Returns the nearest directory above this process in which a group with a controller can be created.
fn parent(controller: Controller) -> Option<Parent> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    parent_of(controller, &mounts, &groups, |dir| {
        let controllers = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
        controllers.split_whitespace().any(|name| name == controller.name())
    })
}

/// Finds the directory from the texts of the kernel. `passes_on` tells whether groups in a directory of version 2 have the
/// controller.
fn parent_of(controller: Controller, mounts: &str, groups: &str, passes_on: impl Fn(&Path) -> bool) -> Option<Parent> {
    for group in groups.lines() {
        let mut parts = group.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_second_version = controllers.is_empty();
        if !is_second_version && !controllers.split(',').any(|name| name == controller.name()) {
            continue;
        }
        let Some(mount) = mount_point(mounts, controller, is_second_version) else { continue };
        let own = mount.join(path.trim_start_matches('/'));
        let dir = if is_second_version {
            // A group with processes cannot pass its controllers on, so the new one is beside it or further up.
            own.ancestors().skip(1).take_while(|dir| dir.starts_with(&mount)).find(|dir| passes_on(dir))?.to_owned()
        } else {
            own
        };
        return Some(Parent { dir, is_second_version });
    }
    None
}

fn mount_point(mounts: &str, controller: Controller, is_second_version: bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let is_it = match kind {
            "cgroup2" => is_second_version,
            "cgroup" => !is_second_version && options.split(',').any(|name| name == controller.name()),
            _ => false,
        };
        is_it.then(|| before.split(' ').nth(4).map(PathBuf::from)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
25 20 0:23 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
26 25 0:24 / /sys/fs/cgroup/unified rw,nosuid shared:8 - cgroup2 cgroup2 rw
27 25 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
28 25 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
";

    #[test]
    fn a_group_of_version_1_is_created_in_that_of_the_supervisor() {
        let groups = "3:pids:/user\n2:memory:/\n0::/\n";
        let dir = |controller| parent_of(controller, MOUNTS, groups, |_| false).map(|parent| parent.dir);
        assert_eq!(dir(Controller::Memory), Some("/sys/fs/cgroup/memory/".into()));
        assert_eq!(dir(Controller::Pids), Some("/sys/fs/cgroup/pids/user".into()));
    }

    #[test]
    fn a_group_of_version_2_is_created_where_the_controller_is_passed_on() {
        let mounts = "30 20 0:24 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let groups = "0::/user.slice/user-1.slice/user@1.service/app.slice/x.scope\n";
        let app = Path::new("/sys/fs/cgroup/user.slice/user-1.slice/user@1.service/app.slice");
        let found = parent_of(Controller::Memory, mounts, groups, |dir| app.starts_with(dir));
        assert_eq!(found, Some(Parent { dir: app.to_owned(), is_second_version: true }));
        assert_eq!(parent_of(Controller::Memory, mounts, groups, |_| false), None);
        assert_eq!(parent_of(Controller::Memory, mounts, "0::/\n", |_| true), None);
    }

    #[test]
    fn hits_are_read_from_the_files_of_both_versions() {
        assert_eq!(field("low 0\noom 2\noom_kill 1\n", "oom_kill"), Some(1));
        assert_eq!(field("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill"), Some(3));
        assert_eq!(field("max 4\n", "max"), Some(4));
    }
}
