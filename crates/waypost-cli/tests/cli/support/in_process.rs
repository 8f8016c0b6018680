//! Runs commands in the process of the tests, which is much faster than starting the program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::process::{Command, ExitCode};
use std::thread;

use waypost_cli::Invocation;
use waypost_testkit::Run;

/// Commands that need a process of their own: they receive signals, serve, start processes that outlive them, or change the
/// process itself.
const OWN_PROCESS: &[&str] = &["__complete", "demo", "hook", "job", "mcp", "serve", "top", "worker"];

/// As much as the main thread of a process has.
const STACK_BYTES: usize = 8 * 1024 * 1024;
/// The exit code of a process that panics.
const PANICKED: i32 = 101;

/// Runs a `way` command with this input. None if it needs a process of its own.
pub(crate) fn run(command: &Command, input: &[u8]) -> Option<Run> {
    if command.get_args().any(|arg| OWN_PROCESS.iter().any(|name| arg == *name)) {
        return None;
    }
    let set = |(name, value): (&OsStr, Option<&OsStr>)| Some((name.to_owned(), value?.to_owned()));
    let (stdin, mut stdout, mut stderr) = (file(), file(), file());
    (&stdin).write_all(input).unwrap();
    (&stdin).rewind().unwrap();
    let invocation = Invocation {
        args: [command.get_program()].into_iter().chain(command.get_args()).map(OsStr::to_owned).collect(),
        variables: command.get_envs().filter_map(set).collect(),
        cwd: command.get_current_dir().unwrap().to_owned(),
        program: Some(command.get_program().into()),
        stdin: stdin.into(),
        stdout: stdout.try_clone().unwrap().into(),
        stderr: stderr.try_clone().unwrap().into(),
    };
    // A thread of its own has no leftovers of the last command, and its panic fails only the command.
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(|| waypost_cli::run(invocation));
    let code = match thread.unwrap().join() {
        Ok(code) => (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap().into(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            writeln!(stderr, "panicked: {}", text.unwrap_or_default()).unwrap();
            PANICKED
        }
    };
    Some(Run { code, stdout: content(&mut stdout), stderr: content(&mut stderr) })
}

/// Returns an empty file in memory.
fn file() -> File {
    rustix::fs::memfd_create("stream", rustix::fs::MemfdFlags::CLOEXEC).unwrap().into()
}

fn content(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}
