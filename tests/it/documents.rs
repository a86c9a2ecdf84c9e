//! The documents: links lead somewhere, and what counts something of the code or the corpus is the number of today.
use crate::support::Home;
use collspec_cli::audit::FaultOrFlaw;
use collspec_core::num::DType;
use collspec_core::ops::TABLE;
use collspec_core::plan::Limits;
use collspec_core::printable::thousands;
use collspec_core::scenario::forms::FORMS;
use collspec_core::scenario::keys::KEYS;
use collspec_core::scenario::{SourceFile, parse};
use collspec_suite::suite::{CaseSet, Reading};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every Markdown file of the repository, except those of tests, builds and hidden folders.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !name.starts_with('.') && !["target", "tests"].contains(&name) {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The lines of a document outside its blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !fence && !in_code
    })
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(kept)
                .collect::<String>()
                .replace(' ', "-")
        })
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let mut all = Vec::new();
    documents(root(), &mut all);
    assert!(all.len() > 25, "{all:?}");
    let mut broken = Vec::new();
    for document in &all {
        let text = fs::read_to_string(document).unwrap();
        let links = prose(&text).flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
        for link in links.filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { document.clone() } else { document.with_file_name("").join(path) };
            let there = if anchor.is_empty() {
                target.exists()
            } else {
                fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor))
            };
            if !there {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links to nothing:\n{}", broken.join("\n"));
}

#[test]
fn the_readme_shows_the_example() {
    let example = read("examples/suite.rs");
    let program = example.split_once('\n').map_or("", |(_, program)| program);
    let shown = read("README.md").contains(&format!("```rust,no_run\n{program}```"));
    assert!(shown, "examples/suite.rs is not in README.md");
}

/// Who comes to the repository finds every page: README.md leads to docs/README.md, and that to all others.
#[test]
fn the_first_page_of_the_documents_names_every_other() {
    assert!(read("README.md").contains("](docs/README.md)"), "README.md has no link to docs/README.md");
    let first = read("docs/README.md");
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let linked = [')', '#'].iter().any(|end| first.contains(&format!("]({name}{end}")));
        assert!(linked || name == "README.md", "docs/README.md has no link to docs/{name}");
    }
}

/// Every key, operation, type and form of the language and every command is on the page that shows all at a glance.
#[test]
fn the_cheat_sheet_has_every_word() {
    let sheet = read("docs/cheat-sheet.md");
    let words: BTreeSet<&str> = sheet.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let help = Home::new().run(&["--help"]).out;
    let commands = help.split("Commands:").nth(1).unwrap().lines().skip(1).take_while(|line| !line.is_empty());
    // A line that is indented further continues the description above it.
    let commands = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let mut needed: Vec<&str> = commands.filter(|word| !["", "help"].contains(word)).collect();
    assert!(needed.contains(&"run"), "{help}");
    needed.extend(KEYS.iter().map(|key| key.name));
    needed.extend(TABLE.iter().map(|op| op.name));
    needed.extend(DType::all().map(DType::name));
    needed.extend(FORMS.iter().map(|form| form.name));
    let missing: Vec<&str> = needed.into_iter().filter(|word| !words.contains(word)).collect();
    assert!(missing.is_empty(), "docs/cheat-sheet.md lacks {missing:?}");
}

/// Classes in order as ranges, such as `F01 to F53, F60 to F68 and F70 to F98`.
fn ranges(classes: &BTreeSet<&str>) -> String {
    let number = |class: &str| class[1..].parse::<u32>().unwrap();
    let mut runs: Vec<(&str, &str)> = Vec::new();
    for class in classes {
        match runs.last_mut() {
            Some((_, last)) if number(last) + 1 == number(class) => *last = class,
            _ => runs.push((class, class)),
        }
    }
    let words =
        |(first, last): &(&str, &str)| if first == last { (*first).to_owned() } else { format!("{first} to {last}") };
    let words: Vec<String> = runs.iter().map(words).collect();
    let (last, others) = words.split_last().unwrap();
    if others.is_empty() { last.clone() } else { format!("{} and {last}", others.join(", ")) }
}

