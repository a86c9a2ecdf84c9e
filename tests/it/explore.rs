//! `collspec explore`: many schedules pass on the sound library, and one that fails can be run again.
use crate::support::Home;

const RING: &str = "world_size = 4\nop = \"all_reduce\"\ninputs = { each = \"2 ^ rank + i\", count = 63 }\n";

#[test]
fn every_schedule_passes_on_the_sound_library() {
    let home = Home::new();
    home.file("ring.toml", RING);
    let run = home.run(&["explore", "ring.toml", "--backend", "soft", "--schedules", "250"]);
    assert!(
        run.code == 0 && run.out.contains("250 schedules of 1 case, at least 250 of each that did not fail: 0 failed"),
        "{run}"
    );
}

#[test]
fn a_schedule_that_fails_is_run_again_by_its_number() {
    let home = Home::new();
    home.file("ring.toml", RING);
    let fault = ["--backend", "soft", "--fault", "F02"];
    let run = home.run(&[&["explore", "ring.toml", "--seed", "7", "--confirmations", "2"], &fault[..]].concat());
    assert!(run.code == 1 && run.out.contains("FAIL ring on schedule 7\n"), "{run}");
    assert!(run.out.contains("2 of 2 more runs on this schedule failed"), "{run}");
    assert!(run.out.contains("run it again: collspec run ring.toml --backend soft --seed 7 --fault F02"), "{run}");
}

#[test]
fn the_software_library_has_no_kernels_whose_accesses_change_places() {
    let home = Home::new();
    home.file("ring.toml", RING);
    for (option, value) in [("--delay-stores", "line"), ("--early-loads", "weak")] {
        let run = home.run(&["explore", "ring.toml", "--backend", "soft", option, value]);
        let refused = format!("{option} is for software GPUs, and there are none here");
        assert!(run.code == 2 && run.err.contains(&refused), "{run}");
    }
}

#[test]
fn gpus_have_no_schedules() {
    let home = Home::new();
    home.file("ring.toml", RING);
    let run = home.run(&["explore", "ring.toml", "--nccl", "stand-in", "--driver", "stand-in"]);
    assert!(run.code == 2 && run.err.contains("GPUs decide the order of their warps themselves"), "{run}");
}
