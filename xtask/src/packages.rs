//! Packages that carry the program: for Debian, for npm and for PyPI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::dist::{copy, create_dir, write};
use crate::{Result, root, run};

/// The program with its documents, as the archive has them.
pub(crate) struct Contents<'a> {
    /// The directory with `way`, `completions/`, `man/` and documents.
    pub(crate) dir: &'a Path,
    pub(crate) version: &'a str,
    /// The target that the program is built for, as Rust names it.
    pub(crate) target: &'a str,
}

const ABOUT: &str = "The durable, shared memory of coding agents at work";

/// Writes all packages into a directory, and returns their names.
pub(crate) fn write_all(contents: &Contents<'_>, into: &Path) -> Result<Vec<String>> {
    Ok(vec![debian(contents, into)?, npm(contents, into)?, wheel(contents, into)?])
}

/// Returns the names of the processor for Debian, npm and PyPI.
fn processor(target: &str) -> Result<[&'static str; 3]> {
    match target.split('-').next() {
        Some("x86_64") => Ok(["amd64", "x64", "x86_64"]),
        Some("aarch64") => Ok(["arm64", "arm64", "aarch64"]),
        _ => Err(format!("no packages are made for {target}")),
    }
}

/// Returns the newest version of glibc whose symbols a program uses, as the second number of the version. A program that
/// names none is taken to run with the oldest one that Rust supports.
fn glibc(program: &Path) -> Result<u32> {
    const MARK: &[u8] = b"GLIBC_2.";
    let bytes = fs::read(program).map_err(|error| format!("{}: {error}", program.display()))?;
    let places = bytes.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let number = |place: usize| -> Option<u32> {
        let digits: Vec<u8> = bytes[place + MARK.len()..].iter().copied().take_while(u8::is_ascii_digit).collect();
        std::str::from_utf8(&digits).ok()?.parse().ok()
    };
    Ok(places.filter_map(|(place, _)| number(place)).max().unwrap_or(17))
}

fn stage(into: &Path, name: &str) -> Result<PathBuf> {
    let dir = into.join(name);
    if dir.exists() {
        #[expect(clippy::disallowed_methods, reason = "a directory of the build, under target/")]
        fs::remove_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    }
    create_dir(&dir)?;
    Ok(dir)
}

fn unstage(dir: &Path) -> Result {
    #[expect(clippy::disallowed_methods, reason = "a directory of the build, under target/")]
    fs::remove_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))
}

fn debian(contents: &Contents<'_>, into: &Path) -> Result<String> {
    let Contents { dir, version, target } = contents;
    let [architecture, ..] = processor(target)?;
    let tree = stage(into, "debian")?;
    let place = |from: &str, to: &str| {
        let to = tree.join(to);
        create_dir(to.parent().unwrap_or(&tree))?;
        copy(&dir.join(from), &to)
    };
    place("way", "usr/bin/way")?;
    place("completions/way.bash", "usr/share/bash-completion/completions/way")?;
    place("completions/way.fish", "usr/share/fish/vendor_completions.d/way.fish")?;
    place("completions/way.zsh", "usr/share/zsh/vendor-completions/_way")?;
    place("LICENSES-OF-DEPENDENCIES.txt", "usr/share/doc/waypost/LICENSES-OF-DEPENDENCIES.txt")?;
    place("README.md", "usr/share/doc/waypost/README.md")?;
    place("CHANGELOG.md", "usr/share/doc/waypost/changelog")?;
    let pages = fs::read_dir(dir.join("man")).map_err(|error| format!("no manual pages: {error}"))?;
    let mut compressed = vec![tree.join("usr/share/doc/waypost/changelog")];
    for page in pages.flatten() {
        let name = page.file_name().to_string_lossy().into_owned();
        let section = name.rsplit('.').next().unwrap_or("1").to_owned();
        let to = format!("usr/share/man/man{section}/{name}");
        place(&format!("man/{name}"), &to)?;
        compressed.push(tree.join(to));
    }
    run(Command::new("gzip").args(["-9", "-n", "-f"]).args(&compressed))?;
    let license = |name: &str| fs::read_to_string(dir.join(name)).map_err(|error| format!("{name}: {error}"));
    let indented = |text: &str| -> String {
        let lines =
            text.lines().map(|line| if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") });
        lines.collect()
    };
    let copyright = format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: waypost\nComment:\n \
         LICENSES-OF-DEPENDENCIES.txt has the licences of the libraries that the program contains.\n\nFiles: *\n\
         Copyright: The authors of Waypost\nLicense: MIT or Apache-2.0\n\nLicense: MIT\n{}\nLicense: Apache-2.0\n On Debian \
         systems, the text is in /usr/share/common-licenses/Apache-2.0.\n",
        indented(&license("LICENSE-MIT")?)
    );
    write(&tree.join("usr/share/doc/waypost/copyright"), copyright.as_bytes())?;
    let size = fs::metadata(dir.join("way")).map_or(0, |program| program.len().div_ceil(1024));
    let control = format!(
        "Package: waypost\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: The authors of Waypost \
         <waypost@localhost>\nSection: vcs\nPriority: optional\nInstalled-Size: {size}\nDepends: libc6 (>= 2.{})\n\
         Recommends: git\nDescription: {ABOUT}\n Issues, workflows, leases, messages and jobs of coding agents, in files and \
         one\n database, for every repository and worktree. The program is way.\n",
        glibc(&dir.join("way"))?
    );
    create_dir(&tree.join("DEBIAN"))?;
    write(&tree.join("DEBIAN/control"), control.as_bytes())?;
    let name = format!("waypost_{version}_{architecture}.deb");
    // Debian's rules: files of root, not writable for others.
    run(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&tree))?;
    let mut build = Command::new("dpkg-deb");
    build
        .args(["--root-owner-group", "--build", "-Zxz"])
        .arg(&tree)
        .arg(into.join(&name))
        .env("SOURCE_DATE_EPOCH", "0");
    run(&mut build)?;
    unstage(&tree)?;
    Ok(name)
}

