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

/// A part of the cases for each; `ci/manners` runs everything on machines of several sizes.
#[test]
#[ignore = "slow"]
fn no_machines_of_ranks_fail_a_case() {
    let home = Home::new();
    let paths = [
        "scenarios/conformance/numbers",
        "scenarios/conformance/all_reduce",
        "scenarios/laws",
        "scenarios/documented",
        "scenarios/language",
    ];
    for (ranks_per_node, share) in [("1", "1/5"), ("3", "2/5")] {
        let args = ["run", "--ranks-per-node", ranks_per_node, "--shard", share];
        let run = run(&home, "", &[&args[..], &paths].concat());
        assert!(run.code == 0 && run.out.contains(" 0 failed"), "{ranks_per_node}, {share}: {run}");
    }
}

#[test]
fn a_file_about_rings_without_machines_is_skipped_on_machines() {
    let home = Home::new();
    let args = ["run", "scenarios/language/times_and_counters.toml"];
    let plain = run(&home, "", &args);
    assert!(plain.out.contains("1 passed, 0 failed, 0 skipped"), "{plain}");
    let on_machines = run(&home, "", &[&args[..], &["--ranks-per-node", "1"]].concat());
    assert!(on_machines.code == 0 && on_machines.out.contains("needs a run without --ranks-per-node"), "{on_machines}");
}

#[test]
fn machines_of_ranks_decide_the_order_of_a_sum() {
    let home = Home::new();
    let text = "world_size = 5\nop = \"all_reduce\"\ninputs = { random = { seed = 6 }, count = 9, dtype = \"f32\" }\n";
    home.file("sum.toml", text);
    let path = home.path("sum.toml").display().to_string();
    let output = |algorithm: &str, option: &[&str]| {
        let mut command = home.command(&[&["run", "--show", path.as_str()], option].concat());
        let run = Run::of(command.env("NCCL_ALGO", algorithm));
        assert_eq!(run.code, 0, "{run}");
        run.out.lines().rfind(|line| line.contains("rank 0  out")).unwrap_or_else(|| panic!("{run}")).to_owned()
    };
    let trees: Vec<String> = ["1", "2", "8"].iter().map(|ranks| output("Tree", &["--ranks-per-node", ranks])).collect();
    assert!(trees[0] != trees[1] && trees[1] != trees[2] && trees[0] != trees[2], "{trees:?}");
    assert_eq!(
        output("Ring", &["--ranks-per-node", "2"]),
        output("Ring", &["--ranks-per-node", "8"]),
        "rings by number"
    );
    assert_ne!(output("Ring", &["--ranks-per-node", "2"]), output("Ring", &[]), "cut in multiples of 16 bytes");
    let run = home.run(&["run", &path, "--ranks-per-node", "0"]);
    assert!(run.code == 2 && run.err.contains("--ranks-per-node"), "{run}");
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
