//! Untrusted files, folders, variables and libraries: limits on what they can make this program do and print.

use crate::support::{Home, Run, SUM, WRONG};
use collspec_core::judge::{Finding, Lane, Status, Subject, skipped};
use collspec_core::printable::is_printable;
use collspec_core::scenario::{SourceFile, Span, parse};
use collspec_suite::report::Event;
use collspec_suite::report::{
    HumanReporter, InheritedVariables, JsonLinesReporter, Reporter, RerunCommand, RunFacts, Styles,
};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

/// A sequence that hides the rest of the output on a terminal.
const HIDING: &str = "\u{1b}[8m\u{1b}]0;t\u{7}\u{8}\u{9b}2J\u{202e}\u{2066}\u{7f}\rx";
/// The same in a TOML text.
const IN_TOML: &str = "\\u001b[8m\\u001b]0;t\\u0007\\b\\u009b2J\\u202e\\u2066\\u007f\\rx";

/// Asserts that there is nothing but text and line breaks, and with `coloured` this program's own colours.
fn assert_clean(text: &str, coloured: bool) {
    assert!(!text.contains("\u{1b}[8m"), "foreign colours: {text:?}");
    let text = if coloured { anstream::adapter::strip_str(text).to_string() } else { text.to_owned() };
    let raw: Vec<char> = text.chars().filter(|c| *c != '\n' && !is_printable(*c)).collect();
    assert!(raw.is_empty(), "{raw:?} in {text:?}");
}

/// Runs the command in every format; every output must be clean. Returns the plain human one.
fn run_in_every_format(home: &Home, args: &[&str]) -> Run {
    let run = home.run(args);
    assert_clean(&run.out, false);
    assert_clean(&run.err, false);
    let coloured = Run::of(home.command(args).env("CLICOLOR_FORCE", "1"));
    assert_clean(&coloured.out, true);
    assert_clean(&coloured.err, true);
    if args[0] == "run" {
        for format in ["human", "jsonl", "junit", "github", "html"] {
            let args = [args, &["--format", format, "--verbose", "--output", "report"]].concat();
            let run = home.run(&args);
            assert_clean(&run.err, false);
            assert_clean(&fs::read_to_string(home.path("report")).unwrap_or_default(), false);
        }
    }
    run
}

#[test]
#[ignore = "slow"]
fn what_a_file_says_is_shown_and_not_obeyed() {
    let home = Home::new();
    let texts = [
        // A valid file whose case fails: the failing line is shown.
        format!("{WRONG}# {}\n", HIDING.replace(['\u{1b}', '\u{7}', '\u{8}', '\u{7f}', '\r'], "")),
        WRONG.replace("expect", &format!("description = \"{IN_TOML}\"\nsource = \"{IN_TOML}\"\nexpect")),
        WRONG.replace(
            "expect = [[4, 6], [4, 7]]",
            &format!("expect = [[4, 6], [4, 7]] # \u{9b}2J \u{202e}{}", "x".repeat(500_000)),
        ),
        format!("variants.a = {{ tags = [\"{IN_TOML}\"] }}\n{WRONG}"),
        format!("{SUM}outcome = \"error\"\nreason = \"{IN_TOML}\"\n"),
        format!("{SUM}requires.nccl = \"{IN_TOML}\"\n"),
        // refused
        format!("{SUM}x = \"{HIDING}\"\n"),
        format!("{SUM}dtype = \"{IN_TOML}\"\n"),
        format!("{SUM}reduce = \"{IN_TOML}\"\n"),
        format!("{SUM}comm = \"{IN_TOML}\"\n"),
        format!("{SUM}stream = \"{IN_TOML}\"\nassert = [\"{IN_TOML}\"]\n"),
        format!("{SUM}\"{IN_TOML}\" = 1\n"),
        format!("{SUM}env.\"NCCL_{IN_TOML}\" = 1\n"),
        format!("{SUM}env.NCCL_ALGO = \"{IN_TOML}\"\n"),
        format!("{SUM}env.NCCL_ALGO = \"\\u001b]0;\"\n"),
        format!("{SUM}matrix.\"env.NCCL_ALGO\" = [\"{IN_TOML}\", \"Ring\"]\n"),
        format!("{SUM}matrix.\"{IN_TOML}\" = [1, 2]\n"),
        format!("{SUM}matrix.k = [1, 2]\nmatrix.exclude = [{{ k = \"{IN_TOML}\" }}]\n"),
        format!("{SUM}variants.\"{IN_TOML}\" = {{}}\n"),
        format!("{SUM}outcome = \"{IN_TOML}\"\n"),
        format!("{SUM}forms = [\"{IN_TOML}\"]\n"),
        format!("{SUM}placement = \"{IN_TOML}\"\n"),
        format!("{SUM}config.\"{IN_TOML}\" = 1\n"),
        SUM.replace("all_reduce", IN_TOML),
        format!(
            "world_size = 2\ninputs.\"{IN_TOML}\" = {{ each = 1, count = 1 }}\nsteps = [{{ op = \"{IN_TOML}\", in = \"{IN_TOML}\", out = \"{IN_TOML}\" }}]\n"
        ),
    ];
    for (number, text) in texts.iter().enumerate() {
        let name = format!("{number}.toml");
        home.file(&name, text);
        let run = run_in_every_format(&home, &["run", &name]);
        assert_ne!(run.code, 0, "{number}: {run}");
        let printed = run.out.len() + run.err.len();
        assert!(printed < 10_000, "{number}: {printed} bytes: {run}");
        run_in_every_format(&home, &["check", &name]);
    }
    // Bytes that are not UTF-8.
    fs::write(home.path("bytes.toml"), b"world_size = 2 # \x1b[8m\xff\xfe").unwrap();
    assert_eq!(run_in_every_format(&home, &["run", "bytes.toml"]).code, 2);
}

