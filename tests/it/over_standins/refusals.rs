//! Libraries and drivers that cannot be used, at all or for a case, are named with the reason before anything runs.
use super::{command, driver, library, run};
use crate::support::{Home, Run, SUM};
use collspec_run::library::standin;
use std::os::unix::fs::symlink;
use std::process::Command;

#[test]
fn a_field_that_the_library_does_not_know_yet_is_a_skip() {
    let home = Home::new();
    home.file("new.toml", &format!("{SUM}config = {{ minCTAs = 1, commName = \"x\" }}\n"));
    let run =
        |version: &str| run(&home, 2, &library(&home, version, &format!("version={version}")), &["run", "new.toml"]);
    let old = run("22605");
    let words = "needs the configuration's commName (since NCCL 2.27); this is 2.26.5";
    assert!(old.code == 0 && old.out.contains(words) && old.out.contains("1 skipped"), "{old}");
    let new = run("22705");
    assert!(new.code == 0 && new.out.contains("1 passed"), "{new}");
}

#[test]
fn what_is_no_file_is_not_opened() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    assert!(Command::new("mkfifo").arg(home.path("pipe")).status().unwrap().success());
    for name in ["pipe", "."] {
        let run = run(&home, 2, &home.path(name), &["run", "sum.toml"]);
        assert!(run.code == 3 && run.err.contains("it is not a regular file"), "{run}");
    }
}

#[test]
fn without_a_folder_for_lock_files_nothing_runs() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/more.toml", SUM);
    let mut command = command(&home, 2, &standin::library().unwrap(), &["run"]);
    command.env("COLLSPEC_STANDIN_EXCLUSIVE", "1");
    let run = Run::of(command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", home.path("nowhere")));
    let words = "cannot use the folder for the lock files of the GPUs";
    assert!(run.code == 2 && run.err.matches(words).count() == 1 && !run.out.contains(words), "{run}");
    assert!(run.err.contains("/nowhere: No such file"), "{run}");
}

#[test]
fn a_folder_that_would_leave_the_machines_own_driver_in_place_is_refused() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    home.file("empty/text", "");
    home.file("with:colon/text", "");
    home.file("half/text", "");
    for name in ["libcuda.so.1", "libcuda.so"] {
        symlink(driver().join(name), home.path("with:colon").join(name)).unwrap();
    }
    symlink(driver().join("libcuda.so.1"), home.path("half/libcuda.so.1")).unwrap();
    home.file("script/libcuda.so.1", "INPUT(libcuda.so)");
    home.file("other/text", "");
    symlink(standin::library().unwrap(), home.path("other/libcuda.so.1")).unwrap();
    for folder in ["script", "other"] {
        symlink(driver().join("libcuda.so"), home.path(folder).join("libcuda.so")).unwrap();
    }
    for (folder, words) in [
        ("empty", "there is no libcuda.so.1"),
        ("half", "there is no libcuda.so,"),
        ("script", "script/libcuda.so.1 is not a CUDA driver: it is not a library (not an ELF file)"),
        ("other", "other/libcuda.so.1 is not a CUDA driver: it is a library without cuInit"),
        ("with:colon", "without : and ;"),
        ("nowhere", "there is no such folder"),
    ] {
        let library = standin::library().unwrap();
        let mut command = home.command(&["run", "sum.toml", "--driver", folder, "--nccl"]);
        let run = Run::of(command.arg(library).env("XDG_RUNTIME_DIR", home.path(".")));
        assert!(run.code == 3 && run.err.contains(words), "{folder}: {run}");
    }
}
