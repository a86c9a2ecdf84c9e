//! What many small cases cost: the whole command on generated files, 1,000 to 20,000 cases, and its start-up.
//!
//! Run it with `cargo bench --bench small_cases`. Cases a second and the most memory at one time should not depend on the number of cases. Processor
//! time counts the command and its workers. The figures are of one run on one machine.
mod measure;

use measure::{MIB, head, median, peak_during, processor_seconds, row, three_digits, time};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Cases of one file.
const IN_ONE_FILE: usize = 500;
/// Runs of the start-up.
const STARTS: usize = 21;

fn main() {
    println!("{}\n", measure::machine());
    let folder = tempfile::tempdir().expect("a folder");
    start_up(folder.path());
    println!(
        "\n{}",
        head(&["cases", "time", "cases a second", "processor time of a case", "of it in the kernel", "most memory"])
    );
    for cases in [1_000, 2_000, 5_000, 10_000, 20_000] {
        let folder = folder.path().join(cases.to_string());
        generate(&folder, cases);
        let (began, before) = (Instant::now(), processor_seconds());
        let (most, ()) = peak_during(|| run(&["run", "--forms", "none"], &folder));
        let (seconds, after) = (began.elapsed().as_secs_f64(), processor_seconds());
        let (user, system) = (after.0 - before.0, after.1 - before.1);
        let each = |seconds: f64| time(seconds / cases as f64);
        println!(
            "{}",
            row(&[
                cases.to_string(),
                time(seconds),
                three_digits(cases as f64 / seconds),
                each(user + system),
                each(system),
                format!("{} MiB", most / MIB),
            ])
        );
    }
}

/// The time from the start of the command to its end, with little to do.
fn start_up(folder: &Path) {
    let one = folder.join("one");
    generate(&one, 1);
    println!("{}", head(&["command", "time (median)"]));
    for (name, words) in [
        ("collspec --version", vec!["--version"]),
        ("collspec check of one case", vec!["check"]),
        ("collspec run of one case", vec!["run", "--forms", "none"]),
    ] {
        let path = if words == ["--version"] { Path::new("") } else { one.as_path() };
        let once = |_| {
            let began = Instant::now();
            run(&words, path);
            began.elapsed().as_secs_f64()
        };
        println!("{}", row(&[name.to_owned(), time(median((0..STARTS).map(once).collect()))]));
    }
}

fn run(words: &[&str], path: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collspec"));
    command.args(words);
    if !path.as_os_str().is_empty() {
        command.arg(path);
    }
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output().expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {}", said.lines().next().unwrap_or_default());
}

/// Writes files with so many cases: four operations, four types, two ranks, two elements.
fn generate(folder: &Path, cases: usize) {
    std::fs::create_dir_all(folder).expect("a folder");
    let operations = ["all_reduce", "all_gather", "reduce_scatter", "broadcast"];
    let types = ["f32", "i32", "bf16", "f64"];
    for (file, from) in (0..cases).step_by(IN_ONE_FILE).enumerate() {
        let (operation, dtype) = (operations[file % 4], types[file / 4 % 4]);
        let values: Vec<usize> = (from..cases.min(from + IN_ONE_FILE)).collect();
        let text = format!(
            "world_size = 2\nop = \"{operation}\"\ndtype = \"{dtype}\"\n\
             inputs = {{ each = \"(rank + i + k) % 100\", count = 2 }}\nmatrix.k = {values:?}\n"
        );
        std::fs::write(folder.join(format!("{file}.toml")), text).expect("a file");
    }
}
