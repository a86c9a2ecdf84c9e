//! The generated part of the corpus: of every two factors of an operation, each pair of values that can be judged stands in
//! some case. Read from the files as they are, so that neither the script that wrote them nor the one who changes them by
//! hand has to be believed.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::{Table, Value};

const TYPES: [(&str, u64); 12] = [
    ("i8", 1),
    ("u8", 1),
    ("i32", 4),
    ("u32", 4),
    ("i64", 8),
    ("u64", 8),
    ("f16", 2),
    ("bf16", 2),
    ("f32", 4),
    ("f64", 8),
    ("f8e4m3", 1),
    ("f8e5m2", 1),
];
const CHUNK: u64 = 65_536;
const CHANNEL: u64 = 8 * CHUNK;
const MIB: u64 = 1 << 20;
const REDUCTIONS: [&str; 3] = ["all_reduce", "reduce", "reduce_scatter"];
const ROOTED: [&str; 4] = ["reduce", "broadcast", "gather", "scatter"];
const V: [&str; 2] = ["all_gather_v", "all_to_all_v"];
/// A block for each rank: large boundaries are then those of all blocks together.
const BLOCKS: [&str; 7] =
    ["reduce_scatter", "all_gather", "gather", "scatter", "all_to_all", "all_gather_v", "all_to_all_v"];

/// What a factor's values are called; a case has one or, where they fall together (the roots of one rank), several.
type Row = BTreeMap<&'static str, BTreeSet<String>>;

fn factors(op: &str) -> BTreeMap<&'static str, Vec<String>> {
    let words = |list: &[&str]| list.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    let mut all = BTreeMap::from([
        ("type", TYPES.iter().map(|(name, _)| name.to_string()).collect()),
        ("ranks", [1, 2, 3, 4, 5, 6, 7, 8, 16].map(|n| n.to_string()).to_vec()),
        ("count", levels().iter().map(|level| level_name(*level)).collect()),
        ("offset", words(&["0", "1", "3", "rank + 1"])),
        ("placement", words(&["threads", "one_thread"])),
    ]);
    if REDUCTIONS.contains(&op) {
        let kinds = ["sum", "rounding", "prod", "min", "max", "avg", "premul", "premul_device"];
        all.insert("reduction", words(&kinds));
    }
    match op {
        "all_reduce" => _ = all.insert("algorithm", words(&["Ring", "Tree", "SingleTree"])),
        "reduce" | "broadcast" => _ = all.insert("algorithm", words(&["Ring", "SingleTree"])),
        _ => {}
    }
    if REDUCTIONS.contains(&op) || ["broadcast", "all_gather", "all_gather_v"].contains(&op) {
        all.insert("protocol", words(&["", "Simple", "LL", "LL128"]));
    }
    if ROOTED.contains(&op) {
        all.insert("root", words(&["first", "middle", "last"]));
        all.insert("null pointers", words(&["false", "true"]));
    }
    if V.contains(&op) {
        all.insert("pieces", words(&["even", "uneven", "some_empty"]));
    } else if !["all_to_all", "send_recv"].contains(&op) {
        all.insert("in place", words(&["false", "true"]));
    }
    all
}

/// Elements beside a boundary in bytes; a boundary of 0 bytes stands for the number itself.
fn levels() -> Vec<(u64, i64)> {
    let mut all = vec![(0, 0), (0, 1), (16, 0), (CHUNK, 0)];
    all.extend([16, 128, 4096, CHUNK, CHANNEL, MIB].iter().flat_map(|b| [(*b, -1), (*b, 1)]));
    all
}

fn level_name((boundary, beside): (u64, i64)) -> String {
    format!("{boundary} bytes {beside:+}")
}

/// The elements of a level; chunks are smaller where a protocol puts flags between the data.
fn elements(op: &str, (boundary, beside): (u64, i64), size: u64, world: u64, protocol: &str) -> i64 {
    let bytes = match (boundary, protocol) {
        (CHUNK | CHANNEL, "LL") => boundary / 2,
        (CHUNK | CHANNEL, "LL128") => boundary / 16 * 15,
        _ => boundary,
    };
    let block = BLOCKS.contains(&op);
    let shared = boundary > CHUNK && (block || world > 4) || boundary == CHUNK && block && world > 4;
    let share = if shared { world } else { 1 };
    ((bytes / size / share) as i64 + beside).max(0)
}

