//! `collspec nccl` on a machine whose libraries are made here: small ones compiled from C, and files that are not libraries.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;

struct Machine(TempDir);

impl Machine {
    /// `None`, with the reason on standard error, where there is no C compiler.
    fn new() -> Option<Self> {
        match Command::new("cc").arg("--version").output() {
            Ok(answer) if answer.status.success() => Some(Self(tempfile::tempdir().unwrap())),
            _ => {
                eprintln!("skipped: there is no C compiler (cc) to build small libraries with");
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn library(&self, folder: &str, source: &str) -> PathBuf {
        let c = self.file(&format!("{folder}/a.c"), source);
        let path = self.path(folder).join("libnccl.so.2");
        let done = Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).args([&path, &c]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        path
    }

    /// collspec where the libraries of `folders` are the loader's, and nothing is fetched.
    fn collspec(&self, args: &[&str], folders: &[&Path]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
        let folders: Vec<_> = folders.iter().map(|file| file.parent().unwrap()).collect();
        command.args(args).env("LD_LIBRARY_PATH", std::env::join_paths(folders).unwrap());
        command.env("XDG_CACHE_HOME", self.path("cache")).env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX");
        command.output().unwrap()
    }
}

const GOOD: &str = "int ncclGetVersion(int *v) { *v = 22809; return 0; } int ncclAlltoAll(void) { return 0; }";

/// Of the two lines of a list about a library: its version, and the remark on it.
fn entry<'a>(list: &'a str, path: &Path) -> (&'a str, &'a str) {
    let mut lines = list.lines();
    let path = path.display().to_string();
    let head = lines.find(|line| line.ends_with(&path)).unwrap_or_else(|| panic!("no {path} in\n{list}"));
    (head.split(' ').next().unwrap(), lines.next().unwrap().trim())
}

#[test]
fn libraries_are_listed_and_bad_ones_do_no_harm() {
    let Some(machine) = Machine::new() else { return };
    let good = machine.library("good", GOOD);
    let loud = machine.library("loud", &format!("int puts(const char *);\nvoid __attribute__((constructor)) f(void) {{ puts(\"collspec-probe:{{}}\"); }}\n{GOOD}"));
    let crash = machine.library("crash", "int ncclGetVersion(int *v) { *(volatile int *)0 = 1; return 0; }");
    let leave = machine.library(
        "leave",
        &format!("void _exit(int);\nvoid __attribute__((constructor)) f(void) {{ _exit(0); }}\n{GOOD}"),
    );
    let text = machine.file("text/libnccl.so.2", "no library");
    let old = machine.library("old", "int ncclGetVersion(int *v) { *v = 2408; return 0; }");
    let answer = machine.collspec(&["nccl", "list"], &[&good, &loud, &crash, &leave, &text, &old]);
    let list = String::from_utf8(answer.stdout).unwrap();
    assert_eq!(answer.status.code(), Some(0), "{}", String::from_utf8_lossy(&answer.stderr));
    for path in [&good, &loud] {
        let (version, remark) = entry(&list, path);
        assert_eq!(version, "2.28.9", "{list}");
        assert!(remark.starts_with("LD_LIBRARY_PATH; it lacks ") && !remark.contains("ncclAlltoAll"), "{remark}");
        assert!(remark.contains("2.0 ncclGetUniqueId, ncclCommInitRank, "), "{remark}");
    }
    for (path, words) in [
        (&crash, "opening it ends the process: signal 11"),
        (&leave, "opening it ends the process: exit status 0"),
        (&text, "cannot be loaded"),
        (&old, "is NCCL 2.4.8, too old: collspec works with 2.13.0 and later"),
    ] {
        let (version, remark) = entry(&list, path);
        assert!(version == "unusable" && remark.contains(words), "{remark}");
    }
}

#[test]
fn doctor_looks_at_the_library_that_is_named_where_there_is_no_driver() {
    let Some(machine) = Machine::new() else { return };
    let good = machine.library("good", GOOD);
    let text = machine.file("text/libnccl.so.2", "no library");
    let nowhere = machine.file("driver/none", "");
    let doctor = |library: &Path| {
        let driver = nowhere.parent().unwrap().display().to_string();
        let answer = machine.collspec(&["doctor", "--driver", &driver, "--nccl", &library.display().to_string()], &[]);
        let printed = String::from_utf8(answer.stdout).unwrap();
        printed.lines().find(|line| line.starts_with("--nccl ")).unwrap_or_else(|| panic!("{printed}")).to_owned()
    };
    assert!(doctor(&good).starts_with(&format!("--nccl     2.28.9 {}", good.display())), "{}", doctor(&good));
    assert!(doctor(&text).starts_with(&format!("--nccl     unusable: {}", text.display())), "{}", doctor(&text));
}

#[test]
fn where_there_is_no_library_one_can_be_fetched() {
    let Some(machine) = Machine::new() else { return };
    for command in [&["doctor"][..], &["nccl", "list"]] {
        let printed = String::from_utf8(machine.collspec(command, &[]).stdout).unwrap();
        // A machine may have a library where the system keeps them.
        let none = printed.contains("none was found") || printed.contains("no NCCL library was found");
        assert_eq!(none, printed.contains("`collspec nccl fetch 2.32.3` gets one"), "{printed}");
    }
}

#[test]
#[ignore = "slow"]
fn a_library_that_never_opens_is_given_up() {
    let Some(machine) = Machine::new() else { return };
    let stuck = machine.library(
        "stuck",
        &format!("int pause(void);\nvoid __attribute__((constructor)) f(void) {{ for (;;) pause(); }}\n{GOOD}"),
    );
    let workers = collspec::Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    let error = collspec_run::library::probe_within(Duration::from_secs(1), &stuck, &workers).unwrap_err();
    assert_eq!(error.to_string(), "opening it takes more than 1 s");
}

#[test]
fn a_library_is_chosen_by_path_or_version() {
    use collspec::Workers;
    use collspec_run::library::{ChooseError, ProbeError, choose, probe};
    let Some(machine) = Machine::new() else { return };
    let good = machine.library("good", GOOD);
    let workers = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    let chosen = choose(&good.display().to_string(), &workers).unwrap();
    assert_eq!((chosen.path, chosen.probed.version), (good.clone(), 22809));
    assert_eq!(chosen.probed.symbols, ["ncclGetVersion", "ncclAlltoAll"]);
    let none = choose("9.87.65", &workers).unwrap_err();
    assert!(matches!(&none, ChooseError::NoSuchVersion { .. }), "{none}");
    assert!(none.to_string().contains("`collspec nccl fetch 9.87.65` gets one"), "{none}");
    // A program that knows nothing of this is not taken for an answer.
    let error = probe(&good, &Workers::Command("/bin/true".into())).unwrap_err();
    assert!(matches!(error, ProbeError::NotAsked(_)), "{error}");
}

#[test]
fn what_cannot_be_fetched_is_said_and_leaves_nothing() {
    let Some(machine) = Machine::new() else { return };
    let answer = machine.collspec(&["nccl", "fetch", "--", "--pre"], &[]);
    assert_eq!(answer.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&answer.stderr).contains("a version like 2.30.7"), "{answer:?}");

    let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
    command
        .args(["nccl", "fetch", "2.30.7"])
        .env("XDG_CACHE_HOME", machine.path("cache"))
        .env("PATH", "/no/such/folder");
    let answer = command.output().unwrap();
    assert_eq!(answer.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&answer.stderr).contains("needs pip or uv, and neither is installed"),
        "{answer:?}"
    );