/// Asserts that each document has its text.
fn assert_says(figures: &[(&str, String)]) {
    let wrong = figures.iter().filter(|(path, text)| !read(path).contains(text.as_str()));
    let wrong: Vec<String> = wrong.map(|(path, text)| format!("{path} must say: {text}")).collect();
    assert!(wrong.is_empty(), "figures of other times:\n{}", wrong.join("\n"));
}

#[test]
fn figures_are_those_of_the_code() {
    let faults: Vec<_> = FaultOrFlaw::all().filter(|item| matches!(item, FaultOrFlaw::Fault(_))).collect();
    let flaws: BTreeSet<&str> = FaultOrFlaw::all().skip(faults.len()).map(FaultOrFlaw::class).collect();
    let classes: BTreeSet<&str> = faults.iter().map(|fault| fault.class()).collect();
    let (first, last) = (classes.first().unwrap(), classes.last().unwrap());
    let (faults, of_faults) = (thousands(faults.len() as u64), classes.len());
    let (classes, flaws) = (ranges(&classes), ranges(&flaws));
    let limits = Limits::default();
    let format = read("docs/scenario-format.md");
    let sweep = format.split("A sweep, ").nth(1).and_then(|rest| rest.split("```toml\n").nth(1)).unwrap();
    let sweep = SourceFile { path: "sweep.toml".into(), text: sweep.split("```").next().unwrap().into() };
    let sweep = parse(&Arc::new(sweep), "sweep").unwrap().len();
    let rust = env!("CARGO_PKG_RUST_VERSION");
    assert_says(&[
        ("README.md", format!("which of {faults} deliberate bugs, in {of_faults} classes")),
        ("README.md", format!("Rust {rust} or later")),
        ("CONTRIBUTING.md", format!("Rust {rust} or later")),
        ("CONTRIBUTING.md", format!("cargo +{rust} check")),
        ("docs/audit.md", format!("{faults} faults in {of_faults} classes")),
        ("docs/audit.md", format!("{flaws} are checks")),
        ("docs/architecture.md", format!("mistake of a library, {classes} |")),
        ("docs/architecture.md", format!("mistake of the judge: {flaws} |")),
        ("docs/cli.md", format!("a fault of a library in between, {first} to {last};")),
        ("docs/cli.md", format!("compute and judge a case; {} if unset", limits.work)),
        ("docs/cli.md", format!("a file together; {} if unset", limits.file_work)),
        ("docs/scenario-format.md", format!("A sweep, {sweep} cases")),
    ]);
}

#[test]
fn figures_are_those_of_the_corpus() {
    let scenarios = root().join("scenarios");
    let reading = Reading { limits: Limits { memory: u64::MAX, ..Limits::default() }, ..Reading::default() };
    let cases = CaseSet::open_with(&[&scenarios], &reading).unwrap().cases;
    let table = read("scenarios/README.md");
    let row = |folder: &str| format!("| [{folder}]({folder}) | ");
    // The files and the number of cases by row of the table, which is the innermost folder that has one.
    let mut counts: BTreeMap<&str, (BTreeSet<&Path>, u64)> = BTreeMap::new();
    for case in &cases {
        let path = Path::new(&case.file.path).strip_prefix(&scenarios).unwrap();
        let mut folders = path.ancestors().skip(1).map(|folder| folder.to_str().unwrap());
        let folder = folders.find(|folder| table.contains(&row(folder)));
        let (files, number) = counts.entry(folder.unwrap_or_else(|| panic!("no row for {path:?}"))).or_default();
        files.insert(path);
        *number += 1;
    }
    let names = counts["regressions"].0.iter().map(|path| path.file_name().unwrap().to_str().unwrap());
    let faults: BTreeSet<&str> = names.map(|name| name.split('_').next().unwrap()).collect();
    let files = counts["regressions"].0.len();
    let mut figures = vec![("scenarios/README.md", format!("{} rows in {files} files", faults.len()))];
    for (folder, (files, cases)) in counts {
        let words = table.split(&row(folder)).nth(1).and_then(|rest| rest.split(" | ").next()).unwrap();
        figures.push(("scenarios/README.md", format!("{words} | {} | {} |", files.len(), thousands(cases))));
    }
    assert_says(&figures);
}
