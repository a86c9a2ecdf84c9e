//! What docs/architecture.md says of the code is true: the rooms of `src` import only what its table allows, no arrow of the
//! table runs back up, and `unsafe` stands only where it says.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms that each room may import, in the table's order: from the ground up.
fn allowed() -> Vec<(String, Vec<String>)> {
    let name = |name: &String| name.trim_start_matches("src/").to_owned();
    let row = |cells: Vec<Vec<String>>| (name(&cells[0][0]), cells[2].clone());
    table("| room | what it does | imports |").into_iter().map(row).collect()
}

/// The names in backquotes in every cell of the table with this head, by row.
fn table(head: &str) -> Vec<Vec<Vec<String>>> {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let table = text.split(head).nth(1).expect(head);
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let names = |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    rows.map(|line| line.split('|').skip(1).map(names).collect()).collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file below a folder, except those of tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
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
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The rooms that a text names behind `crate::`, with the line.
fn imports(text: &str) -> Vec<(usize, String)> {
    let word = |text: &str| -> String { text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        // In a macro it names the crate's interface.
        if text[..at].ends_with('$') {
            continue;
        }
        let line = text[..at].matches('\n').count() + 1;
        let rest = &text[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => found.push((line, word(rest))),
            Some(group) => {
                let mut depth = 0;
                let parts = group.split(|c: char| {
                    depth += i32::from(c == '{') - i32::from(c == '}');
                    c == ',' && depth == 0
                });
                let end = group.find(';').unwrap_or(group.len());
                let first = |part: &str| (part.as_ptr() as usize - group.as_ptr() as usize, word(part.trim_start()));
                found.extend(parts.map(first).filter(|(from, _)| *from < end).map(|(_, name)| (line, name)));
            }
        }
    }
    found
}

#[test]
fn rooms_import_only_what_the_table_allows() {
    let allowed = allowed();
    let by_room: BTreeMap<&str, &Vec<String>> = allowed.iter().map(|(room, to)| (room.as_str(), to)).collect();
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let mut wrong = Vec::new();
    let mut used: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for file in &files {
        let relative = file.strip_prefix(root().join("src")).unwrap();
        let room = relative.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        // The program uses the interface alone, and lib.rs names every room.
        if ["main", "lib"].contains(&room) {
            continue;
        }
        let Some((room, to)) = by_room.get_key_value(room) else {
            wrong.push(format!("{}: the room `{room}` is not in the table", file.display()));
            continue;
        };
        for (line, name) in imports(&code(&fs::read_to_string(file).unwrap())) {
            let Some((target, _)) = by_room.get_key_value(name.as_str()) else {
                wrong.push(format!("src/{}:{line}: `crate::{name}` is no room of the table", relative.display()));
                continue;
            };
            if target != room && !to.contains(&name) {
                wrong.push(format!("src/{}:{line}: `{room}` imports `{name}`", relative.display()));
            }
            *used.entry((room, target)).or_default() += 1;
        }
    }
    assert!(wrong.is_empty(), "not allowed by the table in docs/architecture.md:\n{}", wrong.join("\n"));
    for (room, to) in &allowed {
        for target in to {
            let is_used = used.contains_key(&(room.as_str(), target.as_str()));
            assert!(is_used, "the table lets `{room}` import `{target}`, and it does not");
        }
    }
}

#[test]
fn every_room_imports_only_rooms_above_it_in_the_table() {
    let allowed = allowed();
    assert!(allowed.len() > 10, "{allowed:?}");
    for (place, (room, to)) in allowed.iter().enumerate() {
        for target in to {
            let lower = allowed[..place].iter().any(|(name, _)| name == target);
            assert!(lower, "`{room}` imports `{target}`, which does not stand above it in the table");
        }
    }
}

#[test]
fn imports_are_found_in_every_spelling() {
    let text =
        "use crate::num::DType;\nuse crate::{child, run::{self, Pool}, worker};\nlet x = crate::plan::plan(a, b);\n";
    let found: Vec<String> = imports(text).into_iter().map(|(line, name)| format!("{line} {name}")).collect();
    assert_eq!(found, ["1 num", "2 child", "2 run", "2 worker", "3 plan"]);
    assert_eq!(code("a // crate::b\n#[cfg(test)]\nmod tests {\n    use crate::c;\n}\n").trim(), "a");
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
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut files);
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
fn the_software_library_names_its_faults_in_one_place() {
    let crate_root = root().join("crates/soft-nccl/src");
    let mut files = Vec::new();
    sources(&crate_root, &mut files);
    let mut naming = Vec::new();
    for file in &files {
        let relative = file.strip_prefix(&crate_root).unwrap();
        let code = code(&fs::read_to_string(file).unwrap());
        // `fault` as a word of the code, however it was imported.
        let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        if !relative.starts_with("fault") && words.any(|word| word == "fault") {
            naming.push(relative.to_str().unwrap());
        }
    }
    assert_eq!(naming, ["lib.rs"], "only lib.rs, which installs the hooks of `src/fault`, names that module");
}

#[test]
fn the_software_library_and_its_device_deny_unsafe_code_where_no_file_allows_it() {
    for name in ["soft-cuda", "soft-nccl"] {
        let folder = root().join("crates").join(name).join("src");
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

/// A new machine builds the command first: what only tests need is not among its packages, no package is there in two
/// versions, and Cargo.lock keeps out those that docs/architecture.md names.
#[test]
fn the_command_is_built_from_few_packages() {
    let mut tree = std::process::Command::new(env!("CARGO"));
    tree.args(["tree", "--frozen", "--package", "collspec", "--edges", "normal,build", "--prefix", "none"]);
    let output = tree.current_dir(root()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (name, version) = (words.next().unwrap(), words.next().unwrap_or_default());
        let known = versions.entry(name).or_default();
        if !known.contains(&version) {
            known.push(version);
        }
    }
    assert!(versions.contains_key("serde"), "{text}");
    for absent in ["insta", "libtest-mimic", "similar", "bstr", "zerocopy", "proptest"] {
        assert!(!versions.contains_key(absent), "{absent} is built with the command: {text}");
    }
    // maud's macros are written with an older syn than the others', so that syn is built twice.
    let twice: Vec<_> = versions.iter().filter(|(name, versions)| versions.len() > 1 && **name != "syn").collect();
    assert!(twice.is_empty(), "{twice:?}");
}
