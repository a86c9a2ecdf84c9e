//! Snapshots of cases: one file each, kept and compared by insta.
use collspec_core::fnv::fnv32;
use collspec_core::scenario::Case;
use insta::Snapshot;
use insta::comparator::{Comparator, DefaultComparator};
use similar::TextDiff;
use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Length of the longest file name without `.snap`; insta appends a few bytes for pending snapshots.
const MAX_NAME_BYTES: usize = 120;

/// The snapshots of a suite.
pub struct Snapshots {
    folder: PathBuf,
    /// The package's directory; headers name scenario files relative to it.
    package: PathBuf,
    /// The case that uses each file; two cases must not share one.
    claims: Mutex<HashMap<PathBuf, String>>,
}

impl Snapshots {
    /// The snapshots in a folder of a package.
    pub fn new(folder: PathBuf, package: &Path) -> Self {
        Self { folder, package: package.to_owned(), claims: Mutex::new(HashMap::new()) }
    }

    /// Compares a case's snapshot, and updates it as INSTA_UPDATE says.
    ///
    /// # Errors
    ///
    /// The difference, a missing snapshot or a file that cannot be read or written, as text for a report.
    pub fn compare(&self, case: &Case, text: &str) -> Result<(), String> {
        // A form has the snapshot of the case that the file has.
        let (folder, name) = file_name(case.base_name());
        let folder = self.folder.join(folder);
        let path = folder.join(format!("{name}.snap"));
        self.claim(&path, case.base_name())?;

        let reference = KeptReference::default();
        let mut settings = insta::Settings::new();
        settings.set_snapshot_path(&folder);
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.set_comparator(Box::new(reference.clone()));
        let files = [path.clone(), path.with_extension("snap.new")];
        let before = files.each_ref().map(|file| fs::read_to_string(file).ok());
        let asserted = catch_expected_panic(|| settings.bind(|| insta::assert_snapshot!(name.as_str(), text)));
        for (file, before) in files.iter().zip(before) {
            self.name_scenario(file, before.as_deref(), case)
                .map_err(|e| format!("  snapshot {}: {e}", file.display()))?;
        }
        asserted.map_err(|words| match reference.take() {
            Some(old) => differs(&path, &old, text),
            None if !path.exists() => missing(&path, text),
            // The texts do not differ: insta could not read or write a file.
            None => format!("  snapshot {}: {words}", path.display()),
        })
    }

    /// Puts the case's scenario file into the header of a snapshot that insta has written, for people who review it. insta
    /// would name this file, which no test of the package is in.
    fn name_scenario(&self, file: &Path, before: Option<&str>, case: &Case) -> std::io::Result<()> {
        match fs::read_to_string(file) {
            Ok(text) if before != Some(text.as_str()) => {
                let scenario = Path::new(&case.file.path);
                let scenario = scenario.strip_prefix(&self.package).unwrap_or(scenario);
                fs::write(file, with_source(&text, &scenario.to_string_lossy()))
            }
            _ => Ok(()),
        }
    }

    fn claim(&self, path: &Path, case: &str) -> Result<(), String> {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let holder = claims.entry(path.to_owned()).or_insert_with(|| case.to_owned());
        if holder == case {
            return Ok(());
        }
        Err(format!("  its snapshot {} is that of {holder} too: rename one of the two", path.display()))
    }
}

/// The text of a snapshot file with this source in its header.
fn with_source(text: &str, source: &str) -> String {
    let Some((header, body)) = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")) else {
        return text.to_owned();
    };
    let lines = header
        .lines()
        .filter(|line| !line.starts_with("assertion_line:"))
        .map(|line| if line.starts_with("source:") { format!("source: {source:?}\n") } else { format!("{line}\n") });
    format!("---\n{}---\n{body}", lines.collect::<String>())
}

const ACCEPT: &str = "if that is right, accept it with `cargo insta review` (`cargo install cargo-insta` adds that command), or by running with INSTA_UPDATE=always";

fn differs(path: &Path, old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new);
    let mut text = format!("  snapshot: the result differs from {}\n", path.display());
    for line in diff.unified_diff().context_radius(3).missing_newline_hint(false).to_string().lines() {
        text.push_str(&format!("    {line}\n"));
    }
    text + "  " + ACCEPT
}

fn missing(path: &Path, new: &str) -> String {
    let mut text = format!("  snapshot: {} does not exist yet; its content would be\n", path.display());
    for line in new.lines() {
        text.push_str(&format!("    {line}\n"));
    }
    text + "  " + ACCEPT
}

