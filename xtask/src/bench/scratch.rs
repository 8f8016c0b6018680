//! The directory of benchmarks: programs, a home and repositories in the target directory, kept between runs.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::options::Options;
use super::results::Row;
use crate::{Result, cargo, run, target};

/// The directory of all benchmarks, and the measured programs.
pub(super) struct Scratch {
    pub(super) dir: PathBuf,
    /// A program that does nothing, as the baseline.
    pub(super) trivial: PathBuf,
    way: PathBuf,
    programs: PathBuf,
    home: PathBuf,
}

impl Scratch {
    /// Builds all measured programs and creates the directories.
    pub(super) fn prepare(options: &Options) -> Result<Self> {
        let profile = &options.profile;
        let programs = target().join(if profile == "dev" { "debug" } else { profile });
        let dir = bench_dir();
        let (home, way) = (dir.join("home"), dir.join("installed/way"));
        create_dir(&home)?;
        create_dir(&dir.join("installed"))?;
        let trivial = trivial_program(&dir)?;
        // At once: cargo builds dependencies with the same features for all.
        let packages = ["--package", "waypost-cli", "--package", "waypost-bench", "--bins"];
        run(cargo(["build", "--profile", profile, "--locked"]).args(packages))?;
        install(&programs.join("way"), &way)?;
        Ok(Self { dir, trivial, way, programs, home })
    }

    /// Returns a `way` command in a directory.
    pub(super) fn way<I: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = I>) -> Command {
        let mut command = self.command(&self.way, dir);
        command.args(args);
        command
    }

    /// Returns a command without the settings of the developer and without output.
    pub(super) fn command(&self, program: &Path, dir: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", &self.home);
        command
    }

    /// Returns a command of the program `waypost-bench`, in the directory of all benchmarks.
    pub(super) fn program<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Command {
        let mut command = self.command(&self.programs.join("waypost-bench"), &self.dir);
        command.args(args);
        command
    }

    /// Runs `waypost-bench`, and returns the rows that it prints.
    pub(super) fn rows<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Result<Vec<Row>> {
        let output = self.program(args).stdout(Stdio::piped()).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
        String::from_utf8_lossy(&output.stdout).lines().map(Row::parse).collect()
    }

    /// Returns a git repository of this name.
    pub(super) fn repository(&self, name: &str) -> Result<PathBuf> {
        let repo = self.dir.join(name);
        if !repo.join(".git").is_dir() {
            run(Command::new("git").args(["init", "-q"]).arg(&repo))?;
        }
        Ok(repo)
    }
}

/// Returns the directory of all benchmarks.
pub(super) fn bench_dir() -> PathBuf {
    target().join("bench")
}

/// Writes and syncs a file, so that the disk is idle during measurements.
pub(super) fn write(path: &Path, parts: &[&str]) -> Result {
    let written = std::fs::File::create(path).and_then(|mut file| {
        parts.iter().try_for_each(|part| file.write_all(part.as_bytes()))?;
        file.sync_all()
    });
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes the files in a directory whose names start with a prefix.
pub(super) fn remove_files(dir: &Path, prefix: &str) -> Result {
    let Ok(entries) = std::fs::read_dir(dir) else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            std::fs::remove_file(entry.path()).map_err(|error| format!("{}: {error}", entry.path().display()))?;
        }
    }
    Ok(())
}

pub(super) fn create_dir(dir: &Path) -> Result {
    std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))
}

fn trivial_program(dir: &Path) -> Result<PathBuf> {
    let (built, installed) = (dir.join("trivial"), dir.join("installed/trivial"));
    if !built.is_file() {
        let source = dir.join("trivial.rs");
        write(&source, &["fn main() {}\n"])?;
        run(Command::new("rustc").args(["-O", "-o"]).arg(&built).arg(&source))?;
    }
    install(&built, &installed)?;
    Ok(installed)
}

/// Copies a program, as every installation does. The system maps the pages of a file that a linker has just written one by
/// one, those of a copy many at once: a program starts a fifth slower from the directory where it was built.
fn install(built: &Path, installed: &Path) -> Result {
    // The copy may be running, and then cannot be overwritten.
    let _ = std::fs::remove_file(installed);
    std::fs::copy(built, installed).map(drop).map_err(|error| format!("{}: {error}", installed.display()))
}
