//! `collspec faults`: faults of the machine strike a real library as their kinds say, and what cannot be tried is refused.
use crate::support::Home;
use crate::support::real::newest_real;
use serde_json::Value;

const RING: &str =
    "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"rank + i % 7\", count = 20000, dtype = \"f32\" }\n";

/// With COLLSPEC_TEST_NCCL_LIBRARIES: each kind of fault strikes, does what only it can do, and can be compared.
#[test]
fn faults_strike_a_real_library() {
    let Some(library) = newest_real() else { return };
    let home = Home::new();
    home.file("ring.toml", RING);
    let options = ["faults", "ring.toml", "--driver", "software", "--nccl", library.to_str().unwrap()];
    let run = home.run(&[&options[..], &["--runs", "3", "--json", "all.json"]].concat());
    assert_eq!(run.code, 0, "{run}");
    let all: Value = serde_json::from_str(&std::fs::read_to_string(home.path("all.json")).unwrap()).unwrap();
    let sound = all["cases"][0]["sound"].as_array().unwrap();
    assert!(sound.len() == 2 && sound[1]["received"].as_u64().unwrap() >= 2 * 80_000, "{run}");
    let runs = all["cases"][0]["faulty"].as_array().unwrap();
    let of = |kind: &str| -> Vec<&Value> { runs.iter().filter(|run| run["kind"] == kind).collect() };
    let outcomes = |kind: &str| -> Vec<&str> { of(kind).iter().filter_map(|run| run["outcome"].as_str()).collect() };
    assert_eq!(runs.len(), 9 * 3);
    assert!(["slow_gpu", "net_delay"].iter().all(|kind| outcomes(kind) == ["right"; 3]), "{run}");
    assert!(outcomes("stuck_gpu").contains(&"hang") && !outcomes("stuck_gpu").contains(&"wrong"), "{run}");
    assert!(outcomes("bit_flip_user").contains(&"wrong") && outcomes("net_bit_flip").contains(&"wrong"), "{run}");
    for kind in ["bit_flip_user", "bit_flip_nccl", "lost_write", "stuck_gpu", "net_cut", "net_repeat"] {
        assert!(
            of(kind).iter().any(|run| run["fault"].as_str().is_some_and(|fault| !fault.is_empty())),
            "{kind}: {run}"
        );
    }
    let again = ["--kind", "slow_gpu", "--runs", "1", "--seed", "1", "--against", "all.json"];
    let run = home.run(&[&options[..], &again].concat());
    assert!(run.code == 0 && run.out.contains("slow_gpu: 1 right, as before"), "{run}");
}

#[test]
fn what_cannot_be_tried_is_refused() {
    let home = Home::new();
    home.file("ring.toml", RING);
    home.file("other.json", "{\"collspec_faults\": 1}");
    let run = home.run(&["faults", "ring.toml", "--backend", "soft"]);
    assert!(run.code == 2 && run.err.contains("faults needs a library (--nccl) and --driver software"), "{run}");
    let run = home.run(&["faults", "ring.toml", "--against", "other.json"]);
    assert!(run.code == 2 && run.err.contains("other.json is not a file that `collspec faults --json` wrote"), "{run}");
    let run = home.run(&["faults", "ring.toml", "--against", "ring.toml", "--json", "ring.toml"]);
    assert!(run.code == 2 && run.err.contains("the JSON would be written over ring.toml"), "{run}");
    let run = home.run(&["faults", "ring.toml", "--kind", "meteor"]);
    assert!(run.code == 2 && run.err.contains("bit_flip_nccl"), "{run}");
}