/// Folder and name of a case's snapshot: `a/b[n=2,variant=x]` is `a`, `b@n-2+variant-x`.
fn file_name(case: &str) -> (PathBuf, String) {
    let (path, point) = match case.find('[') {
        Some(at) => case.split_at(at),
        None => (case, ""),
    };
    let (folder, stem) = path.rsplit_once('/').unwrap_or(("", path));
    let point = match point.strip_prefix('[') {
        Some(point) => format!("@{}", point.strip_suffix(']').unwrap_or(point).replace('=', "-").replace(',', "+")),
        None => String::new(),
    };
    (PathBuf::from(folder), shorten_name(format!("{stem}{point}"), case))
}

fn shorten_name(name: String, case: &str) -> String {
    if name.len() <= MAX_NAME_BYTES {
        return name;
    }
    let mut end = MAX_NAME_BYTES - 9;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{:08x}", &name[..end], fnv32(case.as_bytes()))
}

/// Compares as insta does, and keeps the old text for the report.
#[derive(Clone, Default)]
struct KeptReference(Arc<Mutex<Option<String>>>);

impl KeptReference {
    fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Comparator for KeptReference {
    fn matches(&self, reference: &Snapshot, test: &Snapshot) -> bool {
        let same = DefaultComparator.matches(reference, test);
        if !same && let Some(text) = reference.as_text() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_string());
        }
        same
    }

    fn dyn_clone(&self) -> Box<dyn Comparator> {
        Box::new(self.clone())
    }
}

thread_local! {
    /// True while a panic of this thread is only insta's report of a difference.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Silences the panic hook for panics inside [`catch_expected_panic`].
pub fn silence_expected_panics() {
    let otherwise = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !EXPECTED.get() {
            otherwise(info);
        }
    }));
}

fn catch_expected_panic(assert: impl FnOnce()) -> Result<(), String> {
    EXPECTED.set(true);
    let result = catch_unwind(AssertUnwindSafe(assert));
    EXPECTED.set(false);
    result.map_err(|panic| collspec_suite::suite::parallel::panic_text(&*panic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use collspec_suite::suite::fixture;

    fn name(case: &str) -> String {
        let (folder, name) = file_name(case);
        folder.join(name).to_string_lossy().into_owned()
    }

    #[test]
    fn names_are_files_in_folders() {
        assert_eq!(name("a"), "a");
        assert_eq!(name("documented/deep/a.b"), "documented/deep/a.b");
        assert_eq!(name("a/b[n=2,variant=x]"), "a/b@n-2+variant-x");
        assert_eq!(name("a[e=^Ring%2CTree]"), "a@e-^Ring%2CTree");
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let long = |last: &str| format!("a/b[{}=1,x={last}]", "k".repeat(200));
        let (_, one) = file_name(&long("1"));
        let (_, two) = file_name(&long("2"));
        assert_eq!(one.len(), MAX_NAME_BYTES);
        assert_ne!(one, two);
        // The constant of the function itself: names that change would orphan everybody's files.
        assert_eq!(fnv32(b"foobar"), 0xbf9c_f968);
        let umlauts = file_name(&"\u{e4}".repeat(200)).1;
        assert!(umlauts.len() <= MAX_NAME_BYTES);
    }

    #[test]
    fn two_cases_never_share_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::new(folder.path().to_owned(), folder.path());
        let path = folder.path().join("a@n-1.snap");
        fs::write(&path, "---\nsource: x\n---\nsame\n").unwrap();
        assert_eq!(snapshots.compare(&fixture::case("a[n=1]"), "same"), Ok(()));
        assert_eq!(snapshots.compare(&fixture::case("a[n=1]"), "same"), Ok(()));
        let words = snapshots.compare(&fixture::case("a@n-1"), "same").unwrap_err();
        assert!(words.contains("is that of a[n=1] too"), "{words}");
    }

    #[test]
    fn headers_name_the_scenario_file() {
        let text = "---\nsource: ../collspec/src/harness/snapshot.rs\nassertion_line: 9\nsnapshot_kind: text\n---\nsource: kept\n";
        let named = "---\nsource: \"scenarios/a \\\"b\\\".toml\"\nsnapshot_kind: text\n---\nsource: kept\n";
        assert_eq!(with_source(text, "scenarios/a \"b\".toml"), named);
        assert_eq!(with_source("no header\n", "a.toml"), "no header\n");
    }

    #[test]
    fn a_difference_is_shown_as_one() {
        let words = differs(Path::new("s/a.snap"), "rank 0: 1 2\nrank 1: 3 4", "rank 0: 1 2\nrank 1: 3 5");
        assert!(words.contains("    -rank 1: 3 4\n    +rank 1: 3 5\n"), "{words}");
        assert!(words.contains("s/a.snap"));
    }
}
