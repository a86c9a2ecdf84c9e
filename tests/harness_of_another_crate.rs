//! Another crate that uses `collspec::harness!`, built and tested by cargo. The build writes files that other tests read, so
//! this test has its own binary.
#[path = "it/support/mod.rs"]
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
collspec = { path = "REPOSITORY", default-features = false, features = ["harness"] }

[[test]]
name = "my-cases"
harness = false

[workspace]

# Packages from the registry as in the repository, so that what is built there need not be built again.
[profile.dev]
opt-level = 1
debug = "line-tables-only"

[profile.dev.package."*"]
debug = false

# The repository's own packages are built again, because they are no members here; quickly, then.
[profile.dev.package.collspec]
opt-level = 0
[profile.dev.package.collspec-core]
opt-level = 0
[profile.dev.package.collspec-run]
opt-level = 0
[profile.dev.package.collspec-suite]
opt-level = 0
[profile.dev.package.gpuless-device]
opt-level = 0
[profile.dev.package.gpuless-cuda]
opt-level = 0
[profile.dev.package.soft-nccl]
opt-level = 0
[profile.dev.package.ptx]
opt-level = 0
"#;

/// `cargo test` in the crate; the build is shared with that of the test running here.
fn cargo_test(home: &Home, args: &[&str]) -> Run {
    cargo_test_with(home, &[], args)
}

/// The same with these variables.
fn cargo_test_with(home: &Home, variables: &[(&str, &str)], args: &[&str]) -> Run {
    // `target/tmp` is in it. Cargo has let go of it by the time that tests run.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--offline", "--quiet"]).args(args).current_dir(home.path("."));
    command.env("CARGO_TARGET_DIR", target).env("CI", "true");
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"COLLSPEC_") || name == "INSTA_UPDATE" {
            command.env_remove(name);
        }
    }
    // locks of devices, apart from other tests'
    command.env("XDG_RUNTIME_DIR", home.path("."));
    command.envs(variables.iter().copied());
    Run::of(&mut command)
}

/// One test, because the crate is built for it once.
#[test]
#[ignore = "slow"]
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

    // What is known to be skipped is listed as such, which is all that nextest looks at.
    let ignored = cargo_test(&home, &["--test", "my-cases", "--", "--list", "--ignored", "--format", "terse"]);
    assert_eq!(ignored.out.trim(), "skipped: test", "{ignored}");
    // Where nccl is required and missing nothing passes for a skip: neither in the list nor when it runs.
    let required = [("COLLSPEC_REQUIRE", "nccl"), ("COLLSPEC_BACKEND", "nccl"), ("COLLSPEC_DRIVER", "nowhere")];
    let all = cargo_test_with(&home, &required, &["--test", "my-cases", "--", "--list", "--ignored"]);
    assert!(all.code == 0 && !all.out.contains("skipped: test"), "{all}");
    let run = cargo_test_with(&home, &required, &["--test", "my-cases", "--", "--exact", "skipped"]);
    assert!(run.code != 0 && run.err.contains("the backend nccl is required but missing: nowhere: "), "{run}");

    // Variables mean what options mean, and the command to run a case again repeats them.
    let standin = [("COLLSPEC_NCCL", "stand-in"), ("COLLSPEC_DRIVER", "stand-in"), ("COLLSPEC_OPENING_TIMEOUT", "3")];
    let hang = [("COLLSPEC_STANDIN_FAULT", "hang-init"), ("COLLSPEC_PLACEMENT", "processes")];
    let run =
        cargo_test_with(&home, &[&standin[..], &hang].concat(), &["--test", "my-cases", "--", "--exact", "deep/sum"]);
    for words in [
        "hang while making communicators (not finished within the time limit): ranks 0 and 1 in ncclCommInitRank",
        "COLLSPEC_DRIVER=stand-in COLLSPEC_NCCL=stand-in COLLSPEC_OPENING_TIMEOUT=3 COLLSPEC_PLACEMENT=processes",
    ] {
        assert!(run.code != 0 && run.out.contains(words), "{words:?} is not in {run}");
    }
    let soft =
        [("COLLSPEC_BACKEND", "soft"), ("COLLSPEC_TIMEOUT", "9"), ("COLLSPEC_SEED", "5"), ("COLLSPEC_EAGER", "64")];
    let run = cargo_test_with(&home, &soft, &["--test", "my-cases"]);
    assert!(run.code == 0 && run.out.contains("3 passed; 0 failed; 1 ignored"), "{run}");
    // Skips are no failure unless cases are required.
    for (name, value, passes) in [
        ("COLLSPEC_AT_LEAST", "3", true),
        ("COLLSPEC_AT_LEAST", "4", false),
        ("COLLSPEC_NO_SKIPS", "1", false),
        ("COLLSPEC_NO_SKIPS", "0", true),
    ] {
        let run = cargo_test_with(&home, &[("COLLSPEC_BACKEND", "soft"), (name, value)], &["--test", "my-cases"]);
        assert_eq!(run.code == 0, passes, "{name}={value}: {run}");
        let said =
            run.err.contains("3 of 4 cases ran, and 4 were required") || run.out.contains("COLLSPEC_NO_SKIPS or");
        assert!(passes || said, "{name}={value}: {run}");
    }
    let wrong = cargo_test_with(&home, &[("COLLSPEC_PLACEMENT", "gpus")], &["--test", "my-cases"]);
    assert!(wrong.code != 0 && wrong.err.contains("COLLSPEC_PLACEMENT=gpus: the placements are threads, "), "{wrong}");

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
        "snapshots/unseen.snap does not exist yet",
    ] {
        assert!(run.out.contains(words), "{words:?} is not in {run}");
    }
    assert!(!home.path("snapshots/unseen.snap").exists(), "CI writes no snapshots");

    // No scenarios at all are no green run.
    fs::remove_dir_all(home.path("scenarios")).unwrap();
    fs::create_dir(home.path("scenarios")).unwrap();
    assert_ne!(cargo_test(&home, &["--test", "my-cases"]).code, 0);
}
