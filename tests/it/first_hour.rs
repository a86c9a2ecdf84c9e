//! What newcomers write, and what they are told: `tests/first_hour` holds scenarios that are right, files and command lines
//! with a mistake each, and `answers.md`, the answer to each of them. `COLLSPEC_BLESS=1` writes the answers anew.
use crate::support::{Home, Run, SUM, WRONG};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const HEAD: &str = "# Answers to newcomers

What the program answers to the scenarios, mistakes and command lines of this folder. `cargo test --test it -- first_hour` compares this
page with what it answers now; `COLLSPEC_BLESS=1` in front writes it anew. `TIME` stands for every time, and `FOLDER` for the working folder.
";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/first_hour")
}

/// The scenario files of a folder by name, in order, with their texts.
fn files(kind: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder().join(kind)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<(String, String)> = entries
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// The text with `TIME` in place of every time such as `6.3 ms`.
fn without_times(text: &str) -> String {
    const UNITS: [&str; 4] = ["ns", "us", "ms", "s"];
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let mut words = line.split_inclusive(' ').peekable();
        while let Some(word) = words.next() {
            let number = word.trim_end();
            let unit = words.peek().map(|next| next.trim_end_matches([' ', '\n', ',', ';', '.', ')']));
            let timed = number.contains('.') && number.trim_start_matches('(').parse::<f64>().is_ok();
            if let Some(unit) = unit.filter(|unit| timed && UNITS.contains(unit)) {
                let next = words.next().unwrap_or_default();
                out.push_str(if number.starts_with('(') { "(TIME" } else { "TIME" });
                out.push_str(&next[unit.len()..]);
            } else {
                out.push_str(word);
            }
        }
    }
    out
}

/// The answer to a command line, in which variables may stand in front.
fn answer(home: &Home, line: &str) -> String {
    let mut words = line.split_whitespace().peekable();
    let mut variables = Vec::new();
    while let Some(pair) = words.next_if(|word| *word != "collspec") {
        variables.push(pair.split_once('=').expect("NAME=VALUE in front of the command"));
    }
    assert_eq!(words.next(), Some("collspec"), "{line}");
    let mut args: Vec<&str> = words.collect();
    // The answers must not depend on what this machine has.
    let runs = args.iter().any(|arg| *arg == "run" || arg.ends_with(".toml"));
    let chooses = ["check", "audit", "--backend", "--require", "--nccl", "--driver"];
    if runs && !args.iter().any(|arg| chooses.contains(arg)) {
        args.extend(["--backend", "soft"]);
    }
    let mut command = home.command(&args);
    command.env("COLUMNS", "100").env_remove("COLLSPEC_BLESS");
    command.envs(variables);
    let run = Run::of(&mut command);
    let said = match (run.out.trim_end(), run.err.trim_end()) {
        ("", said) | (said, "") => said.to_owned(),
        (out, err) => format!("{err}\n{out}"),
    };
    let folder = home.path("");
    let said = said.replace(folder.to_str().unwrap().trim_end_matches('/'), "FOLDER");
    format!("`{line}` ends with exit code {}:\n\n```text\n{}\n```\n", run.code, without_times(&said))
}

#[test]
fn every_answer_is_as_recorded() {
    let mut page = HEAD.to_owned();
    for (kind, title) in [("scenarios", "Scenarios that are right"), ("mistakes", "Files with a mistake")] {
        writeln!(page, "\n## {title}").unwrap();
        let home = Home::new();
        for (name, text) in files(kind) {
            home.file(&name, &text);
            let stem = name.trim_end_matches(".toml");
            let line = format!("collspec run {name}");
            write!(page, "\n### {stem}\n\n```toml\n{text}```\n\n{}", answer(&home, &line)).unwrap();
        }
    }
    writeln!(page, "\n## Command lines\n\nThe folder has `sums.toml`, which is right, `wrong.toml` with a wrong expectation, `large.toml` with 64 ranks of 4 GB, and\n`notes.md`.").unwrap();
    let home = Home::new();
    home.file("sums.toml", SUM);
    home.file("wrong.toml", WRONG);
    home.file("large.toml", "world_size = 64\nop = \"all_reduce\"\ninputs = { each = 1, count = 1000000000 }\n");
    home.file("notes.md", "# Notes\n");
    for line in fs::read_to_string(folder().join("commands.txt")).unwrap().lines() {
        write!(page, "\n{}", answer(&home, line)).unwrap();
    }

    let recorded = folder().join("answers.md");
    if std::env::var_os("COLLSPEC_BLESS").is_some() {
        fs::write(recorded, page).unwrap();
        return;
    }
    let old = fs::read_to_string(recorded).unwrap();
    let differences = similar::TextDiff::from_lines(&old, &page).unified_diff().context_radius(3).to_string();
    assert!(differences.is_empty(), "answers differ (COLLSPEC_BLESS=1 records them):\n{differences}");
}

#[test]
fn scenarios_of_newcomers_pass_and_mistakes_do_not() {
    for (kind, code) in [("scenarios", 0..1), ("mistakes", 1..3)] {
        let home = Home::new();
        let files = files(kind);
        assert!(files.len() >= 20, "only {} in {kind}", files.len());
        for (name, text) in files {
            home.file(&name, &text);
            let run = home.run(&["run", &name, "--backend", "soft"]);
            assert!(code.contains(&run.code), "{kind}/{name}: {run}");
        }
    }
}
