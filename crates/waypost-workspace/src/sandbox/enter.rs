//! The helper that restricts its own process and executes the command of a job in it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use waypost_core::{Error, Result, path_text};

use super::{Failure, READY, Stage};

/// The largest stage that the helper reads.
const MAX_STAGE_BYTES: u64 = 16 << 20;

/// Reads a stage from standard input, restricts this process, and executes the command. Returns only if that fails, with the
/// exit code of a shell. The supervisor has the reason then.
pub fn enter() -> Result<u8> {
    let no_supervisor = |error: std::io::Error| {
        Error::refused("only the supervisor of a job runs this command").because(error).hint("way job start")
    };
    // The copy is closed when the command is executed, which tells the supervisor that it runs.
    let socket =
        rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(|error| no_supervisor(error.into()))?;
    let mut socket = UnixStream::from(socket);
    let stage = read_stage(&mut socket).map_err(no_supervisor)?;
    let failure = run(&stage, &mut socket);
    let text = serde_json::to_string(&failure).map_err(|error| Error::internal(error.to_string()))?;
    let _ = socket.write_all(format!("{text}\n").as_bytes());
    Ok(match failure {
        Failure::Missing(_) => 127,
        Failure::Forbidden(_) => 126,
        Failure::Unavailable(_) => 125,
    })
}

/// Restricts this process as a file says, and executes a tool that works in the workspace of a job. Returns only if that fails.
pub fn enter_for_tool(file: &Path, command: &[OsString]) -> Result<u8> {
    let cannot = |why: String| Error::unavailable(super::NO_SANDBOX).because(why);
    let text = std::fs::read(file).map_err(|error| cannot(error.to_string()))?;
    let stage: Stage = serde_json::from_slice(&text).map_err(|error| cannot(error.to_string()))?;
    let (program, arguments) = command.split_first().ok_or_else(|| cannot("there is no command".to_owned()))?;
    // Without the process that waits for it, nothing would ever end it.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| cannot(error.to_string()))?;
    if let Err(Failure::Missing(why) | Failure::Forbidden(why) | Failure::Unavailable(why)) = restrict(&stage) {
        return Err(cannot(why));
    }
    Err(cannot(Command::new(program).args(arguments).exec().to_string()))
}

