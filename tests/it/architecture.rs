//! What docs/architecture.md says of the code is true: `unsafe` stands only where it says, and few packages are built.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The names in backquotes in every cell of the table with this head, by row.
fn table(head: &str) -> Vec<Vec<Vec<String>>> {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let table = text.split(head).nth(1).expect(head);
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let names = |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    rows.map(|line| line.split('|').skip(1).map(names).collect()).collect()
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The folders of the crates, from the root: `crates/nccl-sys`.
pub fn crates() -> Vec<String> {
    let below = |group: &str| {
        let entries = fs::read_dir(root().join(group)).unwrap().map(|entry| entry.unwrap().path());
        let folders = entries.filter(|path| path.join("Cargo.toml").is_file());
        folders.map(|path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut folders = [below("crates"), below("gpuless")].concat();
    folders.sort_unstable();
    folders
}

/// Every source file below a folder, except those of tests.
pub fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if ["tests", "fixture"].contains(&stem.as_str()) {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code in front of a file's unit tests, without comments.
pub fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// True if code says `unsafe` to the compiler.
fn is_unsafe(code: &str) -> bool {
    let opens = ["{", "fn", "impl", "extern", "trait"];
    code.match_indices("unsafe").any(|(at, word)| {
        let next = code[at + word.len()..].trim_start();
        let whole = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        whole && opens.iter().any(|open| next.starts_with(open))
    })
}

#[test]
fn unsafe_code_stands_where_the_list_says() {
    let listed: Vec<String> = table("| where | why |").into_iter().flat_map(|row| row[0].clone()).collect();
    assert!(listed.len() > 10, "{listed:?}");
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    for folder in crates() {
        sources(&root().join(folder).join("src"), &mut files);
    }
    let found = files.iter().filter(|file| is_unsafe(&code(&fs::read_to_string(file).unwrap())));
    let found: Vec<&str> = found.map(|file| file.strip_prefix(root()).unwrap().to_str().unwrap()).collect();
    let covers = |place: &str, file: &str| file == place || (place.ends_with('/') && file.starts_with(place));
    let missing: Vec<_> = found.iter().filter(|file| !listed.iter().any(|place| covers(place, file))).collect();
    assert!(missing.is_empty(), "unsafe code that docs/architecture.md does not list: {missing:?}");
    let idle: Vec<_> = listed.iter().filter(|place| !found.iter().any(|file| covers(place, file))).collect();
    assert!(idle.is_empty(), "docs/architecture.md lists places without unsafe code: {idle:?}");
}

#[test]
fn the_software_library_knows_nothing_of_faults() {
    let crate_root = root().join("crates/soft-nccl/src");
    let mut files = Vec::new();
    sources(&crate_root, &mut files);
    let mut naming = Vec::new();
    for file in &files {
        let relative = file.strip_prefix(&crate_root).unwrap();
        let code = code(&fs::read_to_string(file).unwrap());
        // `fault` as a word of the code, however it was imported.
        let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        if words.any(|word| word == "fault") {
            naming.push(relative.to_str().unwrap());
        }
    }
    assert_eq!(naming, Vec::<&str>::new(), "faults on purpose are the business of crates/wrong-nccl");
}

#[test]
fn the_software_library_and_its_device_deny_unsafe_code_where_no_file_allows_it() {
    for name in ["gpuless/device", "crates/soft-nccl"] {
        let folder = root().join(name).join("src");
        let text = fs::read_to_string(folder.join("lib.rs")).unwrap();
        assert!(text.contains("\n#![deny(unsafe_code)]\n"), "{name}");
        let mut files = Vec::new();
        sources(&folder, &mut files);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let allows = text.contains("\n#![allow(unsafe_code)]");
            assert_eq!(allows, is_unsafe(&code(&text)), "{}: the attribute and the code differ", file.display());
        }
    }
}

/// The packages and their versions that a build of this package needs with these features.
fn packages(features: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let mut tree = std::process::Command::new(env!("CARGO"));
    tree.args(["tree", "--frozen", "--package", "collspec", "--edges", "normal,build", "--prefix", "none"]);
    let output = tree.args(features).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let mut words = line.split(' ').map(str::to_owned);
        versions.entry(words.next().unwrap()).or_default().insert(words.next().unwrap_or_default());
    }
    assert!(versions.contains_key("serde"), "{versions:?}");
    versions
}

/// A new machine builds the command first: what only tests need is not among its packages, no package is there in two
/// versions, and Cargo.lock keeps out those that docs/architecture.md names.
#[test]
fn the_command_is_built_from_few_packages() {
    let versions = packages(&[]);
    for absent in ["insta", "libtest-mimic", "similar", "bstr", "zerocopy", "proptest"] {
        assert!(!versions.contains_key(absent), "{absent} is built with the command: {versions:?}");
    }
    // maud's macros are written with an older syn than the others', so that syn is built twice.
    let twice: Vec<_> = versions.iter().filter(|(name, versions)| versions.len() > 1 && *name != "syn").collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn the_harness_is_built_without_the_command() {
    let versions = packages(&["--no-default-features", "--features", "harness"]);
    let of_the_command = [
        "anyhow",
        "chrono",
        "collspec-cli",
        "gpuless-ptx",
        "collspec-standin-cuda",
        "indicatif",
        "maud",
        "quick-junit",
        "zip",
    ];
    for absent in of_the_command {
        assert!(!versions.contains_key(absent), "{absent} is built with the harness: {versions:?}");
    }
}
