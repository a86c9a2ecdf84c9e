//! A temporary folder, the command run in it, and what it printed.
#![allow(dead_code)] // Each test target uses its share.

pub mod fragments;
pub mod jobs;
pub mod libraries;
pub mod processes;
pub mod real;

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Passes.
pub const SUM: &str = "world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2], [3, 4]]\n";
/// Expects what a sum is not, on rank 1.
pub const WRONG: &str = "world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2], [3, 4]]\nexpect = [[4, 6], [4, 7]]\n";

/// A temporary folder.
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Writes a file, and the folders above it.
    pub fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The command, in this folder and without this process's own settings.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
        command.args(args).current_dir(self.0.path()).env("XDG_CACHE_HOME", self.path(".cache"));
        for name in ["COLLSPEC_BACKEND", "COLLSPEC_REQUIRE", "COLLSPEC_FILTER", "COLLSPEC_WORKER"] {
            command.env_remove(name);
        }
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"NCCL_") || name.as_encoded_bytes().starts_with(b"COLLSPEC_SOFT_") {
                command.env_remove(name);
            }
        }
        command
    }

    pub fn run(&self, args: &[&str]) -> Run {
        Run::of(&mut self.command(args))
    }
}

/// What came of a command.
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}, output:\n{}\nstandard error:\n{}", self.code, self.out, self.err)
    }
}
