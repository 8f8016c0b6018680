//! The binary `way`.

fn main() -> std::process::ExitCode {
    waypost_cli::main()
}