#[test]
fn names_arguments_and_variables_are_shown_and_not_obeyed() {
    let home = Home::new();
    let folder = format!("{HIDING}\n0 failed");
    home.file(&format!("{folder}/wrong.toml"), WRONG);
    home.file(&format!("{folder}/faulty.toml"), "world_size = 0\n");
    let run = run_in_every_format(&home, &["run", &format!("{folder}/wrong.toml")]);
    assert_eq!(run.code, 1, "{run}");
    assert!(run.out.contains("run it again: collspec run $'\\033[8m"), "{run}");
    for args in [["run", &folder], ["check", &folder]] {
        assert_eq!(run_in_every_format(&home, &args).code, 2);
    }
    home.file(&format!("named/{HIDING}.toml"), SUM);
    assert_eq!(run_in_every_format(&home, &["run", "named"]).code, 2);
    home.file("sum.toml", SUM);
    for option in
        ["--filter", "--backend", "--nccl", "--driver", "--forms", "--allow-env", "--seed", "--no-such-option"]
    {
        run_in_every_format(&home, &["run", "sum.toml", option, HIDING]);
    }
    run_in_every_format(&home, &[HIDING]);
    home.file("wrong.toml", WRONG);
    for coloured in [false, true] {
        let mut command = home.command(&["run", "wrong.toml"]);
        command.env("NCCL_DEBUG_SUBSYS", HIDING).envs(coloured.then_some(("CLICOLOR_FORCE", "1")));
        let run = Run::of(&mut command);
        assert_eq!(run.code, 1, "{run}");
        assert!(run.err.contains("inherited: NCCL_DEBUG_SUBSYS=$'\\033[8m"), "{run}");
        assert_clean(&run.out, coloured);
        assert_clean(&run.err, coloured);
    }
    // A library with a hostile path, and the loader's message about it.
    home.file(&format!("{HIDING}/libnccl.so.2"), "no library");
    run_in_every_format(
        &home,
        &["run", "sum.toml", "--nccl", &format!("./{HIDING}/libnccl.so.2"), "--driver", "stand-in"],
    );
}