fn read_stage(socket: &mut UnixStream) -> std::io::Result<Stage> {
    let mut length = [0; 8];
    socket.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_STAGE_BYTES {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut text = Vec::new();
    // No byte more: the rest is for the next stage.
    socket.take(length).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Applies a stage and executes its command. Returns the reason why it could not.
fn run(stage: &Stage, socket: &mut UnixStream) -> Failure {
    let command: Vec<OsString> = stage.command.iter().map(|part| path_text::from_text(part).into()).collect();
    let Some((program, arguments)) = command.split_first() else {
        return Failure::Unavailable("a job needs a command".to_owned());
    };
    if stage.is_last {
        if let Err(failure) = restrict(stage).and_then(|()| close_input()) {
            return failure;
        }
        if let Err(failure) = check_program(Path::new(program), &stage.path) {
            return failure;
        }
        if let Err(error) = socket.write_all(format!("{READY}\n").as_bytes()) {
            return Failure::Unavailable(format!("the supervisor of the job is gone: {error}"));
        }
    }
    let error = Command::new(program).args(arguments).exec();
    match error.kind() {
        ErrorKind::NotFound => Failure::Missing(format!("there is no program {}: {error}", program.display())),
        ErrorKind::PermissionDenied => Failure::Forbidden(format!("cannot execute {}: {error}", program.display())),
        _ => Failure::Unavailable(format!("cannot start {}: {error}", program.display())),
    }
}

/// Refuses a program that does not exist at its path or in a directory of `PATH`, or that is not executable. With
/// bubblewrap, the supervisor does not see why executing it failed.
fn check_program(program: &Path, path: &str) -> std::result::Result<(), Failure> {
    let is_executable =
        |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    let missing = || Failure::Missing(format!("there is no program {}", program.display()));
    if program.components().count() > 1 {
        let forbidden = || Failure::Forbidden(format!("cannot execute {}", program.display()));
        return match (program.exists(), is_executable(program)) {
            (_, true) => Ok(()),
            (true, false) => Err(forbidden()),
            (false, false) => Err(missing()),
        };
    }
    let is_there = std::env::split_paths(&path_text::from_text(path)).any(|dir| is_executable(&dir.join(program)));
    if is_there { Ok(()) } else { Err(missing()) }
}

fn restrict(stage: &Stage) -> std::result::Result<(), Failure> {
    let cannot = |what: &str, error: &dyn std::fmt::Display| Failure::Unavailable(format!("cannot {what}: {error}"));
    #[cfg(target_os = "linux")]
    if stage.own_network || stage.own_user {
        linux::leave_namespaces(stage.own_network, stage.own_user)
            .map_err(|error| cannot("give the job a network of its own", &error))?;
    }
    #[cfg(not(target_os = "linux"))]
    if stage.own_network || stage.own_user {
        return Err(cannot("give the job a network of its own", &"only Linux has namespaces"));
    }
    limit(stage).map_err(|error| cannot("limit memory and processes of the job", &error))?;
    #[cfg(target_os = "linux")]
    linux::drop_privileges(stage.rules.as_deref()).map_err(|error| cannot("restrict the job", &error))?;
    Ok(())
}

/// Gives the command an empty input instead of the socket of its supervisor.
fn close_input() -> std::result::Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::Unavailable(format!("cannot open /dev/null: {error}"));
    let nothing = File::open("/dev/null").map_err(cannot)?;
    rustix::stdio::dup2_stdin(nothing).map_err(|error| cannot(error.into()))
}

/// Limits what a cgroup would limit better: the memory of each process, and the processes of the user.
fn limit(stage: &Stage) -> rustix::io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let set = |resource, limit: u64| setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) });
    if let Some(bytes) = stage.memory {
        // Not the address space: many programs reserve much more of it than they use.
        set(Resource::Data, bytes)?;
    }
    if let Some(number) = stage.processes {
        set(Resource::Nproc, number.into())?;
    }
    Ok(())
}

