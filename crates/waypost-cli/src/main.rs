//! The binary `way`.

// Finds the callers for the backtrace of a panic. Without it the standard library would load libgcc_s for that at every start.
#[cfg(all(target_os = "linux", panic = "abort"))]
use unwinding as _;

fn main() -> std::process::ExitCode {
    waypost_cli::main()
}
