//! Files that are no scenarios, each with the message that people see. `COLLSPEC_BLESS=1` writes the messages anew.
use crate::answered::assert_places;
use collspec_core::oracle::Forecast;
use collspec_core::plan::{self, Limits};
use collspec_core::scenario::{self, Case, ExpectedOutcome, SourceFile};
use collspec_run::run::memory::Turns;
use collspec_suite::suite::check_case::check_case;
use collspec_suite::suite::{InvalidFile, KeptPlans};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/invalid")
}

/// What `check` finds in a text: diagnostics of the file, with those of cases that are clear all the same, else of its cases.
fn faults_of(file: &Arc<SourceFile>, name: &str) -> String {
    match scenario::parse(file, name) {
        Err(rejected) => {
            let invalid = InvalidFile::new(name, rejected, &Limits::default());
            assert_places(&invalid.file, &invalid.diagnostics);
            invalid.render(false)
        }
        Ok(cases) => cases.into_iter().map(Arc::new).find_map(|c| plan_diagnostics(&c)).unwrap_or_default(),
    }
}

/// What planning or forecasting finds in a case that is not meant to be refused.
fn plan_diagnostics(case: &Arc<Case>) -> Option<String> {
    if case.outcome.as_ref().is_some_and(|o| o.value.contains(&ExpectedOutcome::Refused)) {
        return None;
    }
    let diagnostics = match plan::plan(case, &Limits::default()) {
        Err(diagnostics) => diagnostics,
        Ok(plan) => Forecast::new(&plan, 0).err()?,
    };
    assert_places(&case.file, &diagnostics);
    Some(format!("{}: {}", case.name, scenario::render(&case.file, &diagnostics, false)))
}

#[test]
fn every_message_is_as_recorded() -> Result<(), Box<dyn std::error::Error>> {
    let bless = std::env::var_os("COLLSPEC_BLESS").is_some();
    let mut wrong = Vec::new();
    let files = scenario::discover(&[folder()])?;
    assert!(files.len() >= 60, "only {} files", files.len());
    for f in files {
        let text = match std::fs::read(&f.path).map(String::from_utf8)? {
            Ok(text) => {
                faults_of(&Arc::new(SourceFile { path: format!("{}.toml", f.name), text: text.into() }), &f.name)
            }
            // Not text: found when the file is read from disk.
            Err(_) => match scenario::load(&f.path, &f.name, scenario::MAX_BYTES) {
                Ok(_) => String::new(),
                Err(rejected) => {
                    rejected.to_string().replace(&f.path.display().to_string(), &format!("{}.toml", f.name))
                }
            },
        };
        if text.is_empty() {
            wrong.push(format!("{}: nothing is wrong with it", f.name));
            continue;
        }
        let text = text + "\n";
        let recorded = f.path.with_extension("stderr");
        if bless {
            std::fs::write(&recorded, text)?;
        } else if std::fs::read_to_string(&recorded).unwrap_or_default() != text {
            wrong.push(format!("{}:\n{text}", f.name));
        }
    }
    assert!(wrong.is_empty(), "{} messages differ (COLLSPEC_BLESS=1 records them):\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

fn parse(text: &str) -> Result<Vec<Case>, scenario::Rejected> {
    scenario::parse(&Arc::new(SourceFile { path: "x.toml".into(), text: text.into() }), "x")
}

fn message(text: &str) -> String {
    parse(text).err().map(|e| e.to_string()).unwrap_or_default()
}

/// Nesting far beyond any stack, in each way TOML has, is an error and not a crash; on a thread with a small stack.
#[test]
fn deep_nesting_is_refused() -> Result<(), Box<dyn std::error::Error>> {
    let deep = 10_000;
    let texts = [
        format!("inputs = {}1{}", "[".repeat(deep), "]".repeat(deep)),
        format!("inputs = {}", "[".repeat(deep)),
        format!("inputs = {}1{}", "{a=".repeat(deep), "}".repeat(deep)),
        format!("{}a = 1", "a.".repeat(deep)),
        format!("[{}a]", "a.".repeat(deep)),
        format!("op = \"map\"\nexpr = \"{}1{}\"\nworld_size = 1", "(".repeat(2000), ")".repeat(2000)),
        format!("op = \"map\"\nexpr = \"{}1\"\nworld_size = 1", "-".repeat(4000)),
        format!("op = \"map\"\nexpr = \"1{}\"\nworld_size = 1", "+1".repeat(2000)),
        format!("op = \"map\"\nexpr = \"1{}\"\nworld_size = 1", "^1".repeat(2000)),
        format!("op = \"map\"\nexpr = \"{}1{}\"\nworld_size = 1", "abs(".repeat(800), ")".repeat(800)),
    ];
    for text in texts {
        let small = std::thread::Builder::new().stack_size(512 << 10);
        let found = small.spawn(move || message(&text))?.join().map_err(|_| "panicked")?;
        assert!(found.contains("deep"), "{found}");
        assert!(found.len() < 20_000, "{} bytes", found.len());
    }
    Ok(())
}

#[test]
fn a_huge_file_is_refused_unread() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("huge.toml");
    std::fs::File::create(&path)?.set_len(100 << 20)?;
    let found = scenario::load(&path, "huge", scenario::MAX_BYTES).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(found.contains("larger than 1048576 bytes"), "{found}");
    Ok(())
}

#[test]
fn what_is_no_file_is_refused() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    for (path, words) in
        [(dir.path().to_owned(), "not a regular file"), (dir.path().join("none.toml"), "cannot be read")]
    {
        let found = scenario::load(&path, "x", scenario::MAX_BYTES).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(found.contains(words), "{found}");
    }
    Ok(())
}

