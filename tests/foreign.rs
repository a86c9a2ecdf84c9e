//! Somebody else's crate that uses `collspec::harness!`, built and tested by cargo.
mod support;

use std::fs;
use std::path::Path;
use std::process::Command;
use support::{Home, Run, SUM, WRONG};

const MANIFEST: &str = r#"[package]
name = "foreign"
version = "0.0.0"
edition = "2024"

[dependencies]
collspec = { path = "REPOSITORY" }

[[test]]
name = "my-cases"
harness = false

[workspace]

# Packages from the registry as in the repository, so that what is built there need not be built again.
[profile.dev]
opt-level = 1
debug = "line-tables-only"

[profile.dev.package."*"]
opt-level = 1
debug = false

# The repository's own packages are built again, because they are no members here; quickly, then.
[profile.dev.package.collspec]
opt-level = 0
[profile.dev.package.soft-nccl]
opt-level = 0
[profile.dev.package.soft-cuda]
opt-level = 0
"#;

/// `cargo test` in the crate; the build is shared with that of the test running here.
fn cargo_test(home: &Home, args: &[&str]) -> Run {
    // `target/tmp` is in it. Cargo has let go of it by the time that tests run.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--offline", "--quiet"]).args(args).current_dir(home.path("."));
    command.env("CARGO_TARGET_DIR", target).env("CI", "true");
    for name in ["COLLSPEC_BACKEND", "COLLSPEC_REQUIRE", "COLLSPEC_FILTER", "COLLSPEC_WORKER", "INSTA_UPDATE"] {
        command.env_remove(name);
    }
    Run::of(&mut command)
}

/// One test, because the crate is built for it once.
#[test]
fn the_macro_works_in_another_crate() {
    let home = Home::new();
    let repository = env!("CARGO_MANIFEST_DIR");
    home.file("Cargo.toml", &MANIFEST.replace("REPOSITORY", repository));
    home.file("src/lib.rs", "");
    home.file("tests/my-cases.rs", "collspec::harness!(\"scenarios\");\n");
    fs::copy(Path::new(repository).join("Cargo.lock"), home.path("Cargo.lock")).unwrap();
    // No snapshots yet, so cases that have none.
    home.file("scenarios/deep/sum.toml", &format!("snapshot = false\n{SUM}"));
    home.file("scenarios/deep/swept.toml", &format!("matrix.repeat = [1, 2]\n{SUM}"));
    home.file("scenarios/skipped.toml", &format!("requires = {{ gpus = 64 }}\n{SUM}"));

    let run = cargo_test(&home, &["--test", "my-cases"]);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.out.contains("3 passed; 0 failed; 1 ignored"), "{run}");

    // Standard output belongs to libtest: nextest reads it as a list.
    let list = cargo_test(&home, &["--test", "my-cases", "--", "--list", "--format", "terse"]);
    let mut names: Vec<_> = list.out.lines().collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["deep/sum: test", "deep/swept[repeat=1]: test", "deep/swept[repeat=2]: test", "skipped: test"],
        "{list}"
    );

    // One case by its whole name, although another file is broken by now.
    home.file("scenarios/broken.toml", "world_size = 2\nop = \"all_redcue\"\ninputs = [[1], [2]]\n");
    let one = cargo_test(&home, &["--test", "my-cases", "--", "--exact", "deep/swept[repeat=2]"]);
    assert_eq!(one.code, 0, "{one}");
    assert!(one.out.contains("1 passed; 0 failed; 0 ignored"), "{one}");

    // A broken file, a wrong result and a missing snapshot fail, each under its name and alone.
    home.file("scenarios/wrong.toml", &format!("snapshot = false\n{WRONG}"));
    home.file("scenarios/unseen.toml", SUM);
    let run = cargo_test(&home, &["--test", "my-cases"]);
    assert_ne!(run.code, 0, "{run}");
    assert!(run.out.contains("3 passed; 3 failed; 1 ignored"), "{run}");
    for words in [
        "scenarios/broken.toml:2:",
        "rank 1",
        "run it again: cargo test -p foreign --test my-cases -- --exact 'wrong'",
        "snapshots/unseen.snap yet",
    ] {
        assert!(run.out.contains(words), "{words:?} is not in {run}");
    }
    assert!(!home.path("snapshots/unseen.snap").exists(), "CI writes no snapshots");

    // No scenarios at all are no green run.
    fs::remove_dir_all(home.path("scenarios")).unwrap();
    fs::create_dir(home.path("scenarios")).unwrap();
    assert_ne!(cargo_test(&home, &["--test", "my-cases"]).code, 0);
}