fn npm(contents: &Contents<'_>, into: &Path) -> Result<String> {
    let Contents { dir, version, target } = contents;
    let [_, cpu, _] = processor(target)?;
    let stage = stage(into, "npm")?;
    let package = stage.join("package");
    create_dir(&package.join("bin"))?;
    copy(&dir.join("way"), &package.join("bin/way"))?;
    for document in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "LICENSES-OF-DEPENDENCIES.txt"] {
        copy(&dir.join(document), &package.join(document))?;
    }
    let about = json!({
        "name": "waypost",
        "version": version,
        "description": ABOUT,
        "license": "MIT OR Apache-2.0",
        "bin": { "way": "bin/way" },
        "os": ["linux"],
        "cpu": [cpu],
        "libc": ["glibc"],
    });
    write(&package.join("package.json"), format!("{about:#}\n").as_bytes())?;
    let name = format!("waypost-{version}-linux-{cpu}.npm.tgz");
    let sorted = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "--mode=go-w"];
    let mut tar = Command::new("tar");
    tar.args(sorted).args(["--use-compress-program=gzip -n", "-cf"]).arg(into.join(&name)).arg("package");
    run(tar.current_dir(&stage))?;
    unstage(&stage)?;
    Ok(name)
}

fn wheel(contents: &Contents<'_>, into: &Path) -> Result<String> {
    let Contents { dir, version, target } = contents;
    let [.., cpu] = processor(target)?;
    let program = dir.join("way");
    let tag = format!("manylinux_2_{}_{cpu}", glibc(&program)?);
    let mut python = Command::new("python3");
    python
        .arg(root().join("packaging/wheel.py"))
        .arg(&program)
        .arg(dir.join("README.md"))
        .args([version, &*tag])
        .arg(into);
    let output = python.output().map_err(|error| format!("cannot run python3: {error}"))?;
    if !output.status.success() {
        return Err(format!("packaging/wheel.py failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::stage_contents;
    use std::os::unix::fs::PermissionsExt as _;

    /// A program that answers what packaging asks, instead of a release.
    const STAND_IN: &str = "#!/bin/sh
case \"$1\" in
    --version) echo 'way 0.1.0' ;;
    completions) echo \"# $2\" ;;
    help) mkdir -p \"$3\"; echo '.TH WAY 1' > \"$3/way.1\"; echo '.TH WAY-PLAN 7' > \"$3/way-plan.7\" ;;
esac
";

    fn scratch(name: &str) -> PathBuf {
        let dir = crate::target().join("tmp").join(format!("packages-{name}"));
        stage(dir.parent().unwrap(), dir.file_name().unwrap().to_str().unwrap()).unwrap()
    }

    fn host() -> String {
        format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
    }

    /// Stages the stand-in, and makes one package of it.
    fn make(name: &str, package: impl Fn(&Contents<'_>, &Path) -> Result<String>) -> (PathBuf, PathBuf) {
        let dir = scratch(name);
        let program = dir.join("stand-in");
        write(&program, STAND_IN.as_bytes()).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let content = dir.join("content");
        stage_contents(&program, "licences of libraries\n", &content).unwrap();
        let contents = Contents { dir: &content, version: "0.1.0", target: &host() };
        let made = dir.join(package(&contents, &dir).unwrap());
        (dir, made)
    }

    #[track_caller]
    fn output(command: &mut Command) -> String {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Checks a listing with a mode and an owner in each line: root owns each file, and no other user can write to it.
    #[track_caller]
    fn check_listing(listing: &str, owner: &str) {
        assert!(listing.lines().count() > 3, "{listing}");
        for line in listing.lines() {
            let mode = line.as_bytes();
            assert!(mode[5] == b'-' && mode[8] == b'-' && !line[..10].contains(['s', 't']), "{line}");
            assert!(line.contains(owner), "{line}");
        }
    }

    #[test]
    fn the_debian_package_is_installed_runs_and_is_removed_again() {
        let (dir, package) = make("debian", debian);
        let about = output(Command::new("dpkg-deb").arg("--field").arg(&package));
        assert!(about.contains("Package: waypost") && about.contains("Version: 0.1.0"), "{about}");
        check_listing(&output(Command::new("dpkg-deb").arg("--contents").arg(&package)), " root/root ");
        let system = dir.join("system");
        for part in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log"] {
            create_dir(&system.join(part)).unwrap();
        }
        write(&system.join("var/lib/dpkg/status"), b"").unwrap();
        let dpkg = |args: &[&str]| {
            let mut dpkg = Command::new("dpkg");
            // An empty system has no libc6, and a developer may not be root.
            let force = ["--force-depends", "--force-not-root", "--force-script-chrootless", "--force-bad-path"];
            dpkg.arg(format!("--root={}", system.display())).args(force).args(args);
            output(&mut dpkg)
        };
        dpkg(&["--install", package.to_str().unwrap()]);
        let program = system.join("usr/bin/way");
        assert_eq!(output(Command::new(&program).arg("--version")), "way 0.1.0\n");
        for file in [
            "usr/share/man/man1/way.1.gz",
            "usr/share/man/man7/way-plan.7.gz",
            "usr/share/bash-completion/completions/way",
            "usr/share/zsh/vendor-completions/_way",
            "usr/share/fish/vendor_completions.d/way.fish",
            "usr/share/doc/waypost/copyright",
        ] {
            assert!(system.join(file).is_file(), "{file}");
        }
        dpkg(&["--remove", "waypost"]);
        assert!(!program.exists() && !system.join("usr/share/doc/waypost").exists());
    }

    #[test]
    fn the_npm_package_is_installed_without_a_network_and_runs() {
        let (dir, package) = make("npm", npm);
        check_listing(&output(Command::new("tar").arg("-tvf").arg(&package)), " 0/0 ");
        let mut install = Command::new("npm");
        install.args(["install", "--offline", "--no-audit", "--no-fund", "--prefix"]).arg(dir.join("project"));
        output(install.arg(&package).env("npm_config_cache", dir.join("cache")));
        let program = dir.join("project/node_modules/.bin/way");
        assert_eq!(output(Command::new(program).arg("--version")), "way 0.1.0\n");
    }

    #[test]
    fn the_wheel_is_installed_without_a_network_and_runs() {
        let (dir, package) = make("wheel", wheel);
        output(Command::new("python3").args(["-m", "venv"]).arg(dir.join("venv")));
        let mut pip = Command::new(dir.join("venv/bin/python"));
        output(pip.args(["-m", "pip", "install", "--no-index", "--disable-pip-version-check"]).arg(&package));
        assert_eq!(output(Command::new(dir.join("venv/bin/way")).arg("--version")), "way 0.1.0\n");
        output(Command::new(dir.join("venv/bin/python")).args(["-m", "pip", "uninstall", "-y", "waypost"]));
        assert!(!dir.join("venv/bin/way").exists());
    }

    #[test]
    fn the_container_file_copies_only_what_the_archive_has() {
        let (dir, _) = make("container", npm);
        let text = fs::read_to_string(root().join("packaging/Containerfile")).unwrap();
        let instructions = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with(' '));
        let known = ["FROM", "RUN", "COPY", "WORKDIR", "ENTRYPOINT", "CMD"];
        for instruction in instructions.filter(|line| !line.trim().is_empty()) {
            let mut words = instruction.split_whitespace();
            assert!(words.next().is_some_and(|word| known.contains(&word)), "{instruction}");
            if instruction.starts_with("COPY") {
                let words: Vec<&str> = words.collect();
                for source in &words[..words.len() - 1] {
                    assert!(dir.join("content").join(source).is_file(), "{source}");
                }
            }
        }
    }

    #[test]
    fn the_oldest_glibc_that_a_program_runs_with_is_read_from_it() {
        let dir = scratch("glibc");
        let program = dir.join("program");
        write(&program, b"\0GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.17\0GLIBC_PRIVATE").unwrap();
        assert_eq!(glibc(&program).unwrap(), 34);
    }
}
