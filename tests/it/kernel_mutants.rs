//! `collspec audit --nccl`: changed instructions of a real library's kernels are noticed or survive, and what cannot be audited is refused.
use crate::support::Home;
use crate::support::real::newest_real;
use serde_json::Value;

const SUM: &str =
    "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"rank + i % 7\", count = 3000, dtype = \"f32\" }\n";
/// A sum of zeros, which a difference in its place does not change.
const ZEROS: &str = "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"0\", count = 3000, dtype = \"f32\" }\n";

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// With COLLSPEC_TEST_NCCL_LIBRARIES: mutants of a real library, the same ones for a seed; numbers that say more notice more.
#[test]
fn mutants_of_a_real_library_are_noticed_or_survive() {
    let Some(library) = newest_real() else { return };
    let home = Home::new();
    home.file("sum/sum.toml", SUM);
    home.file("zeros/zeros.toml", ZEROS);
    let audit = |folder: &str, more: &[&str]| {
        let options = ["audit", folder, "--driver", "software", "--nccl", library.to_str().unwrap(), "--mutants", "30"];
        home.run(&[&options[..], more].concat())
    };
    let run = audit("sum", &["--format", "jsonl"]);
    assert_eq!(run.code, 0, "{run}");
    let all = lines(&run.out);
    let (mutants, summary) = (&all[..30], &all[30]);
    assert!(mutants.iter().all(|mutant| mutant["kind"] == "mutant" && mutant["line"].as_u64() > Some(1)), "{run}");
    let count = |fate: &str| mutants.iter().filter(|mutant| mutant["fate"] == fate).count() as u64;
    assert_eq!([&summary["made"], &summary["noticed"]], [&Value::from(30), &count("noticed").into()], "{run}");
    assert!(count("noticed") >= 10 && count("undecided") == 0, "{run}");
    let survivor = mutants.iter().find(|mutant| mutant["fate"] == "survived").expect("a mutant that survives");
    assert_eq!(survivor["ran"][0], "sum", "{run}");
    assert!(survivor["text"].as_str().is_some_and(|text| text.ends_with(';')), "{run}");
    let zeros = lines(&audit("zeros", &["--format", "jsonl"]).out);
    let noticed = |all: &[Value]| all.last().and_then(|summary| summary["noticed"].as_u64());
    assert!(noticed(&zeros) <= noticed(&all), "{zeros:?}");

    let again = audit("sum", &["--at-least", "100%"]);
    assert_eq!(again.code, 1, "{again}");
    assert!(again.err.contains("mutants are noticed, which is less than `--at-least 100%`"), "{again}");
    let words = format!("{} of 30 mutants noticed", count("noticed"));
    assert!(again.out.contains(&words), "the same mutants, with the same fates: {again}");
    assert!(again.out.contains(survivor["text"].as_str().unwrap()), "{again}");
}

/// With COLLSPEC_TEST_NCCL_LIBRARIES: a mutant has the same name in every audit.
#[test]
fn a_mutant_can_be_named() {
    let Some(library) = newest_real() else { return };
    let home = Home::new();
    home.file("sum.toml", SUM);
    let audit = |more: &[&str]| {
        let options = ["audit", "sum.toml", "--driver", "software", "--nccl", library.to_str().unwrap()];
        lines(&home.run(&[&options[..], &["--format", "jsonl"], more].concat()).out)
    };
    for mutant in &audit(&["--mutants", "3", "--seed", "5"])[..3] {
        let only = ["--only", mutant["id"].as_str().unwrap()].repeat(2);
        let [again, _summary] = audit(&only).try_into().unwrap();
        for key in ["id", "change", "words", "function", "line", "text", "fate"] {
            assert_eq!(again[key], mutant[key], "{again}");
        }
    }
    assert_eq!(audit(&["--only", "0.0.4000000.operator"]), Vec::<Value>::new());
}

/// With COLLSPEC_TEST_NCCL_LIBRARIES: a case that fails as the library is ends the audit.
#[test]
fn cases_must_pass_without_a_change() {
    let Some(library) = newest_real() else { return };
    let home = Home::new();
    home.file("wrong.toml", "world_size = 2\nop = \"all_reduce\"\ninputs = [[1], [2]]\nexpect = [[4], [4]]\n");
    let run = home.run(&["audit", "wrong.toml", "--driver", "software", "--nccl", library.to_str().unwrap()]);
    assert_eq!(run.code, 1, "{run}");
    assert!(run.err.contains("a case fails without a change, so the audit cannot tell what they notice"), "{run}");
}

#[test]
fn what_has_no_kernels_to_change_is_refused() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    for option in ["--list-faults", "--quick", "--every-case", "--scenarios", "--fault=F14"] {
        let run = home.run(&["audit", "sum.toml", "--nccl", "2.32.3", option]);
        let name = option.split('=').next().unwrap_or_default();
        let words = format!("{name} is for the audit of faults, and --nccl audits the kernels of a real library");
        assert!(run.code == 2 && run.err.contains(&words), "{run}");
    }
    for option in ["--mutants=5", "--seed=1", "--most-cases=2", "--delay-stores=element"] {
        let run = home.run(&["audit", "sum.toml", option]);
        assert!(run.code == 2 && run.err.contains("--nccl"), "{option}: {run}");
    }
    let run = home.run(&["audit", "sum.toml", "--nccl", "no/such/libnccl.so.2", "--driver", "software"]);
    assert!(run.code == 3 && run.out.is_empty(), "{run}");
}
