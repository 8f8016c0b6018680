//! The program `way`.

fn main() -> std::process::ExitCode {
    waypost_cli::main()
}
