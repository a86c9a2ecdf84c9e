//! A library that computes in another way that NCCL's documentation allows as well fails no case.
mod support;

use std::process::Command;

/// Where rounding, averages, scalars and zeros matter; `ci/manners` runs everything.
const PATHS: [&str; 3] = ["scenarios/conformance/numbers", "scenarios/language", "scenarios/laws"];

fn run(manner: &str, path: &str) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env("COLLSPEC_SOFT_ARITHMETIC", manner);
    let done = command.arg("run").arg(path).output().unwrap();
    (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
}

#[test]
fn no_sound_manner_of_computing_fails_a_case() {
    for manner in [
        "wide,zero=last",
        "wide=f16,average=after,zero=negative",
        "wide,narrow-products,zero=positive",
        "average=divide",
        "wide,average=divide",
        "average=divide-first",
        "wide,average=divide-first",
    ] {
        for path in PATHS {
            let (passed, out) = run(manner, path);
            assert!(passed && out.contains(" 0 failed"), "{manner}, {path}:\n{out}");
        }
    }
}

#[test]
fn every_manner_is_one_of_its_own() {
    // An average over three ranks tells them apart: each explains itself by the family that it has.
    let home = support::Home::new();
    let text = "world_size = 3\nop = \"all_reduce\"\nreduce = \"avg\"\ninputs = { random = { seed = 5 }, count = 400, dtype = \"f32\" }\n";
    home.file("avg.toml", text);
    for (manner, family) in [
        ("", "chain/each-step/before"),
        ("average=after", "chain/each-step/after"),
        ("average=divide", "chain/each-step/after-divided"),
        ("wide,average=divide", "chain/once/after-divided"),
        ("wide,narrow-products", "chain/once/before"),
        ("wide", "chain/once/before-fused"),
    ] {
        let path = home.path("avg.toml");
        let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
        command.env("COLLSPEC_SOFT_ARITHMETIC", manner);
        let done = command.args(["run", "--verbose"]).arg(path).output().unwrap();
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        let told = out.lines().next().unwrap_or_default().to_owned();
        let families =
            told.split([',', '(']).map(|word| word.split(' ').rfind(|part| part.contains('/')).unwrap_or(word.trim()));
        assert!(done.status.success() && families.into_iter().any(|found| found == family), "{manner}: {out}");
    }
    let (passed, out) = run("sideways", "scenarios/language/average_over_three.toml");
    assert!(!passed && out.contains("COLLSPEC_SOFT_ARITHMETIC: `sideways` is none of wide"), "{out}");
}
