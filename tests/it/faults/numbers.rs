//! Faults of numbers: of each family one member, shown as the other faults are; and all members, which the scenarios of
//! numbers must catch.
use super::shown::{Shown, assert_all_are_shown};
use soft_nccl::fault::TABLE;
use std::collections::BTreeSet;
use std::process::Command;

/// A member, and a scenario of one line for it.
const SCENARIOS: &[Shown] = &[
    ("F41-f16-sum", "world_size = 2; op = 'all_reduce'; dtype = 'f16'; inputs = [['0x0400'], ['0x83ff']]"),
    ("F42-f32-max", "world_size = 2; op = 'all_reduce'; reduce = 'max'; inputs = [['0x80000002'], ['0x80000001']]"),
    ("F43-f64-prod", "world_size = 2; op = 'all_reduce'; reduce = 'prod'; dtype = 'f64'; inputs = [[1e200], [1e-150]]"),
    ("F43b-f32-min", "world_size = 2; op = 'all_reduce'; reduce = 'min'; inputs = [[16777215], [16777216]]"),
    ("F43c-bf16-avg", "world_size = 2; op = 'all_reduce'; reduce = 'avg'; dtype = 'bf16'; inputs = [[1048576], [0]]"),
    ("F43d-f32-sum", "world_size = 2; op = 'all_reduce'; inputs = [[8388609], [2]]"),
    ("F43e-f8e4m3-max", "world_size = 2; op = 'all_reduce'; reduce = 'max'; dtype = 'f8e4m3'; inputs = [[9], [1]]"),
    (
        "F43f-f8e5m2-premul_sum",
        "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = 0.5 }; dtype = 'f8e5m2'; inputs = [[1024], [2048]]",
    ),
    ("F44-f8e4m3-sum", "world_size = 2; op = 'all_reduce'; dtype = 'f8e4m3'; inputs = [[9], [3]]"),
    ("F44b-f8e5m2-prod", "world_size = 2; op = 'all_reduce'; reduce = 'prod'; dtype = 'f8e5m2'; inputs = [[3], [5]]"),
    ("F44c-f8e4m3-avg", "world_size = 2; op = 'all_reduce'; reduce = 'avg'; dtype = 'f8e4m3'; inputs = [[2], [4]]"),
    ("F44d-f8e5m2-min", "world_size = 2; op = 'all_reduce'; reduce = 'min'; dtype = 'f8e5m2'; inputs = [[-0.0], [1]]"),
    ("F44e-bf16-prod", "world_size = 2; op = 'all_reduce'; reduce = 'prod'; dtype = 'bf16'; inputs = [[3], [5]]"),
    ("F44f-f16-max", "world_size = 2; op = 'all_reduce'; reduce = 'max'; dtype = 'f16'; inputs = [['0x7e00'], [1]]"),
    ("F45-i32-sum", "world_size = 2; op = 'all_reduce'; dtype = 'i32'; inputs = [[16777217], [0]]"),
    (
        "F45b-i64-max",
        "world_size = 2; op = 'all_reduce'; reduce = 'max'; dtype = 'i64'; inputs = [[9007199254740993], [1]]",
    ),
    ("F45c-u8-min", "world_size = 2; op = 'all_reduce'; reduce = 'min'; dtype = 'u8'; inputs = [[200], [1]]"),
    (
        "F45d-u32-premul_sum",
        "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = 1 }; dtype = 'u32'; inputs = [[65536], [65537]]",
    ),
    ("F45e-i8-avg", "world_size = 2; op = 'all_reduce'; reduce = 'avg'; dtype = 'i8'; inputs = [[100], [100]]"),
    ("F45f-i64-avg", "world_size = 2; op = 'all_reduce'; reduce = 'avg'; dtype = 'i64'; inputs = [[-3], [0]]"),
    ("F45g-u8-avg", "world_size = 2; op = 'all_reduce'; reduce = 'avg'; dtype = 'u8'; inputs = [[3], [0]]"),
    ("F46-f16-sum", "world_size = 2; op = 'all_reduce'; dtype = 'f16'; inputs = [[65504], [65504]]"),
    ("F46b-f64-prod", "world_size = 2; op = 'all_reduce'; reduce = 'prod'; dtype = 'f64'; inputs = [[1e200], [1e200]]"),
    ("F46c-f8e5m2-sum", "world_size = 2; op = 'all_reduce'; dtype = 'f8e5m2'; inputs = [[57344], [57344]]"),
    ("F47-f8e5m2-prod", "world_size = 2; op = 'all_reduce'; reduce = 'prod'; dtype = 'f8e5m2'; inputs = [[nan], [2]]"),
    ("F47b-f32-min", "world_size = 2; op = 'all_reduce'; reduce = 'min'; inputs = [[nan], [2]]"),
    ("F48-f32-max", "world_size = 2; op = 'all_reduce'; reduce = 'max'; inputs = [[inf], [1]]"),
    ("F48b-f64-sum", "world_size = 2; op = 'all_reduce'; dtype = 'f64'; inputs = [[inf], [1]]"),
    ("F48c-bf16-min", "world_size = 2; op = 'all_reduce'; reduce = 'min'; dtype = 'bf16'; inputs = [[-inf], [1]]"),
    ("F48d-f16-sum", "world_size = 2; op = 'all_reduce'; dtype = 'f16'; inputs = [[inf], [-inf]]"),
    (
        "F48e-f32-premul_sum",
        "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = 'rank' }; inputs = [[inf], [1]]",
    ),
    ("F49-f32-sum", "world_size = 2; op = 'all_reduce'; inputs = [[16777216], [3]]"),
    ("F49b-f16-prod", "world_size = 2; op = 'all_reduce'; reduce = 'prod'; dtype = 'f16'; inputs = [[1027], [1.5]]"),
    (
        "F49c-f8e4m3-premul_sum",
        "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = 1.25 }; dtype = 'f8e4m3'; inputs = [[9], [0]]",
    ),
    ("F50-f32-sum", "world_size = 9; op = 'all_reduce'; inputs = { each = 'if(rank == 0, 8388609, 0)', count = 9 }"),
    ("F51-f64-broadcast", "world_size = 2; op = 'broadcast'; dtype = 'f64'; inputs = [['0x7ff0000000000001'], []]"),
    ("F52-i32", "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = -3 }; dtype = 'i32'; inputs = [[1], [2]]"),
    (
        "F52b-i64",
        "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = '2 ^ 32 + 1' }; dtype = 'i64'; inputs = [[1], [2]]",
    ),
    (
        "F52c-u32",
        "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = 70000 }; dtype = 'u32'; inputs = [[1], [2]]",
    ),
    (
        "F52d-i32",
        "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = 16777217 }; dtype = 'i32'; inputs = [[1], [2]]",
    ),
    (
        "F52e-u64",
        "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = '2 ^ 60 + 1' }; dtype = 'u64'; inputs = [[1], [2]]",
    ),
    (
        "F52f-f64",
        "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = 0.1 }; dtype = 'f64'; inputs = [[1], [0]]",
    ),
    (
        "F52g-f16",
        "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = 0.1 }; dtype = 'f16'; inputs = [[1], [0]]",
    ),
    (
        "F52h-bf16",
        "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = 1e6 }; dtype = 'bf16'; inputs = [[1], [0]]",
    ),
    (
        "F52i-f8e4m3",
        "world_size = 2; op = 'all_reduce'; reduce = { premul_sum = 9 }; dtype = 'f8e4m3'; inputs = [[1], [0]]",
    ),
];

