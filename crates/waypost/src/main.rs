//! The program `way`.

fn main() -> std::process::ExitCode {
    waypost::cli::main()
}
