//! Tests that need a process to themselves.
use std::process::{Command, Stdio};

/// Runs one test of this crate, by its full name, in a separate process with this variable.
pub fn run(test: &str, variable: &str, value: &str) {
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", test, "--nocapture"]).env(variable, value);
    let output = other.stdin(Stdio::null()).output().unwrap();
    let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    // Without a test of this name, nothing fails either.
    assert!(output.status.success() && out.contains("1 passed"), "{out}{error}");
}
