//! `way token`. What tokens permit is in `serving/access.rs`.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::serving::Server;

#[test]
fn a_running_server_refuses_a_token_once_a_command_rotated_or_revoked_it() {
    let server = Server::start(&[]);
    let status = |token: &str| server.ask("GET", "/api/v1/status").by(token).send().status;
    let first = server.way(&["token", "create", "--agent", "a", "--json"]).data();
    let (id, secret) = (first["id"].as_str().unwrap(), first["token"].as_str().unwrap());
    assert_eq!(status(secret), 200);
    let second = server.way(&["token", "rotate", id, "--json"]).data()["token"].as_str().unwrap().to_owned();
    assert_eq!((status(secret), status(&second)), (401, 200));
    let _ = server.way(&["token", "revoke", id]).ok();
    assert_eq!(status(&second), 401);
    // The clock of tests is fixed.
    assert_eq!(status(&server.token(&["--agent", "a", "--expires", "0s"])), 401);
    let own = server.token.clone();
    let _ = server.way(&["token", "rotate", "own"]).ok();
    assert_eq!(status(&own), 401);
    assert_eq!(server.remote(&["workflow", "list", "--json"]).data(), json!([]), "the command finds the new one");
}

#[test]
fn t9_t11_secrets_are_stored_as_hashes_in_private_files() {
    let server = Server::start(&[]);
    let secret = server.token(&["--agent", "a"]);
    let dir = server.repo.join(".git/waypost");
    let kept = std::fs::read_to_string(dir.join("tokens.json")).unwrap();
    assert!(!kept.contains(&secret) && !kept.contains(&secret[5..]), "{kept}");
    assert!(!server.way(&["token", "list"]).ok().stdout.contains(&secret[5..]));
    assert_eq!(secret.len(), 5 + 64, "256 bits");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (path, wanted) in [
        (dir.join("tokens.json"), 0o600),
        (server.sandbox.path("home/.waypost"), 0o700),
        (server.sandbox.path("home/.waypost/token"), 0o600),
        (server.sandbox.path("home/.waypost/run"), 0o700),
        (server.socket(), 0o600),
    ] {
        assert_eq!(mode(&path), wanted, "{}", path.display());
    }
    let _ = server.remote(&["--quiet", "workflow", "create", "w"]).ok();
    assert!(!server.log().contains(&server.token[5..]), "the log has a token in it");
}
