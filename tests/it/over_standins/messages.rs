//! `doctor` describes the machine, and failures quote NCCL's log.
use super::{command, library, run, without};
use crate::support::{Home, Run, SUM};

#[test]
fn doctor_explains_and_is_never_a_failure() {
    let home = Home::new();
    let bare = Run::of(home.command(&["doctor", "--driver"]).arg(home.path(".")));
    assert!(bare.code == 0 && bare.out.contains("driver ") && bare.out.contains("backend "), "{bare}");
    let nowhere = home.run(&["doctor", "--driver", "nowhere"]);
    assert!(nowhere.code == 0 && nowhere.out.contains("driver     nowhere: there is no such folder"), "{nowhere}");
    let lacking = without(&home, "split", &["ncclCommSplit"]);
    let standin = run(&home, 2, &lacking, &["doctor"]);
    for words in [
        "stand-in CUDA driver",
        "1: collspec stand-in device, compute 9.0",
        "every device reaches",
        "backend    nccl: NCCL 2.32.3",
        "cases of more than 2 ranks",
        "cases that use ncclCommSplit",
    ] {
        assert!(standin.code == 0 && standin.out.contains(words), "{words}: {standin}");
    }
    let mut words = home.command(&["doctor", "--driver", "stand-in", "--nccl", "stand-in"]);
    let words = Run::of(words.env("COLLSPEC_STANDIN_DEVICES", "3"));
    for line in ["driver     stand-in CUDA driver", "2: collspec stand-in device", "backend    nccl: NCCL 2.32.3"] {
        assert!(words.code == 0 && words.out.contains(line), "{line}: {words}");
    }
    let none = run(&home, 0, &lacking, &["doctor"]);
    assert!(none.code == 0 && none.out.contains("has no device to offer"), "{none}");
}

#[test]
fn a_failure_quotes_what_nccl_says_unless_it_is_told_not_to() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    home.file("quiet.toml", &format!("{SUM}env.NCCL_DEBUG = \"VERSION\"\n"));
    const SAID: &str = "NCCL WARN error-collective: this call was asked to answer 1";
    let faulty = library(&home, "faulty", "error-collective=1");
    let loud = run(&home, 2, &faulty, &["run", "sum.toml"]);
    assert!(loud.code == 1 && loud.out.contains(SAID), "{loud}");
    let parts = run(&home, 2, &faulty, &["run", "sum.toml", "--placement", "processes"]);
    assert!(parts.code == 1 && parts.out.contains(SAID), "{parts}");
    let quiet = run(&home, 2, &faulty, &["run", "quiet.toml"]);
    assert!(quiet.code == 1 && !quiet.out.contains("NCCL WARN"), "the file's own word holds: {quiet}");
    let mut without_log = command(&home, 2, &faulty, &["run", "sum.toml"]);
    let without_log = Run::of(without_log.env("NCCL_DEBUG", "VERSION"));
    assert!(
        without_log.code == 1 && !without_log.out.contains("NCCL WARN"),
        "so does the environment's: {without_log}"
    );
    let mut elsewhere = command(&home, 2, &faulty, &["run", "sum.toml"]);
    let elsewhere = Run::of(elsewhere.env("NCCL_DEBUG_FILE", home.path("log")));
    let log = std::fs::read_to_string(home.path("log")).unwrap();
    assert!(!elsewhere.out.contains("NCCL WARN") && log.contains(SAID), "{log}: {elsewhere}");
}

#[test]
fn the_command_to_run_it_again_chooses_the_same() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let faulty = library(&home, "faulty", "wrong-data");
    let args = ["run", "sum.toml", "--ranks-per-gpu", "auto", "--opening-timeout", "50", "--backend", "nccl"];
    let run = run(&home, 1, &faulty, &args);
    for words in ["COLLSPEC_STANDIN_DEVICES=1 ", " --backend nccl ", " --ranks-per-gpu auto ", " --opening-timeout 50"]
    {
        assert!(run.code == 1 && run.out.contains(words), "{words}: {run}");
    }
}
