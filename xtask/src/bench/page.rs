//! The page with all results, docs/performance.md, and the machine on which they were measured.
//!
//! The page is written by hand. Only text between `<!-- bench: NAME -->` and `<!-- end of NAME -->` is replaced. A quick
//! benchmark writes its page into the target directory instead.

use std::process::Command;

use super::options::Options;
use super::results::Part;
use super::scratch::{bench_dir, create_dir, write as write_file};
use crate::tidy::read;
use crate::{Result, root};

const PAGE: &str = "docs/performance.md";

const QUICK_TITLE: &str = "# Performance\n\n**These numbers are of a quick run with little data: they only show that the \
    benchmark works.**\n";

/// Returns facts about the machine: what each is called, and its value.
pub(super) fn facts(options: &Options) -> Vec<(&'static str, String)> {
    // One line, or nothing if a program is not installed.
    let says = |line: &str| {
        let output = Command::new("sh").args(["-c", line]).current_dir(root()).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        text.lines().next().unwrap_or_default().trim().to_owned()
    };
    vec![
        ("date", says("date --utc +%Y-%m-%d")),
        ("version", says("git describe --always --tags --dirty")),
        ("profile", options.profile.clone()),
        ("processor", says("echo $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores")),
        ("memory", says("awk '/^MemTotal/ { printf \"%.0f GiB\", $2 / 1048576 }' /proc/meminfo")),
        ("kernel", says("uname -sr")),
        ("file system", says(&format!("stat --file-system --format=%T '{}'", bench_dir().display()))),
        ("load before the run (1, 5 and 15 minutes)", says("cut -d ' ' -f 1-3 /proc/loadavg")),
    ]
}

/// Writes the page from the facts about the machine and the results of all benchmarks, by name.
pub(super) fn write(options: &Options, machine: &[(&str, String)], parts: &[(&str, Part)]) -> Result {
    let mut page = read(&root().join(PAGE))?;
    let facts: Vec<String> = machine.iter().map(|(name, value)| format!("| {name} | {value} |")).collect();
    page = replaced(&page, "machine", &format!("| this run | |\n|---|---|\n{}", facts.join("\n")))?;
    for (name, part) in parts {
        let failures = part.failures.iter().map(|failure| failure.lines().next().unwrap_or_default());
        let failures: Vec<String> =
            failures.map(|failure| format!("\n\nNot measured in this run: {failure}.")).collect();
        page = replaced(&page, name, &format!("{}{}", part.table(1.0), failures.concat()))?;
    }
    let mut path = root().join(PAGE);
    if options.quick {
        page = page.replacen("# Performance\n", QUICK_TITLE, 1);
        create_dir(&bench_dir().join("quick"))?;
        path = bench_dir().join("quick/performance.md");
    }
    write_file(&path, &[&page])?;
    println!("wrote {}", path.display());
    Ok(())
}

/// Replaces the text of a region.
fn replaced(page: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- bench: {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = parts.ok_or_else(|| format!("{PAGE} has no region {name}"))?;
    Ok(format!("{before}{begin}\n{}\n\n{end}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_region_for_each_benchmark() {
        let page = read(&root().join(PAGE)).unwrap();
        for name in super::super::names().into_iter().chain(["machine"]) {
            assert_eq!(replaced(&page, name, "new").unwrap().matches("\nnew\n").count(), 1, "{name}");
        }
        assert!(replaced(&page, "other", "new").is_err());
    }
}
