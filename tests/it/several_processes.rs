//! `collspec run` as several processes: they meet, one judges and reports, all end with its exit code.
use crate::support::jobs::{Job, LONG, port, run};
use crate::support::processes::{Process, children, wait_until};
use crate::support::{Home, SUM, WRONG};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

#[test]
fn one_process_reports_and_all_end_with_its_exit_code() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let ended = run(&home, 2, &["run", "sum.toml"], |_, _| {});
    assert_eq!(ended.codes, [0, 0], "{:?}", ended.err);
    assert!(ended.out[0].contains("1 passed, 0 failed"), "{:?}", ended.out);
    assert_eq!((ended.out[1].as_str(), ended.err[1].as_str()), ("", ""), "the other one is silent");
    home.file("sum.toml", WRONG);
    let ended = run(&home, 2, &["run", "sum.toml"], |_, _| {});
    assert_eq!(ended.codes, [1, 1], "{:?}", ended.err);
    assert!(ended.out[0].contains("rank 1"), "{:?}", ended.out);
    home.file("sum.toml", "world_size = 2\n");
    assert_eq!(run(&home, 2, &["run", "sum.toml"], |_, _| {}).codes, [2, 2]);
}

/// Cases with large results, a fault of the program, ranks that end, an expected hang and splits.
const SEVERAL: [(&str, &str); 5] = [
    (
        "large.toml",
        "world_size = 3\nop = \"all_reduce\"\ndtype = \"float32\"\ninputs = { each = \"(i * 7 + rank) % 100\", count = 700000 }\n",
    ),
    (
        "dies.toml",
        r#"world_size = 3
placement = "processes"
inputs.x = [[1], [2], [3]]
steps = [
  { op = "all_reduce", in = "x", out = "y" },
  { op = "wait" },
  { op = "exit", ranks = [1], status = "SIGKILL" },
  { op = "shrink", new = "rest", without = [1] },
  { op = "all_reduce", comm = "rest", in = "x", out = "z" },
]
expect.z = [[4], "untouched", [4]]
"#,
    ),
    (
        "hangs.toml",
        r#"world_size = 2
outcome = "hang"
timeout = 1
inputs.x = [[1], [2]]
steps = [{ op = "recv", peer = "1 - rank", out = "y" }, { op = "send", peer = "1 - rank", in = "x" }]
"#,
    ),
    (
        "rounds.toml",
        "world_size = 3\nop = \"all_reduce\"\ndtype = \"bfloat16\"\ninputs = { each = \"0.1 * (i + rank)\", count = 5000 }\n",
    ),
    ("four.toml", "world_size = 4\nop = \"all_gather\"\ninputs = { each = \"rank + i\", count = 3 }\n"),
];

#[test]
fn verdicts_are_those_of_one_process() {
    let home = Home::new();
    for (path, text) in SEVERAL {
        home.file(&format!("cases/{path}"), text);
    }
    let alone = home.run(&["run", "cases", "--format", "jsonl"]);
    let verdicts = |text: &str| -> Vec<(String, String)> {
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let mut all: Vec<_> = lines
            .filter(|line| line["case"].is_string())
            .map(|line| (line["case"].to_string(), line["status"].to_string()))
            .collect();
        all.sort();
        all
    };
    assert_eq!(verdicts(&alone.out).len(), SEVERAL.len(), "{}", alone.out);
    let args = ["run", "cases", "--format", "jsonl", "--ranks-per-process", "2"];
    let together = run(&home, 3, &args, |_, _| {});
    assert_eq!(verdicts(&together.out[0]), verdicts(&alone.out), "{:?}", together.err);
    // By TCP alone, as between machines, and on two machines by name.
    let apart = run(&home, 3, &args, |rank, command| {
        command.env("COLLSPEC_SOFT_NETWORK", "only").env("NCCL_SOCKET_IFNAME", "lo");
        command.env("NCCL_HOSTID", format!("machine-{}", rank / 2));
    });
    assert!(apart.err[0].contains("3 processes on 2 machines"), "{:?}", apart.err);
    assert_eq!(verdicts(&apart.out[0]), verdicts(&alone.out), "{:?}", apart.err);
}

