//! `collspec soak`: random programs pass on the sound library, and a fault is found, written down and made smaller.
use crate::support::Home;

#[test]
#[ignore = "slow"]
fn five_hundred_programs_pass_and_nothing_grows() {
    let home = Home::new();
    let run = home.run(&["soak", "--backend", "soft", "--programs", "500", "--seed", "1000000"]);
    assert!(run.code == 0 && run.out.contains("500 programs in ") && run.out.contains(", 0 failed"), "{run}");
    assert!(!home.path("soak").exists(), "a folder without a failure");
    for kind in [
        "put",
        "signal",
        "wait_signal",
        "init",
        "history",
        "algorithms of calls",
        "non-blocking communicators",
        "calls left in progress",
        "exit",
    ] {
        assert!(run.out.contains(&format!(" {kind} ")), "{kind}: {run}");
    }
    let number = |word: &str| -> u64 {
        let before = run.out.split(word).next().unwrap().trim_end();
        before.rsplit(' ').next().unwrap().replace(',', "").parse().unwrap()
    };
    let (passed, refused) = (number(" passed"), number(" refused"));
    assert!(passed + refused == 500 && refused < 125, "the generator has lost touch with the language: {run}");
}

#[test]
#[ignore = "slow"]
fn a_fault_is_found_and_its_program_made_smaller() {
    let home = Home::new();
    let options = ["soak", "--backend", "soft", "--programs", "20", "--fault", "F02", "--output", "found"];
    let run = home.run(&options);
    assert!(run.code == 1 && run.out.contains("FAIL  seed "), "{run}");
    let seed = run.out.split("FAIL  seed ").nth(1).and_then(|rest| rest.split(':').next()).unwrap();
    let (whole, smaller) = (format!("found/{seed}.toml"), format!("found/{seed}_smaller.toml"));
    // Both fail again by themselves, and pass on the sound library.
    for file in [&whole, &smaller] {
        let faulty = home.run(&["run", "--backend", "soft", "--forms", "all", "--fault", "F02", file]);
        assert_eq!(faulty.code, 1, "{file}: {faulty}");
        let sound = home.run(&["run", "--backend", "soft", "--forms", "all", file]);
        assert_eq!(sound.code, 0, "{file}: {sound}");
    }
    let length =
        |file: &str| std::fs::read_to_string(home.path(file)).unwrap().lines().filter(|l| !l.starts_with('#')).count();
    assert!(length(&smaller) <= length(&whole));
}

#[test]
fn the_same_seed_gives_the_same_programs() {
    let home = Home::new();
    let counts = |seed: &str| {
        let run = home.run(&["soak", "--backend", "soft", "--programs", "60", "--seed", seed]);
        run.out.split("s: ").nth(1).map(str::to_owned)
    };
    assert_eq!(counts("7"), counts("7"));
}
