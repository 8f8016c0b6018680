//! Links the program of debug builds at a fixed address.
//!
//! At every start, the loader would adjust 200,000 pointers of the unoptimized program, a third of the time of a short command.
//! Tests start it tens of thousands of times. Optimized builds stay position-independent: see decision 151.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |variable: &str, value: &str| env::var_os(variable).is_some_and(|known| known == value);
    if is("PROFILE", "debug") && is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bin=way=-no-pie");
    }
}