/// Twelve ranks in three processes: bytes that the leading process sent to the others and got from them.
fn traffic(home: &Home, text: &str) -> (u64, u64) {
    home.file("one.toml", &format!("world_size = 12\n{text}"));
    let ended = run(home, 3, &["run", "one.toml", "--ranks-per-process", "4", "--verbose"], |_, _| {});
    assert_eq!(ended.codes, [0, 0, 0], "{:?} {:?}", ended.out, ended.err);
    let words: Vec<&str> = ended.err[0].split_whitespace().collect();
    let before_bytes = |verb: &str| {
        let at = words.windows(3).position(|three| three[0] == verb && three[2].starts_with("bytes")).unwrap();
        words[at + 1].replace(',', "").parse::<u64>().unwrap()
    };
    (before_bytes("got"), before_bytes("sent"))
}

#[test]
fn what_the_leading_process_knows_is_not_sent_to_it() {
    let home = Home::new();
    let exact = |count: u32| {
        format!(
            "op = \"all_reduce\"\ndtype = \"float32\"\ninputs = {{ each = \"(i + rank) % 100\", count = {count} }}\n"
        )
    };
    let ((out, back), (much_out, much_back)) = (traffic(&home, &exact(1)), traffic(&home, &exact(65_536)));
    const INPUT: u64 = 65_536 * 4;
    assert!(much_back < back + 4096, "a right result does not travel: {back} bytes, {much_back} bytes");
    // The inputs of eight ranks, and what lies in their outputs before once for each of two processes.
    assert!(much_out < out + 10 * INPUT + 16_384, "{out} bytes, {much_out} bytes");
    assert!(out < 8 * 2 * 8192, "guards are not sent: {out} bytes");
    let rounds = |count: u32| {
        format!(
            "op = \"all_reduce\"\ndtype = \"bfloat16\"\ninputs = {{ each = \"0.1 * (i + rank)\", count = {count} }}\n"
        )
    };
    let ((_, back), (_, much_back)) = (traffic(&home, &rounds(1)), traffic(&home, &rounds(65_536)));
    const RESULT: u64 = 65_536 * 2;
    assert!(much_back < back + RESULT + 16_384, "eight equal results travel once: {back} bytes, {much_back} bytes");
    assert!(much_back > RESULT, "and not never: {much_back} bytes");
}

#[test]
fn wrong_results_of_other_processes_are_reported_as_those_of_one() {
    let home = Home::new();
    home.file(
        "cases/sum.toml",
        "world_size = 6\nop = \"all_reduce\"\nrepeat = 2\ninputs = { each = \"rank * 7 + i\", count = 1003 }\n",
    );
    home.file("cases/large.toml", "world_size = 6\nop = \"all_gather\"\ndtype = \"float32\"\ninputs = { each = \"(i + rank) % 97\", count = 70001 }\n");
    let findings = |text: &str| -> Vec<(String, String)> {
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let cases = lines.filter(|line| line["case"].is_string());
        let mut all: Vec<_> = cases.map(|line| (line["case"].to_string(), line["findings"].to_string())).collect();
        all.sort();
        all
    };
    // A remainder that is not written, and bytes behind the end of a buffer.
    for fault in ["F01", "F03"] {
        let args = ["run", "cases", "--format", "jsonl", "--fault", fault];
        let alone = home.run(&args);
        assert!(alone.out.contains("\"status\":\"fail\""), "{fault}: {}", alone.out);
        let together = run(&home, 3, &[&args[..], &["--ranks-per-process", "2"]].concat(), |_, _| {});
        assert_eq!(findings(&together.out[0]), findings(&alone.out), "{fault}: {:?}", together.err);
    }
}

#[test]
fn a_case_that_needs_more_is_skipped_with_the_reason() {
    let home = Home::new();
    home.file("three.toml", "world_size = 3\nop = \"all_gather\"\ninputs = [[1], [2], [3]]\n");
    home.file("nodes.toml", &format!("{SUM}requires = {{ nodes = 2 }}\n"));
    let ended = run(&home, 2, &["run", "three.toml", "nodes.toml"], |_, _| {});
    assert!(
        ended.out[0].contains("needs 3 processes; the launcher has started 2; with --ranks-per-process N each"),
        "{:?}",
        ended.out
    );
    assert!(
        ended.out[0].contains("needs 2 machines; it would run in 2 of 2 processes, on one machine"),
        "{:?}",
        ended.out
    );
    let ended = run(&home, 2, &["run", "nodes.toml"], |rank, command| {
        command.env("NCCL_HOSTID", format!("machine-{rank}"));
    });
    assert!(ended.out[0].contains("1 passed"), "{:?} {:?}", ended.out, ended.err);
}

