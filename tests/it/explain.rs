//! `collspec explain` shows what a case does, and the pictures of the documents are its own.
use crate::support::Home;
use collspec_core::ops::TABLE;
use std::fs;
use std::path::Path;

/// The pictures of docs/explain.md: name, file, and further arguments.
const PICTURES: [(&str, &str, &[&str]); 16] = [
    ("all_reduce", "documented/all_reduce_sum_of_pairs", &[]),
    ("reduce", "documented/reduce_to_rank_0", &["--case", "reduce_to_rank_0[variant=out_of_place]"]),
    ("broadcast", "documented/broadcast_pair", &[]),
    ("all_gather", "documented/all_gather_of_pairs", &[]),
    ("gather", "documented/gather_to_rank_0", &[]),
    ("scatter", "documented/scatter_quarters", &[]),
    ("reduce_scatter", "documented/reduce_scatter_four_ranks", &[]),
    ("all_to_all", "documented/all_to_all_transpose", &[]),
    ("all_gather_v", "language/all_gather_v", &[]),
    ("all_to_all_v", "documented/all_to_all_v_uneven", &["--case", "all_to_all_v_uneven[variant=uneven]"]),
    ("reduce_scatter_v", "language/reduce_scatter_v", &["--case", "reduce_scatter_v[variant=list]"]),
    ("send_recv", "documented/send_recv_chain", &[]),
    ("send_recv_ring", "documented/mpi_sendrecv", &[]),
    ("split", "documented/mpi_comm_split", &[]),
    ("ring", "documented/ring_all_reduce_traffic", &["--rounds"]),
    ("tree", "documented/ring_all_reduce_traffic", &["--rounds", "--algorithm", "tree"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn scenario(name: &str) -> String {
    root().join("scenarios").join(format!("{name}.toml")).display().to_string()
}

#[test]
fn the_pictures_of_the_documents_are_those_of_the_command() {
    let home = Home::new();
    let document = fs::read_to_string(root().join("docs/explain.md")).unwrap();
    let mut different = Vec::new();
    for (name, file, args) in PICTURES {
        assert!(document.contains(&format!("](pictures/{name}.svg)")), "docs/explain.md does not show {name}");
        let file = scenario(file);
        let run = home.run(&[&["explain", &file, "--format", "svg"], args].concat());
        assert_eq!(run.code, 0, "{run}");
        let recorded = root().join(format!("docs/pictures/{name}.svg"));
        if std::env::var_os("COLLSPEC_BLESS").is_some() {
            fs::write(recorded, run.out).unwrap();
        } else if fs::read_to_string(recorded).unwrap_or_default() != run.out {
            different.push(name);
        }
    }
    assert!(different.is_empty(), "pictures differ (COLLSPEC_BLESS=1 records them): {different:?}");
    let of_the_document = fs::read_dir(root().join("docs/pictures")).unwrap().count();
    assert_eq!(of_the_document, PICTURES.len(), "docs/pictures has other files");
    for op in TABLE.iter().filter(|op| op.kind.transfers()) {
        assert!(document.contains(op.name), "docs/explain.md does not explain {}", op.name);
    }
}

#[test]
fn the_example_of_the_document_is_what_the_command_says() {
    let run = Home::new().run(&["explain", &scenario("documented/all_reduce_two_ranks")]);
    let document = fs::read_to_string(root().join("docs/explain.md")).unwrap();
    assert!(document.contains(&format!("all_reduce_two_ranks.toml\n{}```", run.out)), "{run}");
}

/// The table below this line of a text, as words.
fn table<'a>(text: &'a str, title: &str) -> Vec<Vec<&'a str>> {
    let below = text.lines().skip_while(|line| !line.contains(title)).skip(1);
    below.take_while(|line| !line.is_empty()).map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn a_ring_sends_what_its_scenario_asserts() {
    let case = "ring_all_reduce_traffic[variant=many_elements]";
    let run =
        Home::new().run(&["explain", &scenario("documented/ring_all_reduce_traffic"), "--case", case, "--rounds"]);
    // 8 rounds, in which every rank sends 1600 elements of 4 bytes, 800 bytes a round, to its neighbour.
    let rows = table(&run.out, "algorithm Ring");
    assert_eq!(rows.len(), 6, "{run}");
    for (rank, row) in rows[1..].iter().enumerate() {
        let to = format!("→{}", (rank + 1) % 5);
        let words: Vec<&str> = [to.as_str(), "800", "B"].repeat(8);
        assert_eq!(row[2..], [&words[..], &["6400", "B", "6400", "B"]].concat(), "{run}");
    }
    let wrong =
        Home::new().run(&["explain", &scenario("documented/broadcast_pair"), "--rounds", "--algorithm", "tree"]);
    assert!(wrong.code == 2 && wrong.err.contains("none of its operations has that algorithm"), "{wrong}");
}

#[test]
fn large_cases_are_folded() {
    let home = Home::new();
    let text = "world_size = 1024\nop = \"all_gather\"\ninputs = { each = \"rank\", count = 1000 }\n";
    home.file("large.toml", text);
    let run = home.run(&["explain", "large.toml"]);
    assert!(run.code == 0 && run.out.len() < 3000, "{run}");
    assert!(run.out.contains("rank 1023   r1023:1023 r1023:1023 … r1023:1023   r0:0 r0:0 … r1:1 r1:1 …"), "{run}");
    assert!(run.out.contains("… 1,020 more ranks"), "{run}");
}

#[test]
fn what_rounds_is_said_to() {
    let home = Home::new();
    home.file("round.toml", "world_size = 3\nop = \"all_reduce\"\ninputs = [[1, 1], [1e8, 2], [-1e8, 3]]\n");
    let run = home.run(&["explain", "round.toml"]);
    // In one order the 1 is lost.
    assert!(run.out.contains("1+2+3=6\n") && run.out.contains("right is one of 0"), "{run}");
    // A value has its mark wherever it is shown, also one that every order rounds to.
    let gathered = "\n[[steps]]\nop = \"all_gather\"\nin = \"out\"\nout = \"all\"\n";
    let product = "world_size = 3\ndtype = \"bf16\"\ninputs.in = [[1.01, 3], [1.02, 5], [1.05, 7]]\n\
        [[steps]]\nop = \"all_reduce\"\nreduce = \"prod\"\nin = \"in\"\nout = \"out\"\n";
    home.file("product.toml", &format!("{product}{gathered}"));
    let run = home.run(&["explain", "product.toml"]);
    assert!(run.out.contains("1.01×1.02×1.05=~1.08 3×5×7=105\n"), "{run}");
    assert!(run.out.contains("r0:~1.08 r0:105      r0:~1.08 r0:105 r1:~1.08"), "{run}");
}

/// The calls of a group that write parts of one buffer keep their own reductions.
#[test]
fn each_region_of_a_group_is_explained_by_its_own_reduction() {
    let home = Home::new();
    let call = |reduce: &str, from: u32| {
        format!(
            "[[steps.steps]]\nop = \"all_reduce\"\nreduce = \"{reduce}\"\nin = \"x\"\nout = \"y[{from}:{}]\"\n",
            from + 2
        )
    };
    let calls = call("max", 0) + &call("sum", 2) + &call("min", 4);
    home.file(
        "group.toml",
        &format!("world_size = 2\ninputs.x = [[1, 2], [3, 5]]\n[[steps]]\nop = \"group\"\n{calls}"),
    );
    let run = home.run(&["explain", "group.toml"]);
    let after = "max(1, 3)=3 max(2, 5)=5 1+3=4 2+5=7 min(1, 3)=1 min(2, 5)=2\n";
    assert_eq!(run.out.matches(after).count(), 2, "{run}");
}

#[test]
fn names_are_not_obeyed_by_terminals_and_browsers() {
    let home = Home::new();
    let text = "description = \"\\u001b[2J<script>\"\nworld_size = 2\nop = \"all_reduce\"\ninputs = [[1], [2]]\n";
    home.file("a.toml", text);
    for format in ["text", "svg", "html"] {
        let run = home.run(&["explain", "a.toml", "--format", format]);
        assert!(run.code == 0 && !run.out.contains('\u{1b}'), "{run}");
        assert_eq!(run.out.contains("<script>"), format == "text", "{run}");
    }
    let over = home.run(&["explain", "a.toml", "-o", "a.toml"]);
    assert!(over.code == 2 && over.err.contains("written over"), "{over}");
}

#[test]
#[ignore = "slow: explains the first case of every file"]
fn every_scenario_can_be_explained() {
    let home = Home::new();
    let folders =
        ["documented", "language", "laws", "negative", "regressions"].map(|name| root().join("scenarios").join(name));
    let found = collspec_core::scenario::search(&folders).unwrap();
    assert!(found.scenarios.len() > 300, "{}", found.scenarios.len());
    for file in found.scenarios {
        let path = file.path.display().to_string();
        let run = home.run(&["explain", &path, "--format", "html"]);
        assert!(run.code == 0 && run.out.ends_with("</html>\n"), "{path}: {run}");
    }
}