/// A verdict can quote a library's text of an error, its log, and the last output of a worker that died.
#[test]
fn what_a_library_says_is_shown_and_not_obeyed() {
    let file = Arc::new(SourceFile { path: format!("{HIDING}.toml"), text: WRONG.into() });
    let case = Arc::new(parse(&file, HIDING).unwrap_or_else(|error| panic!("{error}")).remove(0));
    let lines = format!("{HIDING}\nPASS nothing is wrong\n{}\n", "y".repeat(4_000_000));
    let finding = Finding {
        lane: Lane::Exact,
        subject: Subject::Lane,
        rank: Some(1),
        other_ranks: vec![2, 3],
        ranks_with_other_values: vec![5],
        buffer: Some(HIDING.into()),
        element: Some(0),
        step: Some(HIDING.into()),
        span: Some(Span { start: 0, end: 5 }),
        expected: lines.clone(),
        actual: lines.clone(),
        wrong: 1,
        wrong_elements: 0,
        of: 2,
        pattern: Some(HIDING.into()),
        text: lines.clone(),
        advice: Some(lines.clone()),
        follows: false,
        consequences: vec![lines.clone(), HIDING.into()],
        rounds: 1,
    };
    let without_rank = Finding { rank: None, ..finding.clone() };
    let mut failed = skipped(&case, lines.clone());
    failed.status = Status::Fail;
    failed.notes = vec![lines.clone(), HIDING.into()];
    failed.findings = vec![finding, without_rank];
    let skip = skipped(&case, lines);
    for (styles, coloured) in [(Styles::plain(), false), (Styles::coloured(), true)] {
        let again = RerunCommand::command_line(Vec::new(), InheritedVariables::default());
        let mut bytes = Vec::new();
        let mut human = HumanReporter::new(&mut bytes, styles, again, true);
        for verdict in [&failed, &skip] {
            human.event(&Event::CaseDone { case: case.clone(), verdict: Box::new(verdict.clone()) }).unwrap();
        }
        human.event(&Event::Finished { seconds: 1.0 }).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_clean(&text, coloured);
        assert!(text.len() < 100_000, "{} bytes", text.len());
        assert!(!text.contains("\nPASS"), "{text}");
    }
    let mut bytes = Vec::new();
    let mut json = JsonLinesReporter::new(&mut bytes, RunFacts::new("soft", "2.30.7"));
    json.event(&Event::CaseDone { case: case.clone(), verdict: Box::new(failed.clone()) }).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert_clean(&text, false);
    assert!(text.len() < 100_000, "{} bytes", text.len());
    let message = collspec_suite::report::failure::failure_message(&case, &failed, "again");
    assert_clean(&message, false);
}

#[test]
fn a_file_cannot_set_what_runs_code_or_touches_files() {
    let home = Home::new();
    let evil = "NCCL_ENV_PLUGIN";
    for (number, (text, place)) in [
        (format!("env.{evil} = \"./x.so\"\n{SUM}"), "1:5"),
        (format!("env = {{ {evil} = [\"./x.so\", \"./y.so\"] }}\nplacement = \"processes\"\n{SUM}"), "1:9"),
        (format!("matrix.\"env.{evil}\" = [\"./x.so\", \"\"]\n{SUM}"), "1:8"),
        (format!("variants.a = {{ env = {{ {evil} = \"./x.so\" }} }}\n{SUM}"), "1:24"),
    ]
    .iter()
    .enumerate()
    {
        let name = format!("{number}.toml");
        home.file(&name, text);
        for verb in ["check", "run", "audit"] {
            let run = home.run(&[verb, &name]);
            assert_eq!(run.code, 2, "{verb}: {run}");
            assert!(run.err.contains(&format!("`{evil}` cannot be set")), "{run}");
            assert!(run.err.contains(&format!("--> {name}:{place}\n")), "{run}");
            assert!(run.err.contains(&format!("`--allow-env {evil}`")), "{run}");
        }
        let allowed = home.run(&["check", &name, "--allow-env", evil]);
        assert_eq!(allowed.code, 0, "{allowed}");
    }
    let long = format!("env.NCCL_ALGO = \"{}\"\n{SUM}", "x".repeat(140_000));
    home.file("long.toml", &long);
    let run = home.run(&["check", "long.toml"]);
    assert!(run.code == 2 && run.err.contains("has 140000 bytes, more than 4096") && run.err.len() < 2000, "{run}");
    // The command that runs the case again repeats the allowed variables.
    home.file("wrong.toml", &format!("env.NCCL_COMM_ID = \"x\"\n{WRONG}"));
    let run = home.run(&["run", "wrong.toml", "--allow-env", "NCCL_COMM_ID", "--allow-env", evil]);
    let again = "run it again: collspec run wrong.toml --allow-env NCCL_COMM_ID --allow-env NCCL_ENV_PLUGIN\n";
    assert!(run.code == 1 && run.out.contains(again), "{run}");
}

