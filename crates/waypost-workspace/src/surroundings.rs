//! What surrounds a command: its directory, its environment, its streams, and the program that it is part of.
//!
//! Usually they are those of the process. A thread that runs a command of its own enters others, so that several commands
//! can run in one process without seeing each other. No other module asks the process for them.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

/// An input or an output: a stream of the process, or a file.
#[derive(Clone, Debug)]
pub struct Stream(Source);

#[derive(Clone, Debug)]
enum Source {
    Process(BorrowedFd<'static>),
    File(Arc<File>),
}

impl Stream {
    /// The standard input, output and error output of this process.
    pub fn of_process() -> [Stream; 3] {
        use rustix::stdio::{stderr, stdin, stdout};
        [stdin(), stdout(), stderr()].map(|stream| Stream(Source::Process(stream)))
    }

    /// Returns whether it is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.as_fd().is_terminal()
    }

    /// Returns whether it is a stream of the process.
    pub fn is_of_process(&self) -> bool {
        matches!(self.0, Source::Process(_))
    }

    /// Returns it for a child process.
    fn for_child(&self) -> io::Result<Stdio> {
        match &self.0 {
            Source::Process(_) => Ok(Stdio::inherit()),
            Source::File(file) => Ok(file.try_clone()?.into()),
        }
    }
}

impl From<File> for Stream {
    fn from(file: File) -> Stream {
        Stream(Source::File(Arc::new(file)))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Source::Process(stream) => *stream,
            Source::File(file) => file.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.as_fd(), bytes)?)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.as_fd(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What surrounds a command.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Its directory; that of the process if none.
    pub directory: Option<PathBuf>,
    /// What differs from the environment of the process. A variable without a value is not set.
    pub variables: Vec<(OsString, Option<OsString>)>,
    /// The file of the program that it is part of; that of the process if none.
    pub program: Option<PathBuf>,
    /// Its standard input, output and error output.
    pub streams: [Stream; 3],
    /// What it logs to its error output.
    pub log_level: log::LevelFilter,
}

thread_local! {
    static OF_THREAD: RefCell<Option<Arc<Surroundings>>> = const { RefCell::new(None) };
}

/// Those of threads that entered none.
static OF_PROCESS: OnceLock<Arc<Surroundings>> = OnceLock::new();

impl Surroundings {
    /// Those of this process.
    pub fn of_process() -> Surroundings {
        Surroundings {
            directory: None,
            variables: Vec::new(),
            program: None,
            streams: Stream::of_process(),
            log_level: log::LevelFilter::Off,
        }
    }

    /// Returns those of this thread.
    pub fn current() -> Arc<Surroundings> {
        OF_THREAD
            .with_borrow(Clone::clone)
            .unwrap_or_else(|| Arc::clone(OF_PROCESS.get_or_init(|| Arc::new(Surroundings::of_process()))))
    }

    /// Runs a function with these.
    pub fn enter<T>(self, run: impl FnOnce() -> T) -> T {
        enter(Arc::new(self), run)
    }

    /// Makes these, the first time, those of all threads that enter none.
    pub fn set_for_process(self) {
        let _ = OF_PROCESS.set(Arc::new(self));
    }
}

fn enter<T>(surroundings: Arc<Surroundings>, run: impl FnOnce() -> T) -> T {
    struct Restore(Option<Arc<Surroundings>>);

    impl Drop for Restore {
        fn drop(&mut self) {
            OF_THREAD.set(self.0.take());
        }
    }

    let _restore = Restore(OF_THREAD.replace(Some(surroundings)));
    run()
}

/// Returns the function for another thread, where it runs with the surroundings of this one.
pub fn inherited<T>(run: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let surroundings = Surroundings::current();
    move || enter(surroundings, run)
}

/// Returns the current directory.
pub fn directory() -> io::Result<PathBuf> {
    Surroundings::current().directory.clone().map_or_else(std::env::current_dir, Ok)
}

/// Returns the path that leads to a file which the user named.
pub fn resolve(path: &Path) -> PathBuf {
    Surroundings::current().directory.as_ref().map_or_else(|| path.to_owned(), |directory| directory.join(path))
}

/// Returns an environment variable.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    let surroundings = Surroundings::current();
    let changed = surroundings.variables.iter().find(|(known, _)| known == name);
    changed.map_or_else(|| std::env::var_os(name), |(_, value)| value.clone())
}

/// Returns the directory for temporary files.
pub(crate) fn temporary_dir() -> PathBuf {
    let named = variable("TMPDIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    named.unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// Returns the standard input.
pub fn stdin() -> Stream {
    Surroundings::current().streams[0].clone()
}

/// Returns the standard output.
pub fn stdout() -> Stream {
    Surroundings::current().streams[1].clone()
}

/// Returns the standard error output.
pub fn stderr() -> Stream {
    Surroundings::current().streams[2].clone()
}

/// Returns the file of the running program.
pub fn own_program() -> io::Result<PathBuf> {
    Surroundings::current().program.clone().map_or_else(std::env::current_exe, Ok)
}

/// Returns a command that inherits directory and environment, but no streams if they are not those of the process.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let surroundings = Surroundings::current();
    for (name, value) in &surroundings.variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(directory) = &surroundings.directory {
        command.current_dir(directory);
    }
    command
}

/// Returns a command that inherits directory, environment and streams.
pub(crate) fn interactive_command(program: impl AsRef<OsStr>) -> io::Result<Command> {
    let mut command = command(program);
    let [stdin, stdout, stderr] = &Surroundings::current().streams;
    command.stdin(stdin.for_child()?).stdout(stdout.for_child()?).stderr(stderr.for_child()?);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Vec<u8> {
        command("sh").arg("-c").arg(format!("echo ${name} $PWD")).output().unwrap().stdout
    }

    #[test]
    fn commands_in_threads_do_not_see_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let seen = |value: &str| {
            let directory = dir.join(value);
            std::fs::create_dir(&directory).unwrap();
            let surroundings = Surroundings {
                directory: Some(directory.clone()),
                variables: vec![("SHOWN".into(), Some(value.into())), ("PWD".into(), None)],
                program: Some(value.into()),
                ..Surroundings::of_process()
            };
            surroundings.enter(|| {
                let inner = inherited(|| (variable("SHOWN"), own_program().unwrap(), resolve(Path::new("file"))));
                let (printed, program, file) = std::thread::scope(|scope| scope.spawn(inner).join().unwrap());
                assert_eq!(String::from_utf8(printed).unwrap(), format!("{value} {}\n", directory.display()));
                assert_eq!((program, file), (value.into(), directory.join("file")));
            });
        };
        std::thread::scope(|scope| {
            scope.spawn(|| seen("one"));
            scope.spawn(|| seen("two"));
        });
        assert_eq!(directory().unwrap(), std::env::current_dir().unwrap());
        assert_eq!(resolve(Path::new("file")), Path::new("file"));
    }

    #[test]
    fn a_panic_restores_the_surroundings() {
        let surroundings = Surroundings { directory: Some("/".into()), ..Surroundings::of_process() };
        assert!(std::panic::catch_unwind(|| surroundings.enter(|| panic!("on purpose"))).is_err());
        assert_eq!(Surroundings::current().directory, None);
    }
}
