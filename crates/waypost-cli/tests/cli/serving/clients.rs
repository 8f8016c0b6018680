//! Clients in Python and TypeScript that are generated from the description of a server.

use std::path::Path;
use std::process::Command;

use super::Server;

/// Runs a command, and returns its output.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// Starts a server, and puts its description and a program into a directory.
fn server_with(program: &str, text: &str) -> (Server, std::path::PathBuf) {
    let server = Server::start(&[]);
    let dir = server.sandbox.dir("client");
    server.sandbox.write(dir.join("openapi.json"), server.get("/openapi.json").body);
    server.sandbox.write(dir.join(program), text);
    (server, dir)
}

fn command(server: &Server, program: &Path, dir: &Path) -> Command {
    server.sandbox.command(program, dir)
}

#[test]
fn a_python_client_that_is_generated_from_the_description_works() {
    let tools = waypost_testkit::generators().join("python/bin");
    let (server, dir) = server_with("program.py", include_str!("clients/program.py"));
    // Without the formatter, which must be in the path.
    server.sandbox.write(dir.join("config.json"), "{ \"post_hooks\": [] }");
    let generate = ["generate", "--path", "openapi.json", "--output-path", "waypost_client", "--meta", "none"];
    // A part of the description that the generator cannot use is a warning, which fails here.
    let strict = ["--config", "config.json", "--fail-on-warning"];
    let said = run(command(&server, &tools.join("openapi-python-client"), &dir).args(generate).args(strict));
    assert!(dir.join("waypost_client/api/issues/list_issues.py").is_file(), "{said}");
    run(command(&server, &tools.join("python"), &dir).args(["-m", "compileall", "-q", "waypost_client"]));
    // The types of the generated client are used, but its own code is not checked: mypy objects to the generator's template.
    let check = ["--strict", "--follow-imports", "silent", "--cache-dir", "mypy", "program.py"];
    run(command(&server, &tools.join("mypy"), &dir).args(check));
    let said = run(command(&server, &tools.join("python"), &dir).args(["program.py", server.url(), &server.token]));
    assert_eq!(said, "python done\n");
}

#[test]
fn a_typescript_client_that_is_generated_from_the_description_works() {
    let modules = waypost_testkit::generators().join("node_modules");
    let (server, dir) = server_with("program.ts", include_str!("clients/program.ts"));
    server.sandbox.write(dir.join("package.json"), "{ \"type\": \"module\" }");
    std::os::unix::fs::symlink(&modules, dir.join("node_modules")).unwrap();
    let node = || command(&server, &modules.join("node/bin/node"), &dir);
    run(node().arg(modules.join("openapi-typescript/bin/cli.js")).args([
        "openapi.json",
        "--output",
        "schema.ts",
        // Else a field with a default would be required in requests.
        "--default-non-nullable",
        "false",
    ]));
    let check = [
        "--noEmit",
        "--strict",
        "--exactOptionalPropertyTypes",
        "--noUncheckedIndexedAccess",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--allowImportingTsExtensions",
        "--types",
        "node",
        "--skipLibCheck",
        "program.ts",
        "schema.ts",
    ];
    run(node().arg(modules.join("typescript/bin/tsc")).args(check));
    let said = run(node().args(["--disable-warning=ExperimentalWarning", "program.ts", server.url(), &server.token]));
    assert_eq!(said, "typescript done\n");
}
