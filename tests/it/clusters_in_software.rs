//! Machines by profile and nodes with software GPUs, as the command has them.
use crate::support::Home;
use crate::support::real::newest_real;

#[test]
fn machines_are_listed_shown_and_checked() {
    let home = Home::new();
    let list = home.run(&["machine", "list"]);
    assert!(list.code == 0 && list.out.contains("dgx-h100") && list.out.contains("400 Gb/s InfiniBand"), "{list}");
    let topology = home.run(&["machine", "show", "dgx-h100", "--topology"]);
    home.file("mine.xml", &topology.out);
    let show = home.run(&["machine", "show", "mine.xml"]);
    assert!(show.code == 0 && show.out.contains("GPU 7 at 0000:17:00.0: 18 NVLinks"), "{show}");
    home.file("wrong.xml", &topology.out.replace("0000:11:00.0", "0000:10:00.0"));
    let check = home.run(&["machine", "check", "mine.xml", "wrong.xml"]);
    assert!(check.code == 2 && check.out.starts_with("mine.xml: 8 x NVIDIA H100"), "{check}");
    assert!(check.err.contains("wrong.xml:") && check.err.contains("0000:10:00.0 is there already"), "{check}");
}

#[test]
fn what_cannot_be_a_machine_or_run_on_one_is_refused() {
    let home = Home::new();
    home.file("sum.toml", "world_size = 2\nop = \"all_reduce\"\ninputs = [[1], [2]]\n");
    for (arguments, code, words) in [
        (["--machine", "dgx-h1000"], 2, "did you mean dgx-h100?"),
        (["--nodes", "0"], 2, "expected a whole number, 1 or greater"),
        (["--nodes", "65"], 2, "at most 64 nodes"),
    ] {
        let run = home.run(&[&["run", "sum.toml"][..], &arguments].concat());
        assert!(run.code == code && run.err.contains(words), "{run}");
    }
    let run = home.run(&["gpu", "--machine", "nowhere.xml", "--", "true"]);
    assert!(run.code == 2 && run.err.contains("nowhere.xml: No such file"), "{run}");
}

/// With COLLSPEC_TEST_NCCL_LIBRARIES: ranks of two nodes talk over InfiniBand in software, and a fault that a case has must strike.
#[test]
fn nodes_run_a_real_library() {
    let Some(library) = newest_real() else { return };
    let home = Home::new();
    let sum =
        "world_size = 4\nop = \"all_reduce\"\ndtype = \"f32\"\ninputs = { each = \"rank + i % 7\", count = 100000 }\n";
    home.file(
        "sum.toml",
        &format!("{sum}requires = {{ nodes = 2, nics = 8, nvlinks = 18, link_layer = \"InfiniBand\" }}\n"),
    );
    let lost =
        "fault = { kind = \"ib_port_down\", at = 2 }\noutcome = \"remote_error\"\nenv.NCCL_IB_TIMEOUT = \"14\"\n";
    home.file("lost.toml", &format!("{sum}{lost}"));
    home.file("never.toml", &format!("{sum}fault = {{ kind = \"ib_port_flap\", at = 1000000 }}\n"));
    let options =
        ["--nccl", library.to_str().unwrap(), "--driver", "software", "--machine", "dgx-h100", "--nodes", "2"];
    let run = |file: &str| home.run(&[&["run", file][..], &options].concat());
    let right = run("sum.toml");
    assert!(right.code == 0 && right.err.contains("as 2 nodes of dgx-h100"), "{right}");
    assert_eq!(run("lost.toml").code, 0, "{}", run("lost.toml"));
    let never = run("never.toml");
    assert!(
        never.code == 1 && never.out.contains("the fault ib_port_flap of the process of rank 0 did not strike"),
        "{never}"
    );
    let alone = home.run(&["run", "sum.toml", "--nccl", library.to_str().unwrap(), "--driver", "software"]);
    assert!(alone.out.contains("needs 2 machines; this is one; `--nodes 2` gives so many"), "{alone}");
}
