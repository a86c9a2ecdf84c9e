//! Logs of every release become the same scenario.
use super::super::Form;
use super::{imported, steps};
use crate::import::golden::{assert_golden, data, files, refusals};
use std::path::PathBuf;

#[test]
fn a_training_step_is_a_loop_or_its_different_calls() {
    let logs = files("nccl_fsdp");
    for (form, name) in [
        (Form::Rounds, "nccl_fsdp.toml"),
        (Form::Unique { bench: false }, "nccl_fsdp_unique.toml"),
        (Form::Unique { bench: true }, "nccl_fsdp_bench.toml"),
    ] {
        let text = imported(&logs, form);
        assert_eq!(refusals(&text), "");
        assert_golden(name, &text);
    }
}

/// Every release whose lines differ: the same program was logged by each of them.
#[test]
fn the_logs_of_all_releases_become_one_program() {
    let logs: Vec<PathBuf> =
        files("nccl_log").into_iter().filter(|path| !path.to_string_lossy().contains("gather")).collect();
    assert_eq!(logs.len(), 7);
    for path in logs {
        let version = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = imported(std::slice::from_ref(&path), Form::Rounds);
        assert_eq!(refusals(&text), "", "{version}\n{text}");
        // Before 2.21 the log does not tell that a communicator was split from another, and before 2.23 it lacks some types.
        let minor: u32 = version.split('.').nth(1).unwrap().parse().unwrap();
        let comm = if minor < 21 { "comm" } else { "split" };
        let in_order =
            if minor < 21 { "comms.comm = { groups = [[1, 0]] }" } else { "comms.split = { color = 0, key = [1, 0] }" };
        assert!(text.contains(in_order), "{version}\n{text}");
        assert!(text.contains(&format!("NCCL {version}")), "{version}\n{text}");
        let (count, dtype) = if minor < 23 { (128, "i8") } else { (64, "bf16") };
        for letters in ["bc ", "ag "] {
            let input = format!("count = {count}, dtype = \"{dtype}\"");
            let line = text.lines().find(|line| line.starts_with(&format!("inputs.{letters}")));
            assert!(line.is_some_and(|line| line.contains(&input)), "{version}\n{text}");
        }
        assert!(text.contains("count = 8, dtype = \"i64\", offset = 1"), "{version}\n{text}");
        let expected = [
            "{ op = \"all_reduce\", in = \"ar0\", out = \"ar0_out\" },",
            "{ op = \"all_reduce\", reduce = \"max\", in = \"ar1\", out = \"ar1\" },  # in place",
            "{ op = \"broadcast\", root = 1, in = \"bc\", out = \"bc_out\" },",
            "{ op = \"all_gather\", in = \"ag\", out = \"ag_out\" },",
            "{ op = \"reduce_scatter\", reduce = { premul_sum = 1 }, in = \"rs\", out = \"rs_out\" },",
            "{ op = \"send_recv\", peer = \"(rank + 1) % n\", in = \"sent\", out = \"got\" },",
            &format!(
                "{{ op = \"reduce\", comm = \"{comm}\", reduce = \"avg\", in = \"red\", out = \"red_out\", stream = \"s1\" }},"
            ),
        ];
        // One log has a second round.
        assert_eq!(steps(&text), expected, "{version}\n{text}");
        assert_eq!(text.contains("times = 2"), version == "2.31.2", "{version}\n{text}");
        let unique = imported(&[path], Form::Unique { bench: false });
        assert_eq!(refusals(&unique), "", "{version}\n{unique}");
        assert_eq!(unique.lines().filter(|line| line.contains(" calls")).count(), 7, "{version}\n{unique}");
    }
}

/// NCCL 2.28 and later have calls for what were groups of messages.
#[test]
fn gather_scatter_and_all_to_all_count_parts() {
    let text = imported(&[data("nccl_log/2.28.9.gather.log")], Form::Rounds);
    assert_eq!(refusals(&text), "");
    for line in [
        "inputs.aa = { random = { seed = 0 }, count = 64, dtype = \"f32\" }",
        "inputs.ga = { random = { seed = 1 }, count = 64, dtype = \"f32\" }",
        "inputs.sc = { random = { seed = 2 }, count = 64, dtype = \"f32\" }",
        "{ op = \"scatter\", root = 1, in = \"sc\", out = \"sc_out\" },",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