#[test]
fn who_has_not_come_is_named() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let meeting = format!("127.0.0.1:{}", port());
    let mut leader = home.command(&["run", "sum.toml", "--meeting-timeout", "0.2"]);
    leader.env("COLLSPEC_RANK", "0").env("COLLSPEC_SIZE", "4").env("COLLSPEC_MEETING", &meeting);
    let alone = crate::support::Run::of(&mut leader);
    assert_eq!(alone.code, 2);
    assert!(alone.err.contains("3 of 4 processes have not come within 0.2 s: ranks 1, 2, 3"), "{}", alone.err);
    let mut member = home.command(&["run", "sum.toml", "--meeting-timeout", "0.2"]);
    member.env("COLLSPEC_RANK", "1").env("COLLSPEC_SIZE", "4").env("COLLSPEC_LOCAL_RANK", "1");
    member.env("COLLSPEC_MEETING", &meeting);
    let lonely = crate::support::Run::of(&mut member);
    assert_eq!(lonely.code, 2);
    assert!(lonely.err.contains("no process of the job answers on 127.0.0.1, ports"), "{}", lonely.err);
}

/// For example torchrun's own store, or a server that anyone may have started.
#[test]
fn a_port_that_another_program_has_taken_is_named() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut member = home.command(&["run", "sum.toml", "--meeting-timeout", "0.2"]);
    member.env("COLLSPEC_RANK", "1").env("COLLSPEC_SIZE", "2").env("COLLSPEC_LOCAL_RANK", "1");
    member.env("COLLSPEC_MEETING", other.local_addr().unwrap().to_string());
    std::thread::spawn(move || {
        for stream in other.incoming() {
            let _ = std::io::Write::write_all(&mut stream.unwrap(), b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let lonely = crate::support::Run::of(&mut member);
    assert_eq!(lonely.code, 2);
    assert!(lonely.err.contains("another program listens there"), "{}", lonely.err);
}

#[test]
#[ignore = "slow"]
fn processes_that_differ_are_refused_and_both_are_named() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let refused = |change: &dyn Fn(u32, &mut Command)| {
        let ended = run(&home, 2, &["run", "sum.toml", "--meeting-timeout", "60"], change);
        assert_eq!(ended.codes, [2, 2], "{:?}", ended.err);
        ended.err
    };
    let err = refused(&|rank, command| {
        command.env("NCCL_HOSTID", format!("m{rank}"));
        if rank == 1 {
            command.env("NCCL_ALGO", "Tree");
        }
    });
    let words = "NCCL_ALGO differs: it is not set in rank 0 on m0, and \"Tree\" in rank 1 on m1";
    assert!(err.iter().all(|err| err.contains(words)), "{err:?}");
    let err = refused(&|rank, command| {
        command.env("COLLSPEC_SIZE", if rank == 0 { "2" } else { "3" });
    });
    assert!(err.iter().all(|err| err.contains("is one of 2 processes, rank 1 on")), "{err:?}");
    let other = run(&home, 2, &["run", "sum.toml", "--meeting-timeout", "5"], |rank, command| {
        command.env("COLLSPEC_SECRET", format!("0123456789abcdef{}", if rank == 0 { "one one" } else { "two two" }));
    });
    assert_eq!(other.codes, [2, 2]);
    assert!(other.err[1].contains("another COLLSPEC_SECRET"), "{:?}", other.err);
}

const STANDINS: [&str; 6] = ["--backend", "nccl", "--nccl", "stand-in", "--driver", "stand-in"];

/// Two GPUs on each machine, and two processes, which are numbered by machine.
fn two_gpus(machines: u32) -> impl Fn(u32, &mut Command) {
    move |rank, command| {
        let machine = rank * machines / 4;
        command.env("COLLSPEC_STANDIN_DEVICES", "2").env("NCCL_HOSTID", format!("m{machine}"));
    }
}

#[test]
fn ranks_use_the_gpus_of_all_machines() {
    let home = Home::new();
    home.file("four.toml", "world_size = 4\nop = \"all_reduce\"\ninputs = [[1], [2], [3], [4]]\n");
    let args: Vec<&str> = ["run", "four.toml", "--verbose"].into_iter().chain(STANDINS).collect();
    let ended = run(&home, 4, &args, two_gpus(2));
    assert!(ended.out[0].contains("1 passed"), "{:?} {:?}", ended.out, ended.err);
    let ended = run(&home, 4, &args, two_gpus(1));
    let words = "needs 4 GPUs, one for each rank; there are 2; with --ranks-per-gpu 2 (or auto) ranks share them";
    assert!(ended.out[0].contains(words), "{:?} {:?}", ended.out, ended.err);
    let shared: Vec<&str> = args.iter().copied().chain(["--ranks-per-gpu", "2"]).collect();
    let ended = run(&home, 4, &shared, two_gpus(1));
    assert!(ended.out[0].contains("1 passed"), "{:?} {:?}", ended.out, ended.err);
}

#[test]
fn processes_with_other_libraries_are_refused_and_both_are_named() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let meeting = format!("127.0.0.1:{}", port());
    let args: Vec<&str> = ["run", "sum.toml"].into_iter().chain(STANDINS).collect();
    let ended = run(&home, 2, &args, |rank, command| {
        if rank == 1 {
            *command = home.command(&["run", "sum.toml", "--backend", "soft"]);
            command.env("COLLSPEC_RANK", "1").env("COLLSPEC_SIZE", "2").env("COLLSPEC_LOCAL_RANK", "1");
        }
        command.env("COLLSPEC_MEETING", &meeting);
    });
    assert_eq!(ended.codes, [2, 2], "{:?}", ended.err);
    for err in &ended.err {
        assert!(err.contains("would run NCCL ") && err.contains("the backend soft: all must have"), "{err}");
    }
}

#[test]
fn libraries_are_timed_and_compared_on_all_processes() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let on_machines = |rank: u32, command: &mut Command| {
        command.env("NCCL_HOSTID", format!("m{rank}"));
    };
    let args = ["bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "0", "--samples", "1"];
    let ended = run(&home, 3, &args, on_machines);
    assert_eq!(ended.codes, [0; 3], "{:?} {:?}", ended.out, ended.err);
    assert!(ended.out[0].contains("# all_reduce, 3 ranks"), "{:?}", ended.out);
    assert!(ended.out[0].contains("# Out of bounds values : 0 OK"), "{:?}", ended.out);
    let args = ["compare", "--base", "soft", "--candidate", "soft fault=F02", "sum.toml", "--no-footprint"];
    let args: Vec<&str> = args.into_iter().chain(["--starts", "0", "--repeats", "0"]).collect();
    let ended = run(&home, 2, &args, on_machines);
    assert_eq!(ended.codes, [1; 2], "{:?} {:?}", ended.out, ended.err);
    assert!(ended.err[0].contains("2 processes on 2 machines"), "{:?}", ended.err);
    assert!(ended.out[0].contains("now wrong: 1 case"), "{:?}", ended.out);
    assert_eq!((ended.out[1].as_str(), ended.err[1].as_str()), ("", ""));
}

#[test]
fn variables_of_the_leader_are_carried_to_the_others() {
    let home = Home::new();
    home.file("long.toml", LONG);
    let job = Job::start(&home, 2, &["run", "long.toml"], |rank, command| {
        if rank == 0 {
            command.env("NCCL_ALGO", "Tree");
        }
    });
    let member = job.children[1].0.id();
    wait_until("the other process's worker has the variable", || {
        let environment = |pid: i32| fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        children(member)
            .into_iter()
            .any(|pid| environment(pid).split(|byte| *byte == 0).any(|one| one == b"NCCL_ALGO=Tree"))
    });
    for (child, _) in &job.children {
        Process::find(child.id().cast_signed()).unwrap().signal(rustix::process::Signal::KILL);
    }
    job.end(&home);
}

#[test]
fn strangers_at_the_port_disturb_nobody() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let meeting = format!("127.0.0.1:{}", port());
    let start = |rank: u32| {
        let mut command = home.command(&["run", "sum.toml"]);
        command.env("COLLSPEC_RANK", rank.to_string()).env("COLLSPEC_SIZE", "2").env("COLLSPEC_MEETING", &meeting);
        command.env("COLLSPEC_LOCAL_RANK", rank.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let leader = start(0);
    let mut stranger = None;
    wait_until("the leader listens", || {
        stranger = TcpStream::connect(&meeting).ok();
        stranger.is_some()
    });
    let mut stranger = stranger.unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let silent = TcpStream::connect(&meeting).unwrap();
    let mut long = TcpStream::connect(&meeting).unwrap();
    long.write_all(&[255; 64]).unwrap();
    let member = start(1);
    let (leader, member) = (leader.wait_with_output().unwrap(), member.wait_with_output().unwrap());
    assert_eq!((leader.status.code(), member.status.code()), (Some(0), Some(0)), "{leader:?}");
    let mut left = Vec::new();
    let _ = stranger.read_to_end(&mut left);
    assert!(left.is_empty(), "a stranger is told nothing");
    drop((silent, long));
}

#[test]
fn idle_connections_keep_no_process_out() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let meeting = format!("127.0.0.1:{}", port());
    let start = |rank: u32| {
        let mut command = home.command(&["run", "sum.toml", "--meeting-timeout", "60"]);
        command.env("COLLSPEC_RANK", rank.to_string()).env("COLLSPEC_SIZE", "2").env("COLLSPEC_MEETING", &meeting);
        command.env("COLLSPEC_LOCAL_RANK", rank.to_string()).env("COLLSPEC_SECRET", "9f86d081884c7d659a2feaa0c55ad015");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let leader = start(0);
    let mut idle = Vec::new();
    wait_until("the leader listens", || {
        idle.extend(TcpStream::connect(&meeting).ok());
        !idle.is_empty()
    });
    idle.extend((0..300).map(|_| TcpStream::connect(&meeting).unwrap()));
    let member = start(1);
    let (leader, member) = (leader.wait_with_output().unwrap(), member.wait_with_output().unwrap());
    assert_eq!((leader.status.code(), member.status.code()), (Some(0), Some(0)), "{leader:?} {member:?}");
    assert!(String::from_utf8_lossy(&leader.stdout).contains("1 passed"), "{leader:?}");
}

#[test]
fn a_secret_reaches_no_report_and_no_worker() {
    let home = Home::new();
    home.file("long.toml", LONG);
    let mut bench =
        home.command(&["bench", "all_reduce", "-b", "8", "-e", "8", "-n", "1", "--samples", "1", "--format", "json"]);
    const SECRET: &str = "9f86d081884c7d659a2feaa0c55ad015";
    let bench = crate::support::Run::of(bench.env("COLLSPEC_SECRET", SECRET).env("NCCL_ALGO", "Tree"));
    assert!(bench.code == 0 && bench.out.contains("NCCL_ALGO=Tree") && !bench.out.contains(SECRET), "{bench}");
    let job = Job::start(&home, 2, &["run", "long.toml"], |_, command| {
        command.env("COLLSPEC_SECRET", SECRET);
    });
    let environment = |pid: i32| {
        let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    for (process, _) in &job.children {
        let process = process.id();
        // One that is not the worker yet still has this process's own.
        let worker = || children(process).into_iter().map(environment).find(|all| all.contains("COLLSPEC_WORKER="));
        wait_until("the process has a worker", || worker().is_some());
        assert!(!worker().unwrap_or_default().contains(SECRET));
    }
    for (child, _) in &job.children {
        Process::find(child.id().cast_signed()).unwrap().signal(rustix::process::Signal::KILL);
    }
    job.end(&home);
}

#[test]
fn a_recorded_run_is_needed_by_the_leading_process_alone() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let record = ["run", "sum.toml", "--record", "base.jsonl", "--no-footprint"];
    assert_eq!(run(&home, 2, &record, |_, _| {}).codes, [0; 2]);
    let elsewhere = Home::new();
    let member_elsewhere = |rank: u32, command: &mut Command| {
        command.env("NCCL_HOSTID", format!("m{rank}"));
        if rank == 1 {
            command.current_dir(elsewhere.path(""));
        }
    };
    let compare = |base: &str, candidate: &str| {
        let args = ["compare", "--base", base, "--candidate", candidate, "sum.toml", "--no-footprint"];
        let args: Vec<&str> = args.into_iter().chain(["--starts", "0", "--repeats", "0"]).collect();
        run(&home, 2, &args, member_elsewhere)
    };
    for (base, candidate) in [("base.jsonl", "soft"), ("soft", "base.jsonl")] {
        let ended = compare(base, candidate);
        assert_eq!(ended.codes, [0; 2], "{:?} {:?}", ended.out, ended.err);
        assert_eq!((ended.out[1].as_str(), ended.err[1].as_str()), ("", ""));
    }
    // One that only another process has is of no use.
    fs::rename(home.path("base.jsonl"), elsewhere.path("base.jsonl")).unwrap();
    let ended = compare("base.jsonl", "soft");
    assert_eq!(ended.codes, [2; 2], "{:?} {:?}", ended.out, ended.err);
    let words = "rank 0 on m0 cannot run what rank 1 on m1 can: `base.jsonl` (there is no such file)";
    assert!(ended.err.iter().all(|err| err.contains(words)), "{:?}", ended.err);
}

#[test]
#[ignore = "slow"]
fn commands_of_one_process_refuse_to_be_several() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    home.file("wrong.toml", WRONG);
    let soak: &[&str] = &["soak", "--programs", "1", "--output", "made"];
    let gate: &[&str] = &["gate", "soft", "soft", "sum.toml", "--reports", "made"];
    let (audit, minimize) = (["audit", "sum.toml", "--output", "made"], ["minimize", "wrong.toml", "--output", "made"]);
    let commands = [soak, gate, &audit, &minimize];
    for args in commands {
        let ended = run(&home, 3, args, |_, _| {});
        assert_eq!(ended.codes, [2; 3], "{args:?} {:?}", ended.err);
        let words = format!("`collspec {}` runs in one process, and variables has started 3", args[0]);
        assert!(ended.err[0].contains(&words), "{:?}", ended.err);
        assert_eq!(ended.out, ["", "", ""]);
        assert_eq!(ended.err[1..], ["", ""], "one of them says it");
        assert!(!home.path("made").exists(), "{args:?}");
    }
    // Where the processes cannot meet, each says it.
    let mut lonely = home.command(soak);
    lonely.env("OMPI_COMM_WORLD_RANK", "1").env("OMPI_COMM_WORLD_SIZE", "4").env("OMPI_COMM_WORLD_LOCAL_RANK", "1");
    let refused = crate::support::Run::of(&mut lonely);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.err.contains("runs in one process, and openmpi has started 4"), "{refused}");
    // One whose others do not exist says it as well, whether it would lead or not. They wait for the others, both at once.
    std::thread::scope(|scope| {
        for rank in ["0", "1"] {
            let mut left_over = home.command(soak);
            left_over.env("RANK", rank).env("WORLD_SIZE", "8").env("LOCAL_RANK", rank);
            left_over.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port().to_string());
            scope.spawn(move || {
                let refused = crate::support::Run::of(&mut left_over);
                assert_eq!(refused.code, 2, "{refused}");
                assert!(refused.err.contains("runs in one process, and torchrun has started 8"), "{refused}");
                assert!(refused.err.contains("`--launcher none` says"), "{refused}");
            });
        }
    });
    let mut alone = home.command(&[soak, &["--launcher", "none"]].concat());
    alone.env("COLLSPEC_RANK", "1").env("COLLSPEC_SIZE", "4");
    assert_eq!(crate::support::Run::of(&mut alone).code, 0);
}

#[test]
fn launchers_that_contradict_each_other_are_an_error_that_lists_them() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let both = |command: &mut Command| {
        command.env("OMPI_COMM_WORLD_RANK", "3").env("OMPI_COMM_WORLD_SIZE", "8");
        command.env("PMI_RANK", "0").env("PMI_SIZE", "8");
    };
    let mut command = home.command(&["run", "sum.toml"]);
    both(&mut command);
    let run = crate::support::Run::of(&mut command);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("openmpi says rank 3 of 8, hydra says rank 0 of 8"), "{}", run.err);
    let mut command = home.command(&["run", "sum.toml", "--launcher", "none"]);
    both(&mut command);
    assert_eq!(crate::support::Run::of(&mut command).code, 0);
    let mut command = home.command(&["doctor"]);
    both(&mut command);
    assert!(crate::support::Run::of(&mut command).out.contains("contradict each other"));
    let mut command = home.command(&["doctor"]);
    command.env("OMPI_COMM_WORLD_RANK", "3").env("OMPI_COMM_WORLD_SIZE", "8");
    let doctor = crate::support::Run::of(&mut command).out;
    assert!(doctor.contains("openmpi: this process is rank 3 of 8; they cannot meet: openmpi gives"), "{doctor}");
}
