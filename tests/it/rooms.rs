//! Imports run down: the modules of a crate stand in its `lib.rs` from the ground up, and import only what stands above them in that
//! list; and the files that import each other in a circle do not become more.
use crate::architecture::{code, crates, root, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Rooms that import a later one of their crate's list. They may only be taken away from here.
const IMPORTS_THAT_RUN_UP: [&str; 14] = [
    "crates/recorder: exports -> real",
    "crates/standin-cuda: context -> streams",
    "crates/standin-nccl: effects -> misbehave",
    // A stream, its device, its events and its graphs are one thing in several files.
    "gpuless/device: capture -> graph",
    "gpuless/device: capture -> stream",
    "gpuless/device: device -> executor",
    "gpuless/device: device -> lazy",
    "gpuless/device: device -> stream",
    "gpuless/device: event -> capture",
    "gpuless/device: event -> stream",
    "gpuless/device: executor -> stream",
    "gpuless/device: graph -> stream",
    "gpuless/device: lazy -> stream",
    "gpuless/device: pool -> stream",
];

/// Files in circles, by crate. A number that has become smaller is written down here, so that it stays.
const FILES_IN_CIRCLES: [(&str, usize); 11] = [
    ("crates/collspec-cli", 76),
    ("crates/collspec-core", 94),
    ("crates/collspec-run", 26),
    ("crates/collspec-suite", 10),
    ("crates/recorder", 2),
    ("crates/soft-nccl", 23),
    ("crates/standin-cuda", 4),
    ("crates/standin-nccl", 2),
    ("gpuless/cuda", 32),
    ("gpuless/device", 8),
    ("gpuless/ptx", 36),
];

/// A module's path in its crate: `["plan", "lower"]`.
type Module = Vec<String>;

/// The files of a crate by module, with their imports as absolute paths within the crate.
struct Crate {
    /// The code of each file.
    files: BTreeMap<Module, String>,
    /// For each file, the names that it has imported, with their paths and true if it only hands them on.
    names: BTreeMap<Module, BTreeMap<String, (Module, bool)>>,
}

impl Crate {
    fn read(name: &str) -> Self {
        let folder = root().join(name).join("src");
        let mut paths = Vec::new();
        sources(&folder, &mut paths);
        let mut files = BTreeMap::new();
        for path in paths {
            let relative = path.strip_prefix(&folder).unwrap().with_extension("");
            let mut module: Module = relative.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            if ["mod", "lib", "main"].contains(&module.last().unwrap().as_str()) {
                module.pop();
            }
            files.insert(module, code(&fs::read_to_string(path).unwrap()));
        }
        let mut all = Self { files, names: BTreeMap::new() };
        let names = all.files.iter().map(|(module, text)| (module.clone(), all.imported(module, text))).collect();
        all.names = names;
        all
    }

    /// The names that a file imports from its own crate.
    fn imported(&self, module: &Module, text: &str) -> BTreeMap<String, (Module, bool)> {
        let mut names = BTreeMap::new();
        for (statement, public) in statements(text) {
            let mut paths = Vec::new();
            expand(&[], statement, &mut paths);
            let absolute = paths.into_iter().filter_map(|(path, name)| Some((name, self.absolute(module, &path)?)));
            names.extend(absolute.map(|(name, path)| (name, (path, public))));
        }
        names
    }

    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.clone(),
            "super" => {
                let parent = module.split_last()?.1.to_vec();
                if rest.first().is_some_and(|next| next == "super") {
                    return self.absolute(&parent, rest);
                }
                parent
            }
            name => {
                let inner = [module.as_slice(), &[name.to_owned()]].concat();
                self.files.contains_key(&inner).then_some(inner)?
            }
        };
        base.extend(rest.iter().cloned());
        Some(base)
    }

    /// The file in which a path ends: where the item is, not where it is handed on.
    fn file_of(&self, path: &[String], left: usize) -> Module {
        let mut length = path.len();
        while !self.files.contains_key(&path[..length]) {
            length -= 1;
        }
        let (module, rest) = path.split_at(length);
        let handed_on = rest.first().and_then(|name| self.names.get(module)?.get(name));
        match handed_on {
            Some((to, _)) if left > 0 => self.file_of(&[to.as_slice(), &rest[1..]].concat(), left - 1),
            _ => module.to_vec(),
        }
    }

    /// The files that each file imports.
    fn arrows(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let mut arrows = BTreeMap::new();
        for (module, text) in &self.files {
            let mut to: BTreeSet<Module> = BTreeSet::new();
            for (path, _) in self.names[module].values().filter(|(_, handed_on)| !handed_on) {
                to.insert(self.file_of(path, 9));
            }
            for path in paths_in_code(text) {
                let whole = match self.names[module].get(&path[0]) {
                    Some((known, _)) => Some([known.as_slice(), &path[1..]].concat()),
                    None => self.absolute(module, &path),
                };
                to.extend(whole.map(|path| self.file_of(&path, 9)));
            }
            to.remove(module);
            arrows.insert(module, to);
        }
        arrows
    }
}

