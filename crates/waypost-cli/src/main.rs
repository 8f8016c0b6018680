//! The binary `way`.

// Walks the stack for the backtrace of a panic. Otherwise the standard library would load libgcc_s for that at every start.
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    panic = "abort"
))]
use unwinding as _;

fn main() -> std::process::ExitCode {
    waypost_cli::main()
}
