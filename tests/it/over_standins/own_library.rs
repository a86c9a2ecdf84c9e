//! A library written from zero is tested as docs/model-library.md describes.
use super::{driver, run};
use crate::support::{Home, Run};
use std::path::PathBuf;
use std::process::Command;

/// The page's library, built as the page says; `None`, with the reason on standard error, where there is no C compiler.
fn build(home: &Home) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/over_standins/own_library.c");
    let library = home.path("libmine.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).args([source, "-lpthread"]);
    match compiler.output() {
        Ok(done) => {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            Some(library)
        }
        Err(error) => {
            eprintln!("skipped: no C compiler (cc): {error}");
            None
        }
    }
}

#[test]
fn it_is_run_and_judged_as_nccl_is() {
    let home = Home::new();
    let Some(library) = build(&home) else { return };
    let sum =
        "world_size = 4\nop = \"all_reduce\"\nrepeat = 20\ninputs = { each = \"rank + 0.5 * i\", count = 1000 }\n";
    home.file("scenarios/sum.toml", sum);
    home.file("scenarios/in_place.toml", &format!("{sum}in_place = true\n"));
    home.file("scenarios/max.toml", &format!("{sum}reduce = \"max\"\n"));
    home.file("scenarios/gather.toml", "world_size = 2\nop = \"all_gather\"\ninputs = [[1], [2]]\n");
    let run = run(&home, 4, &library, &["run", "--verbose"]);
    for words in [
        "2 passed, 1 failed, 1 skipped",
        "FAIL max",
        "invalid_argument (ncclAllReduce: my library says no)",
        "needs ncclAllGather (since NCCL 2.0); this library, NCCL 2.28.9, does not have it",
    ] {
        assert!(run.code == 1 && run.out.contains(words), "{words}: {run}");
    }
}

#[test]
fn doctor_says_what_it_lacks() {
    let home = Home::new();
    let Some(library) = build(&home) else { return };
    let mut command = home.command(&["doctor", "--nccl", "libmine.so", "--driver"]);
    let doctor = Run::of(command.arg(driver()).env("COLLSPEC_STANDIN_DEVICES", "4"));
    let listed =
        format!("2.28.9 {}, of another make than NVIDIA's: it lacks ", library.canonicalize().unwrap().display());
    for words in [&listed, "cases that use ncclAllGather, ", ", ncclSend", "cases that use ncclAlltoAll: "] {
        assert!(doctor.code == 0 && doctor.out.contains(words), "{words}: {doctor}");
    }
    assert!(!doctor.out.contains("do the same"), "without sends nothing does: {doctor}");
}