    // A tool that delivers something else than it should.
    let wheel = "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n\
                 while [ \"$1\" != --dest ]; do shift; done\n/bin/mkdir -p \"$2\" && echo nonsense > \"$2/a.whl\"\n";
    let pip = machine.file("bin/pip3", wheel);
    fs::set_permissions(&pip, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
    command
        .args(["nccl", "fetch", "2.30.7"])
        .env("XDG_CACHE_HOME", machine.path("cache"))
        .env("PATH", machine.path("bin"));
    let answer = command.output().unwrap();
    assert_eq!(answer.status.code(), Some(2), "{answer:?}");
    assert!(String::from_utf8_lossy(&answer.stderr).contains("a.whl"), "{answer:?}");
    let left: Vec<_> = fs::read_dir(machine.path("cache/collspec/nccl")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A `uv` that unpacks a wheel with this library.
fn uv_with(machine: &Machine, library: &Path) {
    use sha2::{Digest, Sha256};
    let bytes = fs::read(library).unwrap();
    let hash = Sha256::digest(&bytes);
    let record = format!("nvidia/nccl/lib/libnccl.so.2,sha256={},{}\n", base64_for_files(&hash), bytes.len());
    let record = machine.file("RECORD", &record);
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\nwhile [ \"$1\" != --target ]; do shift; done\n\
         /bin/mkdir -p \"$2/nvidia/nccl/lib\" \"$2/nvidia_nccl_cu12-2.30.7.dist-info\"\n\
         /bin/cp {} \"$2/nvidia/nccl/lib/libnccl.so.2\"\n/bin/cp {} \"$2/nvidia_nccl_cu12-2.30.7.dist-info/RECORD\"\n",
        library.display(),
        record.display()
    );
    tool(machine, "uv", &script);
}

fn tool(machine: &Machine, name: &str, script: &str) {
    let tool = machine.file(&format!("bin/{name}"), script);
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

fn base64_for_files(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect::<Vec<_>>();
    let digit = |six: &[u8]| {
        let value = (0..6).fold(0, |value, at| value << 1 | six.get(at).copied().unwrap_or(0));
        char::from(DIGITS[usize::from(value)])
    };
    bits.chunks(6).map(digit).collect()
}

fn fetch(machine: &Machine) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
    command.args(["nccl", "fetch", "2.30.7"]).env("XDG_CACHE_HOME", machine.path("cache"));
    command.env("PATH", machine.path("bin"));
    command
}

#[test]
fn what_is_fetched_is_an_nccl_and_none_of_its_code_runs() {
    let Some(machine) = Machine::new() else { return };
    let ran = machine.path("ran");
    let constructor = format!(
        "#include <stdlib.h>\n__attribute__((constructor)) static void run(void) {{ system(\"/bin/touch {}\"); }}\n",
        ran.display()
    );
    uv_with(&machine, &machine.library("none", &constructor));
    let answer = fetch(&machine).output().unwrap();
    let words = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert_eq!(answer.status.code(), Some(2), "{words}");
    assert!(words.contains("is a library, but not NCCL: it has no ncclGetVersion"), "{words}");
    let left: Vec<_> = fs::read_dir(machine.path("cache/collspec/nccl")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    uv_with(&machine, &machine.library("good", &format!("{constructor}{GOOD}")));
    for again in [false, true] {
        let answer = fetch(&machine).output().unwrap();
        let words = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert_eq!(answer.status.code(), Some(0), "{words}");
        assert!(
            words.contains("collspec: NCCL 2.30.7; it lacks") && words.contains("fetched before") == again,
            "{words}"
        );
    }
    assert!(!ran.exists(), "the library was opened");
}

#[test]
fn what_software_gpus_cannot_run_is_not_slimmed() {
    let Some(machine) = Machine::new() else { return };
    uv_with(&machine, &machine.library("good", GOOD));
    let answer = fetch(&machine).arg("--slim").output().unwrap();
    let words = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert_eq!(answer.status.code(), Some(2), "{words}");
    assert!(words.contains("it cannot be slimmed, because it cannot run on software GPUs: "), "{words}");
    let left: Vec<_> = fs::read_dir(machine.path("cache/collspec/nccl")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_fetch_removes_what_a_killed_one_has_left_and_leaves_others_alone() {
    let Some(machine) = Machine::new() else { return };
    let (started, go) = (machine.path("started"), machine.path("go"));
    uv_with(&machine, &machine.library("good", GOOD));
    let install = machine.path("bin/uv");
    fs::rename(&install, machine.path("bin/install")).unwrap();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho $$ >> {}\nwhile [ ! -e {} ]; do /bin/sleep 0.05; done\nexec {} \"$@\"\n",
        started.display(),
        go.display(),
        machine.path("bin/install").display()
    );
    tool(&machine, "uv", &script);
    let spawn =
        || fetch(&machine).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let number = |count: usize| fs::read_to_string(&started).is_ok_and(|text| text.lines().count() >= count);
    let folders = || {
        let entries = fs::read_dir(machine.path("cache/collspec/nccl")).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(".fetch-")).collect::<std::collections::BTreeSet<_>>()
    };
    let mut killed = spawn();
    crate::support::processes::wait_until("the first has started", || number(1));
    let left = folders();
    killed.kill().unwrap();
    killed.wait().unwrap();
    // The tool goes on alone.
    let tool = fs::read_to_string(&started).unwrap().trim().parse().unwrap();
    crate::support::processes::Process::find(tool).unwrap().signal(rustix::process::Signal::KILL);
    let mut both = [spawn(), spawn()];
    crate::support::processes::wait_until("both others have started", || number(3));
    let now = folders();
    assert!(now.len() == 2 && now.is_disjoint(&left), "{left:?} {now:?}");
    fs::write(&go, "").unwrap();
    for run in &mut both {
        assert_eq!(crate::support::processes::end_of(run).code(), Some(0));
    }
    assert!(folders().is_empty());
    assert!(machine.path("cache/collspec/nccl/2.30.7/libnccl.so.2").is_file());
}

#[test]
fn a_fetch_that_is_interrupted_leaves_nothing() {
    let Some(machine) = Machine::new() else { return };
    let started = machine.path("started");
    let script =
        format!("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho x > {}\nexec /bin/sleep 600\n", started.display());
    tool(&machine, "uv", &script);
    let mut run =
        fetch(&machine).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    crate::support::processes::wait_until("the tool has started", || started.exists());
    let process = crate::support::processes::Process::find(run.id().cast_signed()).unwrap();
    process.signal(rustix::process::Signal::INT);
    assert_eq!(crate::support::processes::end_of(&mut run).code(), Some(130));
    let left: Vec<_> = fs::read_dir(machine.path("cache/collspec/nccl")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
