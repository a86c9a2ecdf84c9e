//! No case fails on a library that computes in another way that NCCL's documentation allows, or adds in another order.

use crate::support::{Home, Run};

/// Where rounding, averages, scalars and zeros matter; `ci/manners` runs the whole corpus in manners that have the same words.
const PATHS: [&str; 3] = ["scenarios/conformance/numbers", "scenarios/language", "scenarios/laws"];

/// Runs the command in the repository, in this manner and without this process's own settings.
fn run(home: &Home, manner: &str, args: &[&str]) -> Run {
    let mut command = home.command(args);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env("COLLSPEC_SOFT_ARITHMETIC", manner);
    Run::of(&mut command)
}

/// Each case runs in one of the manners here, which takes a seventh of the time that all manners take.
#[test]
#[ignore = "slow"]
fn no_sound_manner_of_computing_fails_a_case() {
    let home = Home::new();
    let manners = [
        "wide,zero=last",
        "wide=f16,average=after,zero=negative",
        "wide,narrow-products,zero=positive",
        "average=divide",
        "wide,average=divide",
        "average=divide-first",
        "wide,average=divide-first",
    ];
    for (k, manner) in (1..).zip(manners) {
        let share = format!("{k}/{}", manners.len());
        let run = run(&home, manner, &[&["run", "--shard", &share][..], &PATHS].concat());
        assert!(run.code == 0 && run.out.contains(" 0 failed"), "{manner}, {share}: {run}");
    }
}

#[test]
fn every_manner_is_one_of_its_own() {
    // An average over three ranks tells them apart, by the family in the fingerprint.
    let home = Home::new();
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
        let run = run(&home, manner, &["run", "--verbose", &home.path("avg.toml").display().to_string()]);
        let first_line = run.out.lines().next().unwrap_or_default();
        let families = first_line
            .split([',', '('])
            .map(|word| word.split(' ').rfind(|part| part.contains('/')).unwrap_or(word.trim()));
        assert!(run.code == 0 && families.into_iter().any(|found| found == family), "{manner}: {run}");
    }
    let run = run(&home, "sideways", &["run", "scenarios/language/average_over_three.toml"]);
    assert!(run.code != 0 && run.out.contains("COLLSPEC_SOFT_ARITHMETIC: `sideways` is not one of wide"), "{run}");
}