#[test]
fn links_are_followed_to_files_of_the_folder_once() {
    let home = Home::new();
    home.file("secret/config", "[credentials]\ntoken = 1234\n");
    home.file("s/.git/config", "token = 1234\n");
    home.file("s/data/real.txt", SUM);
    home.file("s/a.toml", SUM);
    home.file("s/deep/b.toml", SUM);
    let link = |to: &str, from: &str| symlink(to, home.path(from)).unwrap();
    link("data/real.txt", "s/linked.toml");
    link("data/real.txt", "s/zwice.toml");
    link("a.toml", "s/same.toml");
    link("../secret/config", "s/outside.toml");
    link("/proc/self/environ", "s/environment.toml");
    link(".git/config", "s/hidden.toml");
    link("/dev/zero", "s/endless.toml");
    link("nowhere", "s/broken.toml");
    link("circle.toml", "s/circle.toml");
    link("..", "s/deep/up");
    link("deep", "s/folder");
    link("deep", "s/folder.toml");
    fs::hard_link(home.path("s/a.toml"), home.path("s/deep/hard.toml")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, home.path("s/pipe.toml"), rustix::fs::Mode::RUSR).unwrap();
    link("pipe.toml", "s/to_pipe.toml");

    let run = home.run(&["run", "s", "--verbose"]);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.out.contains("3 passed, 0 failed, 0 skipped"), "{run}");
    let mut names: Vec<_> = run.out.lines().filter_map(|line| line.strip_prefix("pass ")?.split(' ').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "deep/b", "linked"]);
    for (name, why) in [
        ("zwice.toml", "it is the same file as s/linked.toml"),
        ("same.toml", "it is the same file as s/a.toml"),
        ("deep/hard.toml", "it is the same file as s/a.toml"),
        ("outside.toml", "it is a link to a file outside"),
        ("environment.toml", "it is a link to a file outside"),
        ("hidden.toml", "it is a link to a file outside the folders that were named, or to a hidden one"),
        ("endless.toml", "it is a link to a file outside"),
        ("broken.toml", "it is a broken link"),
        ("circle.toml", "it is a broken link"),
        ("deep/up", "it is a link to a folder"),
        ("folder", "it is a link to a folder"),
        ("folder.toml", "it is a link to a folder"),
        ("pipe.toml", "it is not a regular file"),
        ("to_pipe.toml", "it is not a regular file"),
    ] {
        assert!(run.err.contains(&format!("collspec: s/{name} is passed over: {why}")), "{name}: {run}");
    }
    assert!(!run.err.contains("1234") && !run.out.contains("1234"), "{run}");
    // A case that is selected by its exact name obeys the same rules.
    for (name, code) in [("linked", 0), ("deep/b", 0), ("zwice", 2), ("outside", 2), ("folder/b", 2)] {
        let suite = collspec_suite::suite::CaseSet::open_exact(&home.path("s"), name, &Default::default()).unwrap();
        assert_eq!(suite.cases.len(), usize::from(code == 0), "{name}");
    }
    // A link that is named on the command line is followed.
    let run = home.run(&["run", "s/outside.toml"]);
    assert!(run.code == 2 && run.err.contains("s/outside.toml:"), "{run}");
    link("s", "other");
    let run = home.run(&["run", "other", "--filter", "linked"]);
    assert!(run.code == 0 && run.out.contains("1 passed"), "{run}");
    // The target may be in another folder that is named.
    home.file("t/c.toml", SUM);
    link("../s/data/real.txt", "t/d.toml");
    let run = home.run(&["check", "t"]);
    assert!(run.code == 0 && !run.out.contains("d.toml"), "{run}");
    let run = home.run(&["check", "t", "s/deep"]);
    assert!(!run.out.contains("t/d.toml"), "{run}");
    let run = home.run(&["check", "t", "s/data", "s"]);
    assert!(run.code == 2, "a folder without a scenario is a mistake still: {run}");
    let run = home.run(&["check", "t", "s"]);
    assert!(run.code == 0 && run.out.contains("t/d.toml: 1 case"), "{run}");
}

/// 41 folders, each with two links to the next, are 2^40 paths.
#[test]
fn a_file_is_read_once_however_many_links_lead_to_it() {
    let home = Home::new();
    home.file("s/40/a.toml", SUM);
    for level in 0..40 {
        fs::create_dir_all(home.path(&format!("s/{level}"))).unwrap();
        for name in ["x", "y"] {
            symlink(format!("../{}", level + 1), home.path(&format!("s/{level}/{name}"))).unwrap();
        }
    }
    let run = home.run(&["run", "s"]);
    assert!(run.code == 0 && run.out.contains("1 passed, 0 failed"), "{run}");
    assert!(run.err.contains("60 more entries are passed over"), "{run}");
}