fn family(id: &str) -> Option<&str> {
    TABLE.iter().find(|entry| entry.id == id).and_then(|entry| entry.family).map(|(family, _)| family)
}

#[test]
fn one_of_each_family_is_noticed_where_it_strikes_and_only_there() {
    assert_all_are_shown(SCENARIOS);
}

#[test]
fn no_family_is_left_out() {
    let mut all: Vec<&str> = TABLE.iter().filter_map(|entry| entry.family).map(|(family, _)| family).collect();
    all.dedup();
    let shown: Vec<&str> = SCENARIOS.iter().filter_map(|(id, _)| family(id)).collect();
    assert_eq!(shown, all);
}

#[test]
fn the_scenarios_of_numbers_catch_every_member() {
    let families: BTreeSet<&str> = TABLE.iter().filter_map(|entry| entry.family).map(|(family, _)| family).collect();
    let families = families.into_iter().collect::<Vec<_>>().join(",");
    let numbers = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/conformance/numbers");
    let mut audit = Command::new(env!("CARGO_BIN_EXE_collspec"));
    audit.args(["audit", numbers, "--quick", "--fault", &families]);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("NCCL_") || name.starts_with("COLLSPEC_") {
            audit.env_remove(name);
        }
    }
    let run = audit.output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    let missed: Vec<&str> = text.lines().filter(|line| line.contains("MISSED")).collect();
    assert!(
        run.status.success() && missed.is_empty(),
        "{}\n{}",
        missed.join("\n"),
        String::from_utf8_lossy(&run.stderr)
    );
}
