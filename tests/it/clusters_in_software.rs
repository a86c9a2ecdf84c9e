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

#[test]
fn tuning_is_asked_of_a_real_library_alone() {
    let home = Home::new();
    let soft = home.run(&["tuning", "AllReduce"]);
    assert!(soft.code == 2 && soft.err.contains("tuning asks a real library"), "{soft}");
    home.file("other.json", "{\"collspec_faults\": 1}");
    let other = home.run(&["tuning", "--against", "other.json"]);
    assert!(other.code == 2 && other.err.contains("is not a file that `collspec tuning --json` wrote"), "{other}");
}

/// With COLLSPEC_TEST_NCCL_LIBRARIES: sizes that no kernel could work through in a test, and the same library against itself.
#[test]
fn a_real_library_tells_what_it_chooses_for_a_machine() {
    let Some(library) = newest_real() else { return };
    let home = Home::new();
    let options = ["--nccl", library.to_str().unwrap(), "--machine", "dgx-h100", "AllReduce", "-b", "1M", "-e", "8G"];
    let one = home.run(&[&["tuning"][..], &options].concat());
    assert_eq!(one.code, 0, "{one}");
    assert!(one.out.contains("12 channels of 30/30 GB/s over NVL/"), "{one}");
    assert!(one.out.contains("to 8 GiB NVLS SIMPLE"), "{one}");
    let two = home.run(&[&["tuning", "--nodes", "2", "--json", "two.json"][..], &options].concat());
    assert!(two.code == 0 && two.out.contains("between nodes               IB 0-7 GDRDMA"), "{two}");
    let same = home.run(&[&["tuning", "--nodes", "2", "--against", "two.json"][..], &options].concat());
    assert!(same.out.ends_with("nothing is different in AllReduce\n"), "{same}");
    let other = home.run(&[&["tuning", "--against", "two.json"][..], &options].concat());
    assert!(other.out.contains("nodes: 2 -> 1") && other.out.contains("-> NVLS SIMPLE"), "{other}");
}

/// With COLLSPEC_TEST_NCCL_LIBRARIES: the trays of a rack are one NVLink domain, so that no message goes through an adapter.
#[test]
fn nodes_of_an_nvlink_domain_need_no_adapter() {
    let Some(library) = newest_real() else { return };
    let home = Home::new();
    let sum =
        "world_size = 4\nop = \"all_reduce\"\ndtype = \"f32\"\ninputs = { each = \"rank + i % 7\", count = 10000 }\n";
    let first_message = "fault = { kind = \"ib_late_message\", at = 1 }\nrequires = { nodes = 2 }\n";
    home.file("joined.toml", &format!("{sum}{first_message}"));
    home.file("apart.toml", &format!("{sum}{first_message}env.NCCL_MNNVL_ENABLE = \"0\"\n"));
    home.file("switch.toml", &format!("{sum}env.NCCL_ALGO = \"NVLS\"\n"));
    let options =
        ["--nccl", library.to_str().unwrap(), "--driver", "software", "--machine", "gb200-nvl72", "--nodes", "2"];
    let run = |file: &str| home.run(&[&["run", file][..], &options].concat());
    let joined = run("joined.toml");
    assert!(joined.out.contains("the fault ib_late_message of the process of rank 0 did not strike"), "{joined}");
    for file in ["apart.toml", "switch.toml"] {
        let right = run(file);
        assert_eq!(right.code, 0, "{right}");
    }
}
