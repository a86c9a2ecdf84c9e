//! Random programs and hostile files. On a sound library every program that is accepted passes, in every form and whatever
//! the order of the software's tasks; a refusal names a place in the file; no file makes the reader fail.
//!
//! `cargo test` runs a few. `COLLSPEC_FUZZ=10000` asks for 10,000 programs and 10,000 files, `COLLSPEC_FUZZ_SEED` for other
//! ones; a failure names the seed of its program.

mod expectations;
mod files;
mod mutate;
mod programs;

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// How many programs or files are tried.
fn amount(usual: u64) -> u64 {
    setting("COLLSPEC_FUZZ").unwrap_or(usual)
}

/// The first seed.
fn first_seed() -> u64 {
    setting("COLLSPEC_FUZZ_SEED").unwrap_or(0)
}