#[test]
#[ignore = "slow"]
fn the_working_folder_has_no_say_in_what_is_started() {
    let home = Home::new();
    home.file("out/.keep", "");
    let trap = |name: &str, text: &str| {
        home.file(name, text);
        fs::set_permissions(home.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    let touched = home.path("touched");
    for name in ["python3", "pip", "pip3", "uv", "ldconfig", "bin/python3", "bin/ldconfig"] {
        trap(name, &format!("#!/bin/sh\necho {name} >> '{}'\n", touched.display()));
    }
    for module in ["pip.py", "site.py", "sys.py", "sitecustomize.py", "usercustomize.py", "encodings.py", "os.py"] {
        trap(module, &format!("open({:?}, 'a').write('{module}')\n", touched.display().to_string()));
    }
    trap("2.30.7", "no library");
    for path in ["", ".", "bin"] {
        let all = std::env::var("PATH").unwrap_or_default();
        let path = format!("{path}:{all}");
        for args in [&["nccl", "list"][..], &["doctor"], &["nccl", "fetch", "0.0.1"], &["run", "--nccl", "2.30.7"]] {
            let mut command = home.command(args);
            // Fetching must fail without access to the network.
            command.env("PATH", &path).env("XDG_CACHE_HOME", home.path("cache")).env("PYTHONPATH", "");
            command.env("PIP_NO_INDEX", "1").env("UV_OFFLINE", "1").env("LD_LIBRARY_PATH", "");
            let _ = Run::of(&mut command);
            let printed = fs::read_to_string(&touched).unwrap_or_default();
            assert!(printed.is_empty(), "{args:?} with PATH={path} started {printed}");
        }
    }
}

/// A library is opened only if it has NCCL's function.
#[test]
fn what_is_no_nccl_is_not_opened() {
    if std::process::Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler (cc) to build a small library with");
        return;
    }
    let home = Home::new();
    let touched = home.path("touched");
    home.file(
        "a.c",
        &format!(
            "#include <stdio.h>\n__attribute__((constructor)) void f(void) {{ fclose(fopen({:?}, \"w\")); }}\n",
            touched.display().to_string()
        ),
    );
    let build = |output: &Path| {
        let mut cc = std::process::Command::new("cc");
        let built = cc.args(["-shared", "-fPIC", "-o"]).arg(output).arg(home.path("a.c")).output().unwrap();
        assert!(built.status.success());
    };
    let path = home.path("cache/collspec/nccl/2.30.7/libnccl.so.2");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    build(&path);
    home.file("sum.toml", SUM);
    let library = path.display().to_string();
    for args in [
        &["nccl", "list"][..],
        &["nccl", "fetch", "2.30.7"],
        &["run", "sum.toml", "--driver", "stand-in", "--nccl", &library],
        &["doctor", "--driver", "stand-in"],
    ] {
        let run = Run::of(home.command(args).env("XDG_CACHE_HOME", home.path("cache")));
        assert!(!touched.exists(), "{args:?}: {run}");
        let printed = format!("{}{}", run.out, run.err);
        assert!(printed.contains("is a library, but not NCCL: it has no ncclGetVersion"), "{args:?}: {run}");
    }
}

/// An error quotes arguments as they were typed; a line break in one does not become one of the message.
#[test]
fn arguments_are_quoted_on_one_line() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let odd = "--a\nb\u{1b}[31m";
    let (value, inside) = (format!("-k{odd}"), format!("all_reduce '{odd}'"));
    let gate = ["gate", "soft", "soft", "sum.toml", "--reports", "made", "--", odd];
    let bench = ["compare", "--base", "soft", "--candidate", "soft", "--bench", &inside];
    for args in [
        &["run", odd][..],
        &["run", "sum.toml", &value],
        &["run", "sum.toml", "--filter", &odd[2..]],
        &["run", "sum.toml", "--format", &odd[2..]],
        &["run", "sum.toml", "--nccl", &odd[2..]],
        &["explain", "sum.toml", "--case", &odd[2..]],
        &["new", &odd[2..]],
        &["minimize", &odd[2..]],
        &gate,
        &bench,
    ] {
        let run = home.run(args);
        assert!(matches!(run.code, 2 | 3) && run.err.contains("a\\nb\\u{1b}[31m"), "{args:?}: {run}");
        assert!(!run.err.contains(['\u{1b}']) && !run.err.contains("a\nb"), "{args:?}: {run}");
    }
}
