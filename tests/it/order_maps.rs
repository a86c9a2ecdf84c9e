//! Order maps of real runs: what a library's settings change in the order of summation is told by name.

use crate::support::{Home, Run};
use collspec::OrderMapReport;

/// Four ranks reduce 16,384 random elements.
fn file(dtype: &str, rest: &str) -> String {
    format!("world_size = 4\n{rest}inputs = {{ random = {{ seed = 5 }}, count = 16384, dtype = \"{dtype}\" }}\n")
}

/// The order maps of a case under these variables.
fn maps(home: &Home, text: &str, variables: &[(&str, &str)]) -> Vec<OrderMapReport> {
    home.file("case.toml", text);
    let path = home.path("case.toml").display().to_string();
    let mut command = home.command(&["run", "--format", "jsonl", &path]);
    for (name, value) in variables {
        command.env(name, value);
    }
    let run = Run::of(&mut command);
    assert_eq!(run.code, 0, "{run}");
    let line = run.out.lines().find(|line| line.contains("\"case\"")).unwrap_or_default();
    let report: collspec::CaseReport = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {run}"));
    report.order_maps
}

fn map(home: &Home, text: &str, variables: &[(&str, &str)]) -> OrderMapReport {
    let mut maps = maps(home, text, variables);
    assert_eq!(maps.len(), 1, "{maps:?}");
    maps.remove(0)
}

const SUM: &str = "op = \"all_reduce\"\n";

#[test]
fn channels_are_told_apart() {
    let home = Home::new();
    let text = file("f32", SUM);
    let one = map(&home, &text, &[]);
    assert_eq!(one.name, "ring 0,1,2,3 (chunks of 4,096)");
    assert_eq!((one.ranks.as_slice(), one.elements), ([0, 1, 2, 3].as_slice(), 16384));
    let orders: Vec<(u64, u64, &str)> =
        one.runs.iter().map(|run| (run.first, run.elements, run.order.as_str())).collect();
    assert_eq!(
        orders,
        [
            (0, 4096, "chain 1,2,3,0"),
            (4096, 4096, "chain 2,3,0,1"),
            (8192, 4096, "chain 3,0,1,2"),
            (12288, 4096, "chain 0,1,2,3"),
        ]
    );
    let two = map(&home, &text, &[("NCCL_MIN_NCHANNELS", "2")]);
    assert_eq!(two.name, "ring 0,1,2,3, 2 parts (chunks of 2,048)");
    assert_ne!(one.hash, two.hash);
    assert_eq!(map(&home, &text, &[]).hash, one.hash);
}

#[test]
fn a_tree_is_told_from_a_ring() {
    let home = Home::new();
    let tree = map(&home, &file("f32", SUM), &[("NCCL_ALGO", "Tree")]);
    // One chain, or one for each half, as the library's trees of four ranks are.
    assert!(tree.name.starts_with("chain ") || tree.name.starts_with("double binary tree "), "{tree:?}");
    let of_a_tree = |order: &str| order.starts_with("chain ") || order.ends_with(" tree of a double binary tree");
    assert!(tree.runs.len() <= 2 && tree.runs.iter().all(|run| of_a_tree(&run.order)), "{tree:?}");
}

#[test]
fn wide_partial_results_are_told_from_rounded_ones() {
    let home = Home::new();
    let text = file("f16", SUM);
    assert_eq!(map(&home, &text, &[]).name, "ring 0,1,2,3 (chunks of 4,096)");
    let wide = [("COLLSPEC_SOFT_ARITHMETIC", "wide")];
    assert_eq!(map(&home, &text, &wide).name, "any order, f32 accumulator");
    let average = file("f32", "op = \"all_reduce\"\nreduce = \"avg\"\n").replace("world_size = 4", "world_size = 3");
    for (manner, words) in [
        ("", ", scaled before"),
        ("average=after", ", scaled after in f32"),
        ("average=divide", ", divided after in f32"),
    ] {
        let name = map(&home, &average, &[("COLLSPEC_SOFT_ARITHMETIC", manner)]).name;
        assert_eq!(name, format!("ring 0,1,2 (chunks of 5,462){words}"));
    }
}

#[test]
fn blocks_of_a_reduce_scatter_make_one_map() {
    let home = Home::new();
    let map = map(&home, &file("f32", "op = \"reduce_scatter\"\n"), &[]);
    assert_eq!((map.name.as_str(), map.ranks.as_slice()), ("ring 0,1,2,3 (chunks of 4,096)", [0, 1, 2, 3].as_slice()));
}

#[test]
fn every_step_has_its_map_and_exact_results_have_none() {
    let home = Home::new();
    let text = "world_size = 3\ninputs.x = { random = { seed = 5 }, count = 300 }\ninputs.whole = { each = \"rank + i\", count = 300 }\nsteps = [\n\
        { op = \"all_reduce\", in = \"x\", out = \"y\" },\n\
        { op = \"all_reduce\", in = \"whole\", out = \"j\" },\n\
        { op = \"reduce\", root = 1, in = \"y\", out = \"z\" } ]\n";
    let maps = maps(&home, text, &[]);
    let names: Vec<(&str, &str, &[usize])> =
        maps.iter().map(|map| (map.buffer.as_str(), map.name.as_str(), map.ranks.as_slice())).collect();
    assert_eq!(names[0], ("y", "ring 0,1,2 (chunks of 100)", [0, 1, 2].as_slice()));
    assert_eq!((names.len(), names[1].0, names[1].2), (2, "z", [1].as_slice()));
    assert!(maps[0].step.contains("all_reduce") && maps[1].step.contains("reduce"), "{maps:?}");
}

/// Few telling elements are explained by the wrong order by chance: an algorithm is contradicted only if it never gives these bits.
#[test]
fn no_seed_makes_a_sound_algorithm_look_like_another() {
    let home = Home::new();
    let file = |name: &str, algorithm: &str, dtype: &str, worlds: &str, seeds: u32| {
        let seeds: Vec<u32> = (0..seeds).collect();
        home.file(
            name,
            &format!(
                "steps = [{{ op = \"all_reduce\", in = \"x\", out = \"y\", algorithm = \"{algorithm}\" }}]\n\
                 inputs.x = {{ random = {{ seed = 0 }}, count = 151, dtype = \"{dtype}\" }}\n\
                 [matrix]\nworld_size = {worlds}\n\"inputs.x.random.seed\" = {seeds:?}\n"
            ),
        );
    };
    file("many.toml", "tree_ll", "f64", "[4]", 500);
    for algorithm in ["tree", "ring_ll"] {
        for dtype in ["f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"] {
            file(&format!("{algorithm}_{dtype}.toml"), algorithm, dtype, "[3, 4, 5, 8]", 8);
        }
    }
    let run = Run::of(&mut home.command(&["run", "."]));
    assert_eq!(run.code, 0, "{run}");
    assert!(run.out.contains("884 passed, 0 failed"), "{run}");
}