/// The `use` statements of a file, without that word and the semicolon, and the rest of its code.
fn statements(text: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("use ") {
        let before = text[..at].rsplit('\n').next().unwrap().trim();
        let public = before.starts_with("pub");
        if before.is_empty() || (public && !before.contains(' ')) || before.starts_with("pub(in") {
            let statement = &text[at + "use ".len()..];
            found.push((statement.split(';').next().unwrap(), public));
        }
    }
    found
}

/// The paths of a `use` statement, each with the name that it gives.
fn expand(prefix: &[String], tree: &str, paths: &mut Vec<(Module, String)>) {
    let tree = tree.trim();
    let parts = |text: &str| -> Module {
        text.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
    };
    let Some((head, group)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path = [prefix, &parts(path)].concat();
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        if let Some(last) = path.last().cloned() {
            paths.push((path, if alias.is_empty() { last } else { alias.trim().to_owned() }));
        }
        return;
    };
    let prefix = [prefix, &parts(head)].concat();
    let mut depth = 0;
    let inner = group.trim_end().trim_end_matches('}');
    let inner = if group.matches('{').count() > 0 { &group[..group.rfind('}').unwrap_or(group.len())] } else { inner };
    for part in inner.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    }) {
        expand(&prefix, part, paths);
    }
}

/// Paths of at least two parts outside of `use` statements.
fn paths_in_code(text: &str) -> Vec<Module> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.contains("use ")) {
        for word in line.split(|c| !is_part(c)).filter(|word| word.contains("::")) {
            let path: Module = word.split("::").map(str::to_owned).collect();
            if path.iter().all(|part| !part.is_empty() && !part.contains(':')) {
                found.push(path);
            }
        }
    }
    found
}

/// The files that reach themselves by imports of others.
fn in_circles(arrows: &BTreeMap<&Module, BTreeSet<Module>>) -> Vec<String> {
    let reached = |from: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), arrows[from].iter().collect::<Vec<_>>());
        while let Some(module) = next.pop() {
            if seen.insert(module) {
                next.extend(arrows.get(module).into_iter().flatten());
            }
        }
        seen.contains(from)
    };
    arrows.keys().filter(|module| reached(module)).map(|module| module.join("::")).collect()
}

#[test]
fn modules_import_only_those_above_them_in_the_list_of_their_crate() {
    let mut up = BTreeSet::new();
    for name in crates() {
        let all = Crate::read(&name);
        let list: Vec<&str> =
            all.files[&Vec::new()].lines().filter_map(|line| line.split_once("mod ")?.1.strip_suffix(';')).collect();
        let place = |module: &Module| list.iter().position(|room| module.first().is_some_and(|first| first == room));
        for (from, to) in all.arrows() {
            for target in to {
                let (Some(own), Some(other)) = (place(from), place(&target)) else { continue };
                if other > own {
                    up.insert(format!("{name}: {} -> {}", list[own], list[other]));
                }
            }
        }
    }
    let known: BTreeSet<String> = IMPORTS_THAT_RUN_UP.map(str::to_owned).into();
    assert_eq!(up, known, "lib.rs lists modules from the ground up, and a module imports only those above it");
}

#[test]
fn files_that_import_each_other_in_a_circle_do_not_become_more() {
    let found: Vec<(String, Vec<String>)> =
        crates().into_iter().map(|name| (name.clone(), in_circles(&Crate::read(&name).arrows()))).collect();
    let counts: Vec<(&str, usize)> =
        found.iter().map(|(name, files)| (name.as_str(), files.len())).filter(|(_, count)| *count > 0).collect();
    assert_eq!(counts, FILES_IN_CIRCLES, "{found:#?}");
}

#[test]
fn imports_are_found_in_every_spelling() {
    let mut paths = Vec::new();
    for (statement, _) in statements("use crate::a::B;\npub use super::{c, d::{self, E as F}};\nlet reuse = 1;\n") {
        expand(&[], statement, &mut paths);
    }
    let found: Vec<String> = paths.iter().map(|(path, name)| format!("{} {name}", path.join("::"))).collect();
    assert_eq!(found, ["crate::a::B B", "super::c c", "super::d d", "super::d::E F"]);
    assert_eq!(paths_in_code("let x = a::b(c::D::E);"), [vec!["a", "b"], vec!["c", "D", "E"]]);
}
