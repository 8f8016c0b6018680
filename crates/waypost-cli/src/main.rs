//! The binary `way`.

#[cfg(panic = "abort")]
compile_error!("a panic must unwind, so that in `way serve` it ends one request and not all clients");

fn main() -> std::process::ExitCode {
    waypost_cli::main()
}