/// What cannot be judged, or costs more than it shows: the table in scenarios/README.md.
fn left_out(a: (&str, &str), b: (&str, &str)) -> bool {
    let of = |factor: &str| [a, b].iter().find(|(name, _)| *name == factor).map(|(_, value)| *value);
    let eight = |dtype: &str| dtype.starts_with("f8");
    let bytes = |level: &str| level.split(' ').next().and_then(|b| b.parse::<u64>().ok()).unwrap_or(0);
    match (of("reduction"), of("type"), of("ranks"), of("count").map(bytes)) {
        (Some("rounding"), Some(dtype), ..) => !dtype.contains('f'),
        (Some("rounding"), _, Some(ranks), _) => ranks == "16",
        (Some("rounding" | "avg"), _, _, Some(bytes)) => bytes > 4096,
        (Some("prod"), _, _, Some(bytes)) => bytes > CHUNK,
        (_, Some(dtype), _, Some(bytes)) => eight(dtype) && bytes > CHUNK,
        _ => false,
    }
}

fn row(op: &str, file: &Table, stem: &str, case: &Table) -> Row {
    let text = |value: Option<&Value>, default: &str| match value {
        None => default.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let env = |name: &str| text(case.get("env").and_then(|env| env.get(name)), "");
    let (dtype, protocol) = (text(file.get("dtype"), ""), env("NCCL_PROTO"));
    let size = TYPES.iter().find(|(name, _)| *name == dtype).expect("a type").1;
    let world = case["world_size"].as_integer().expect("a number") as u64;
    let counted = text(case.get("counts").or(case.get("count")), "");
    let numbers: Vec<i64> = counted.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    let (pieces, count) = match counted.strip_prefix("if(") {
        Some(_) => ("some_empty", numbers.last()),
        None if counted.contains('+') => ("uneven", numbers.first()),
        None => ("even", numbers.first()),
    };
    let whole_in = ["reduce_scatter", "scatter", "all_to_all"].contains(&op);
    let count = count.expect("a count") / if whole_in { world as i64 } else { 1 };
    let levels = levels().into_iter().filter(|level| elements(op, *level, size, world, &protocol) == count);
    let root = case.get("root").and_then(Value::as_integer).unwrap_or(0) as u64;
    let places = [("first", 0), ("middle", world / 2), ("last", world - 1)];
    let kind = stem.strip_prefix(dtype.as_str()).unwrap_or("").trim_start_matches('_').to_owned();
    let one = |value: String| BTreeSet::from([value]);
    BTreeMap::from([
        ("type", one(dtype)),
        ("ranks", one(world.to_string())),
        ("count", levels.map(level_name).collect()),
        ("offset", one(text(case.get("offset"), "0"))),
        ("placement", one(text(case.get("placement"), "threads"))),
        ("reduction", one(kind)),
        ("algorithm", one(env("NCCL_ALGO"))),
        ("protocol", one(protocol)),
        ("root", places.iter().filter(|(_, rank)| *rank == root).map(|(name, _)| name.to_string()).collect()),
        ("null pointers", one(text(case.get("null_pointers"), "false"))),
        ("in place", one(text(case.get("in_place"), "false"))),
        ("pieces", one(pieces.to_owned())),
    ])
}

fn rows(op: &str) -> Vec<Row> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/conformance").join(op);
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        let file: Table = std::fs::read_to_string(&path).expect("a file").parse().expect("TOML");
        assert_eq!(file["op"].as_str(), Some(op), "{}", path.display());
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let cases = file["variants"].as_table().expect("variants");
        rows.extend(cases.values().map(|case| row(op, &file, stem, case.as_table().expect("a table"))));
    }
    rows
}

#[test]
fn every_pair_of_values_stands_in_some_case() {
    let ops = [
        "all_reduce",
        "reduce",
        "reduce_scatter",
        "broadcast",
        "all_gather",
        "gather",
        "scatter",
        "all_to_all",
        "all_gather_v",
        "all_to_all_v",
        "send_recv",
    ];
    let mut missing = Vec::new();
    let mut cases = 0;
    for op in ops {
        let (factors, rows) = (factors(op), rows(op));
        cases += rows.len();
        let names: Vec<_> = factors.keys().copied().collect();
        for (i, a) in names.iter().copied().enumerate() {
            for b in names[i + 1..].iter().copied() {
                let there: BTreeSet<(&str, &str)> = rows
                    .iter()
                    .flat_map(|row| row[a].iter().flat_map(|x| row[b].iter().map(|y| (x.as_str(), y.as_str()))))
                    .collect();
                for (x, y) in factors[a].iter().flat_map(|x| factors[b].iter().map(move |y| (x.as_str(), y.as_str()))) {
                    if !there.contains(&(x, y)) && !left_out((a, x), (b, y)) {
                        missing.push(format!("{op}: {a} {x} with {b} {y}"));
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "{} pairs are in no case:\n{}", missing.len(), missing.join("\n"));
    assert!(cases >= 3000, "{cases} cases");
}
