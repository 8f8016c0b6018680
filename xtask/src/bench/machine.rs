//! The machine on which a benchmark runs, in words.

use std::path::Path;
use std::process::Command;

use super::options::Options;
use super::scratch::bench_dir;
use crate::root;

/// Returns facts about the machine: what each is called, and its value.
pub(super) fn facts(options: &Options) -> Vec<(&'static str, String)> {
    let cpu = read("/proc/cpuinfo");
    let field = |text: &str, name: &str| {
        text.lines().find_map(|line| Some(line.strip_prefix(name)?.split_once(':')?.1.trim().to_owned()))
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = field(&cpu, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let memory = read("/proc/meminfo");
    let memory = memory.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok());
    let memory = memory.map_or_else(|| "unknown".to_owned(), |kib| format!("{:.0} GiB", kib / 1024.0 / 1024.0));
    let load: Vec<String> = read("/proc/loadavg").split(' ').take(3).map(str::to_owned).collect();
    let file_system = output("stat", &["--file-system", "--format=%T"], Some(&bench_dir()));
    let status = output("git", &["status", "--porcelain", "--untracked-files=no"], None);
    let changed = if status.is_empty() { "" } else { ", with changes" };
    vec![
        ("date", output("date", &["--utc", "+%Y-%m-%d"], None)),
        ("version", format!("{}{changed}", output("git", &["describe", "--always", "--tags"], None))),
        ("profile", options.profile.clone()),
        ("processor", format!("{model}, {cores} cores")),
        ("memory", memory),
        ("kernel", format!("{} {}", output("uname", &["-s"], None), output("uname", &["-r"], None))),
        ("file system", file_system),
        ("load before the run (1, 5 and 15 minutes)", load.join(", ")),
    ]
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns the first line that a program prints in the repository, or nothing if it is not installed.
fn output(program: &str, args: &[&str], path: Option<&Path>) -> String {
    let output = Command::new(program).args(args).args(path).current_dir(root()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}