#[test]
fn a_long_line_gives_a_short_message() {
    let row = "1, ".repeat(300_000);
    let found = message(&format!("world_size = 1\nop = \"all_reduce\"\ninputs = [[{row} x]]\n"));
    assert!(found.len() < 2000, "{} bytes", found.len());
    assert!(found.contains("x.toml:3:"), "{found}");
    let name = "y".repeat(1_000_000);
    let found = message(&format!("{name} = 1"));
    assert!(found.len() < 5000, "{} bytes", found.len());
    let found = message(&format!("world_size = 1\nop = \"{name}\"\n"));
    assert!(found.len() < 5000, "{} bytes", found.len());
}

#[test]
fn columns_count_characters_with_tabs_and_windows_line_ends() {
    let found = message("# ä\r\n\tworld_size = \"ä\"\r\n\top = \"all_redcue\"\r\n");
    assert!(found.contains("x.toml:2:15"), "{found}");
    assert!(found.contains("x.toml:3:7"), "{found}");
    assert!(!found.contains('\r'));
}

#[test]
fn a_matrix_without_end_is_refused_at_once() {
    let axis: Vec<String> = (0..200).map(|v| v.to_string()).collect();
    let axes: String = (0..12).map(|k| format!("a{k} = [{}]\n", axis.join(", "))).collect();
    let found = message(&format!("world_size = 1\nop = \"all_reduce\"\ninputs = [[1]]\n[matrix]\n{axes}"));
    assert!(found.contains("combinations"), "{found}");
}

