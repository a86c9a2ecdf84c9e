//! Real libraries on software GPUs, as far as no library has to be fetched: what cannot run there is refused before a case runs.
use crate::support::real::newest_real;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const SCENARIO: &str = "world_size = 2\nop = \"all_reduce\"\ninputs = [[1], [2]]\nexpect = [[3], [3]]\n";
const LIBRARY: &str = "int ncclGetVersion(int *v) { *v = 22809; return 0; }";

/// A folder with a scenario, and a library from these lines of C; `None`, with the reason, where there is no compiler.
fn folder(source: &str) -> Option<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("sum.toml"), SCENARIO).unwrap();
    std::fs::write(folder.path().join("a.c"), source).unwrap();
    let library = folder.path().join("libnccl.so.2");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-w", "-o"]).arg(&library).arg(folder.path().join("a.c"));
    match cc.output() {
        Ok(answer) if answer.status.success() => Some((folder, library)),
        _ => {
            eprintln!("skipped: there is no C compiler (cc) to build a small library with");
            None
        }
    }
}

fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
    command.arg("run").arg(folder.join("sum.toml")).args(arguments).env_remove("LD_LIBRARY_PATH");
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

#[test]
fn a_library_that_software_gpus_cannot_serve_is_refused_before_a_case_runs() {
    let Some((folder, library)) = folder(LIBRARY) else { return };
    let (code, words) = run(folder.path(), &["--driver", "software", "--nccl", library.to_str().unwrap()]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("cannot run on software GPUs: the CUDA runtime is not linked into it"), "{words}");

    let stripped = Command::new("strip").arg(&library).status();
    if stripped.is_ok_and(|status| status.success()) {
        let (code, words) = run(folder.path(), &["--driver", "software", "--nccl", library.to_str().unwrap()]);
        assert!(code == Some(3) && words.contains("it is stripped"), "{words}");
    }
}

#[test]
fn software_gpus_never_count_as_gpus() {
    let Some((folder, library)) = folder(LIBRARY) else { return };
    let library = library.to_str().unwrap();
    let (code, words) = run(folder.path(), &["--driver", "software", "--nccl", library, "--require", "nccl"]);
    assert!(code == Some(3) && words.contains("software GPUs are not GPUs"), "{words}");
    let (code, words) = run(folder.path(), &["--backend", "soft", "--require", "nccl-software"]);
    assert!(code == Some(3) && words.contains("the backend soft was asked for"), "{words}");
    let (code, words) = run(folder.path(), &["--require", "software"]);
    assert!(code == Some(2) && words.contains("nccl-software"), "{words}");
}

/// With COLLSPEC_TEST_NCCL_LIBRARIES: where a device gets no open file, the library is not blamed for it.
#[test]
fn what_the_system_refuses_is_no_failure_of_the_library() {
    let Some(library) = newest_real() else { return };
    let (folder, none) = (tempfile::tempdir().unwrap(), std::env::temp_dir().join("no cache"));
    std::fs::write(folder.path().join("sum.toml"), SCENARIO).unwrap();
    for files in [40, 64, 1024] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n $0; exec \"$@\"", &files.to_string(), env!("CARGO_BIN_EXE_collspec"), "run"]);
        command.arg(folder.path().join("sum.toml")).args(["--driver", "software", "--nccl"]).arg(&library);
        let output = command.env("XDG_CACHE_HOME", &none).output().unwrap();
        let words = String::from_utf8_lossy(&output.stdout);
        let told = words.contains("NOT RUN") && words.contains("Too many open files");
        let right = if files == 1024 { output.status.success() } else { told && output.status.code() == Some(2) };
        assert!(right, "{files} files: {words}");
    }
}

/// With COLLSPEC_TEST_NCCL_LIBRARIES: the counts of two runs, one of them beside other work, are equal to the last digit.
#[test]
fn counts_of_a_real_library_are_equal_in_every_run() {
    let Some(library) = newest_real() else { return };
    let bench = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
        command.args(["bench", "all_reduce", "-b", "1K", "-e", "64K", "-f", "64", "-g", "2", "--driver", "software"]);
        command.arg("--nccl").arg(&library).args(more);
        command
    };
    let mut beside = bench(&["--samples", "3"]).stdout(std::process::Stdio::null()).spawn().unwrap();
    let counted = |output: Output| {
        let text = String::from_utf8(output.stdout).unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("counts of software GPUs"), "{text}{words}");
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    let first = counted(bench(&[]).output().unwrap());
    assert!(beside.wait().unwrap().success());
    assert_eq!(counted(bench(&["--samples", "2"]).output().unwrap()), first);
    assert!(first.len() == 2 && !first.iter().any(|line| line.contains("N/A")), "{first:?}");
}

/// With COLLSPEC_TEST_NCCL_LIBRARIES: a hang of kernels is proved long before the time limit.
#[test]
fn a_hang_of_kernels_says_which_rank_waits_for_which() {
    let Some(library) = newest_real() else { return };
    let folder = tempfile::tempdir().unwrap();
    let hang = |world_size: usize, steps: &str| {
        let scenario = format!(
            "world_size = {world_size}\ntimeout = 500\noutcome = \"hang\"\ninputs.x = {{ each = \"rank\", count = 8 }}\nsteps = [\n{steps}\n]\n"
        );
        std::fs::write(folder.path().join("sum.toml"), scenario).unwrap();
        let arguments = ["--driver", "software", "--nccl", library.to_str().unwrap(), "--format", "jsonl"];
        let (code, words) = run(folder.path(), &arguments);
        assert_eq!(code, Some(0), "{words}");
        words
    };
    let words = hang(
        3,
        "{ op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"all_reduce\", in = \"x\", out = \"z\", ranks = [0, 2] },",
    );
    for part in ["no kernel on the software GPUs moves:", "waits for rank 1", "rank 1 runs no kernel"] {
        assert!(words.contains(part), "{words}");
    }
    // Several blocks, each of which polls memory of another peer.
    let receive = |peer: usize| {
        format!("{{ op = \"recv\", ranks = [0], peer = {peer}, count = 2, dtype = \"i32\", out = \"r{peer}\" }},")
    };
    let group = format!("{{ op = \"group\", steps = [ {}{}{} ] }},", receive(1), receive(2), receive(3));
    let words = hang(4, &format!("{{ op = \"all_to_all\", in = \"x\", out = \"y\" }},\n{group}"));
    assert!(words.contains("rank 0 waits for rank 1, rank 2 and rank 3"), "{words}");
}