/// Returns whether the kernel has a Landlock that also protects files against being emptied.
pub(super) fn has_landlock() -> bool {
    #[cfg(target_os = "linux")]
    return linux::has_landlock();
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// Writes a file of `/proc`.
fn write(path: &str, text: &str) -> std::io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;

    use landlock::{
        ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
        RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
    };
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
    use rustix::thread::{CapabilitySet, UnshareFlags};

    use super::super::{Access, Rule};

    /// The oldest Landlock that keeps a job from emptying files that it may not write.
    const REQUIRED: ABI = ABI::V3;
    /// The newest Landlock whose restrictions are applied where the kernel has them.
    const WANTED: ABI = ABI::V9;

    /// The capabilities that root keeps: those over its own files and processes.
    const KEPT: CapabilitySet = CapabilitySet::CHOWN
        .union(CapabilitySet::DAC_OVERRIDE)
        .union(CapabilitySet::FOWNER)
        .union(CapabilitySet::FSETID)
        .union(CapabilitySet::KILL)
        .union(CapabilitySet::SETGID)
        .union(CapabilitySet::SETUID)
        .union(CapabilitySet::NET_BIND_SERVICE);

    pub(super) fn has_landlock() -> bool {
        ruleset().and_then(Ruleset::create).is_ok()
    }

    fn ruleset() -> Result<Ruleset, RulesetError> {
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(REQUIRED))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(WANTED))?
            .scope(Scope::from_all(WANTED))
    }

    /// Gives up privileges for good. With rules, only the files that they list stay accessible.
    pub(super) fn drop_privileges(rules: Option<&[Rule]>) -> Result<(), Box<dyn std::error::Error>> {
        if rustix::process::geteuid().is_root() {
            for capability in CapabilitySet::all().difference(KEPT).iter() {
                // It fails for those that the kernel does not know, or that are gone already.
                let _ = rustix::thread::remove_capability_from_bounding_set(capability);
            }
        }
        rustix::thread::set_no_new_privs(true)?;
        let Some(rules) = rules else { return Ok(()) };
        let mut created = ruleset()?.create()?.set_compatibility(CompatLevel::BestEffort);
        for rule in rules {
            created = allow(created, rule)?;
        }
        let status = created.restrict_self()?;
        if status.ruleset == RulesetStatus::NotEnforced {
            return Err("Landlock is not enforced".into());
        }
        Ok(())
    }

    fn allow(created: RulesetCreated, rule: &Rule) -> Result<RulesetCreated, RulesetError> {
        // A path that does not exist, or that this user cannot reach, needs no rule.
        let Ok(path) = PathFd::new(&rule.path) else { return Ok(created) };
        created.add_rule(PathBeneath::new(path, rights(rule.access)))
    }

    fn rights(access: Access) -> BitFlags<AccessFs> {
        let read = AccessFs::from_read(WANTED);
        match access {
            Access::List => AccessFs::ReadDir.into(),
            Access::Read => read,
            Access::Write => AccessFs::from_all(WANTED) & !(AccessFs::MakeChar | AccessFs::MakeBlock),
            // The right to make block devices, which no job can use, is one that no other directory gives. The kernel lets no
            // directory move to where it gains a right, so none that contains links can come from the workspace.
            Access::Shared => {
                let special = AccessFs::MakeSym | AccessFs::MakeFifo | AccessFs::MakeSock | AccessFs::MakeChar;
                AccessFs::from_all(WANTED) & !special
            }
            Access::Closed => BitFlags::EMPTY,
            Access::Device => read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev,
        }
    }

    /// Moves this process into namespaces of its own. Only root needs no user namespace for a network.
    pub(super) fn leave_namespaces(network: bool, user: bool) -> io::Result<()> {
        let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
        let wanted = if network { UnshareFlags::NEWNET } else { UnshareFlags::empty() };
        if user || unshare(wanted).is_err() {
            unshare(wanted | UnshareFlags::NEWUSER)?;
            super::write("/proc/self/setgroups", "deny")?;
            super::write("/proc/self/uid_map", &format!("{0} {0} 1", uid.as_raw()))?;
            super::write("/proc/self/gid_map", &format!("{0} {0} 1", gid.as_raw()))?;
        }
        if network && let Err(error) = start_loopback() {
            log::debug!("the job has no loopback interface: {error}");
        }
        Ok(())
    }

    #[expect(
        deprecated,
        reason = "it can only violate safety by closing or sharing descriptors, which these flags do not"
    )]
    fn unshare(flags: UnshareFlags) -> io::Result<()> {
        Ok(rustix::thread::unshare(flags)?)
    }

    /// Starts the loopback interface of a new network, so that the tests of a project can use it.
    fn start_loopback() -> io::Result<()> {
        const LENGTH: u32 = 32;
        const NEW_LINK: u16 = 16;
        const REQUEST_AND_ACKNOWLEDGE: u16 = 5;
        const LOOPBACK_INDEX: u32 = 1;
        const UP: u32 = 1;
        // No protocol is number 0, which is that of routes and interfaces.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let mut message = Vec::new();
        message.extend(LENGTH.to_ne_bytes());
        message.extend(NEW_LINK.to_ne_bytes());
        message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
        // Sequence number, sender, and family and type of the interface: all 0.
        message.extend([0; 12]);
        message.extend(LOOPBACK_INDEX.to_ne_bytes());
        message.extend(UP.to_ne_bytes());
        message.extend(UP.to_ne_bytes());
        send(&socket, &message, SendFlags::empty())?;
        let mut reply = [0_u8; 256];
        let (length, _) = recv(&socket, &mut reply[..], RecvFlags::empty())?;
        let error = reply[..length].get(16..20).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
        if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-error)) }
    }
}