/// A file of the greatest size, made to be slow in one way each, is done with in bearable time.
#[test]
#[ignore = "slow"]
fn the_worst_files_are_answered_in_few_words() {
    let many = |n: usize, f: &dyn Fn(usize) -> String| (0..n).map(f).collect::<String>();
    let top = "world_size = 1\n";
    let steps = "inputs.x = [[1]]\n";
    let texts = [
        ("brackets", "]\n".repeat(500_000)),
        ("equals", "=".repeat(1_000_000)),
        ("quotes", "\"".repeat(1_000_000)),
        ("unknown keys", many(50_000, &|k| format!("expcet{k} = {k}\n"))),
        (
            "unknown buffers",
            format!(
                "{top}{steps}{}",
                many(15_000, &|k| format!("[[steps]]\nop = \"all_reduce\"\nin = \"xyz{k}\"\nout = \"abc{k}\"\n"))
            ),
        ),
        (
            "chained buffers",
            format!(
                "{top}{steps}{}",
                many(15_000, &|k| format!("[[steps]]\nop = \"all_reduce\"\nin = \"x\"\nout = \"abc{k}\"\n"))
            ),
        ),
        (
            "unused inputs",
            format!(
                "{top}steps = [{{ op = \"barrier\" }}]\n[inputs]\n{}",
                many(60_000, &|k| format!("b{k} = [[1]]\n"))
            ),
        ),
        ("axes", format!("{top}op = \"barrier\"\n[matrix]\n{}", many(60_000, &|k| format!("a{k} = [1]\n")))),
        ("values", format!("{top}op = \"barrier\"\nmatrix.a = [{}]", many(100_000, &|k| format!("{k}, ")))),
        ("cases", format!("{top}op = \"barrier\"\nmatrix.timeout = [{}]", many(100_000, &|k| format!("{}, ", k + 1)))),
        (
            "faulty cases",
            format!("{top}op = \"barrier\"\nmatrix.timeout = [{}]", many(90_000, &|k| format!("-{}, ", k + 1))),
        ),
        (
            "variants",
            format!("{top}op = \"barrier\"\n{}", many(30_000, &|k| format!("variants.v{k}.repeat = {}\n", k + 1))),
        ),
        ("elements", format!("{top}op = \"all_reduce\"\ninputs = [[{}]]\n", "300, ".repeat(190_000))),
        (
            "bad elements",
            format!("{top}op = \"all_reduce\"\ndtype = \"i8\"\ninputs = [[{}]]\n", "300, ".repeat(190_000)),
        ),
        ("ranks", format!("world_size = 65536\nop = \"all_reduce\"\ninputs = [{}]\n", "[1],".repeat(65536))),
        (
            "groups",
            format!(
                "{top}{steps}{}",
                many(10_000, &|_| {
                    "[[steps]]\nop = \"all_reduce\"\ngroups = [[0],[0],[0],[0],[0]]\nin = \"x\"\nout = \"y\"\n"
                        .to_owned()
                })
            ),
        ),
        (
            "expressions",
            format!(
                "{top}{steps}{}",
                many(250, &|_| format!(
                    "[[steps]]\nop = \"map\"\nout = \"y\"\nexpr = \"x{}\"\n",
                    "-x".repeat(190).repeat(10)
                ))
            ),
        ),
        ("templates", format!("{top}op = \"all_gather\"\ninputs = {{ text = \"{}\" }}", "{rank}".repeat(170_000))),
        (
            "excludes",
            format!(
                "{top}op = \"barrier\"\n[matrix]\nrepeat = [{}]\nexclude = [{}]",
                many(3000, &|k| format!("{}, ", k + 1)),
                many(2999, &|k| format!("{{ repeat = {} }}, ", k + 1))
            ),
        ),
    ];
    for (what, text) in texts {
        assert!(text.len() <= 1 << 20, "{what} has {} bytes", text.len());
        let found = parse(&text).err().map(|e| e.to_string().len());
        assert!(found.unwrap_or(0) < 100_000, "{what}: a message of {found:?} bytes");
    }
}

/// An error that only the values of elements show is found before anything runs, too.
#[test]
fn elements_that_a_type_cannot_hold_are_refused() -> Result<(), Box<dyn std::error::Error>> {
    let limits = Limits::default();
    let turns = Turns::new(limits.memory);
    for (buffer, expr, words) in [
        ("{ text = \"abc\", dtype = \"f8e4m3\" }", "x", "97 is not an f8e4m3 value; its neighbours are 96 and 104"),
        ("{ text = \"ä\", dtype = \"i8\" }", "x", "195 does not fit i8"),
        ("{ each = \"ln(i - 3)\", count = 4, dtype = \"i32\" }", "x", "not a number, but a whole number is needed"),
        ("{ each = \"1 / (0.0 * i)\", count = 4, dtype = \"u64\" }", "x", "infinite, but a whole number is needed"),
        ("{ each = \"2 ^ 128 / 3\", count = 4, dtype = \"u64\" }", "x", "does not fit 128 bits"),
        ("{ each = \"i - 3\", count = 4, dtype = \"i32\" }", "ln(x)", "not a number, but a whole number is needed"),
        ("{ each = \"2 ^ 63\", count = 4, dtype = \"u64\" }", "x * x * x / 3", "does not fit 128 bits"),
    ] {
        let text = format!(
            "world_size = 1\ninputs.x = {buffer}\nsteps = [{{ op = \"map\", expr = \"{expr}\", out = \"y\" }}]\n"
        );
        for case in parse(&text)? {
            let found = check_case(&KeptPlans::default(), &Arc::new(case), &limits, &turns).err().unwrap_or_default();
            let messages: Vec<_> = found.into_iter().map(|d| d.message).collect();
            assert!(messages.iter().any(|m| m.contains(words)), "{buffer}, {expr}: {messages:?}");
        }
    }
    Ok(())
}
