//! Explains that this process may not write to Waypost's directory. The usual reason is the sandbox of a coding agent, and
//! the error of the operating system does not say so.

use std::path::Path;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use waypost_core::{Error, Kind};

use crate::machine::place::Place;

/// The errors of sandboxes, as the operating system words them: a read-only file system, and a call that is not permitted.
const DENIALS: [Errno; 2] = [Errno::ROFS, Errno::PERM];

/// Adds a hint to an error about a directory of Waypost that must not be written to.
pub fn explain_denied(error: Error, place: &Place) -> Error {
    if error.kind() != Kind::Unavailable {
        return error;
    }
    let message = error.full_message();
    let private = place.checkout.as_ref().map(|checkout| &*checkout.private_dir);
    let dirs = private.into_iter().chain(place.home.as_ref().map(|(home, _)| home.as_path()));
    let mut denied = dirs.filter(|dir| message.contains(&*dir.to_string_lossy()) && is_denied(dir, &message));
    match denied.next() {
        Some(dir) => error.hint(format!(
            "a coding agent may have started this in a sandbox: use the MCP tools of waypost, whose server is outside of it, \
             or let the sandbox write to {} (way setup codex --print shows how)",
            dir.display()
        )),
        None => error,
    }
}

fn is_denied(dir: &Path, message: &str) -> bool {
    DENIALS.iter().any(|denial| message.contains(&format!("(os error {})", denial.raw_os_error())))
        || access(dir, Access::WRITE_OK) == Err(Errno::ROFS)
}

#[cfg(test)]
mod tests {
    use std::io;

    use waypost_testkit::Sandbox;

    use super::*;
    use crate::machine::place::Request;

    #[test]
    fn each_error_of_a_sandbox_about_a_directory_of_waypost_gets_a_hint() {
        let sandbox = Sandbox::new("");
        let repo = sandbox.git_repo("repo");
        let variables = [("HOME", sandbox.path("home").into_os_string())].into_iter().collect();
        let place = Place::resolve(Request { cwd: repo.clone(), variables, ..Request::default() }).unwrap();
        let private = place.checkout.as_ref().unwrap().private_dir.clone();
        let hints = |path: &Path, errno: Errno| {
            let cause = io::Error::from_raw_os_error(errno.raw_os_error());
            let error = Error::unavailable(format!("cannot write {}", path.display())).because(cause);
            explain_denied(error, &place).hints().len()
        };
        for (errno, count) in [(Errno::PERM, 1), (Errno::ROFS, 1), (Errno::NOSPC, 0), (Errno::IO, 0)] {
            assert_eq!(hints(&private.join("state.db"), errno), count, "{errno:?}");
            assert_eq!(hints(&repo.join("file"), errno), 0, "{errno:?} about a file of the user");
        }
    }
}
