//! The quick selection: cases that were chosen by what they reach in NCCL, from a table that `collspec select` has written.
use super::coverage::keep_covering;
use collspec_core::fnv::fnv64;
use collspec_core::scenario::{Case, file_part};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The table of the corpus.
const TABLE: &str = include_str!("selection.txt");
/// The line before the files that were measured, each with the hash of its text: the table says nothing about a file that has changed, or
/// another one of the same name.
pub const FILES: &str = "[files]";
/// The line before the cases of the smallest selection.
pub const SMOKE: &str = "[smoke]";
/// The line before those that the quick selection has in addition.
pub const QUICK: &str = "[quick]";

/// How few cases are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quick {
    /// Those that reach what every kind of case reaches.
    Quick,
    /// Those that reach most of it in a minute.
    Smoke,
}

/// The hash of a file's text, as the table has it.
pub fn hash_of_file(case: &Case) -> String {
    format!("{:016x}", fnv64(case.file.text.as_bytes()))
}

/// Keeps the cases that the table has. Those of a file that it does not know are selected by what distinguishes them.
pub fn keep_quick(cases: &mut Vec<Arc<Case>>, quick: Quick) {
    keep(cases, quick, &Table::read(TABLE));
}

/// A table that was read.
#[derive(Default)]
struct Table<'a> {
    /// The files that were measured, by hash.
    files: HashMap<&'a str, &'a str>,
    smoke: HashSet<&'a str>,
    quick: HashSet<&'a str>,
}

impl<'a> Table<'a> {
    fn read(text: &'a str) -> Self {
        let (mut table, mut part) = (Self::default(), "");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match part {
                _ if [FILES, SMOKE, QUICK].contains(&line) => part = line,
                FILES => table.files.extend(line.split_once(' ')),
                SMOKE => drop(table.smoke.insert(line)),
                _ => drop(table.quick.insert(line)),
            }
        }
        table
    }

    fn wants(&self, name: &str, quick: Quick) -> bool {
        self.smoke.contains(name) || (quick == Quick::Quick && self.quick.contains(name))
    }
}

fn keep(cases: &mut Vec<Arc<Case>>, quick: Quick, table: &Table<'_>) {
    let mut names: HashMap<&str, Option<&str>> = HashMap::new();
    let wanted: Vec<Option<bool>> = cases
        .iter()
        .map(|case| {
            // Names of the table begin below the corpus, and those of a run below the folder that was given.
            let file =
                names.entry(&case.file.path).or_insert_with(|| table.files.get(hash_of_file(case).as_str()).copied());
            let point = &case.name[file_part(&case.name).len()..];
            file.map(|file| table.wants(&format!("{file}{point}"), quick))
        })
        .collect();
    let unknown = cases.iter().zip(&wanted).filter(|(_, wanted)| wanted.is_none());
    let mut others: Vec<Arc<Case>> = unknown.map(|(case, _)| case.clone()).collect();
    keep_covering(&mut others);
    let others: HashSet<&str> = others.iter().map(|case| case.name.as_str()).collect();
    let mut wanted = wanted.into_iter();
    cases.retain(|case| wanted.next().flatten().unwrap_or_else(|| others.contains(case.name.as_str())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::CaseSet;

    const TEXT: &str =
        "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"rank\", count = \"k\" }\n[matrix]\nk = [1, 2, 3]\n";

    /// The names that are kept of the files `known` and `other` in `scenarios/sums`, read from the folder of this name below `scenarios`.
    fn kept(table: &str, quick: Quick, folder: &str, known: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let sums = root.path().join("scenarios/sums");
        std::fs::create_dir_all(&sums).unwrap();
        std::fs::write(sums.join("known.toml"), known).unwrap();
        std::fs::write(sums.join("other.toml"), format!("{TEXT}# other\n")).unwrap();
        let mut suite = CaseSet::open(&[root.path().join("scenarios").join(folder)]).unwrap();
        assert!(suite.invalid_files.is_empty() && suite.cases.len() >= 6);
        keep(&mut suite.cases, quick, &Table::read(table));
        let mut names: Vec<_> = suite.cases.iter().map(|case| case.name.clone()).collect();
        names.sort_unstable();
        names
    }

    fn table() -> String {
        let hash = fnv64(TEXT.as_bytes());
        format!("# What it is\n[files]\n{hash:016x} x/known\n[smoke]\nx/known[k=2]\n[quick]\nx/known[k=3]\nx/gone\n")
    }

    #[test]
    fn the_table_decides_about_its_files_and_factors_about_others() {
        let other = ["sums/other[k=1]", "sums/other[k=2]", "sums/other[k=3]"];
        let with = |names: &[&'static str]| [names, &other].concat();
        assert_eq!(kept(&table(), Quick::Quick, "", TEXT), with(&["sums/known[k=2]", "sums/known[k=3]"]));
        assert_eq!(kept(&table(), Quick::Smoke, "", TEXT), with(&["sums/known[k=2]"]));
        let none = table().replace("x/known[k=2]\n", "");
        assert_eq!(
            kept(&none, Quick::Smoke, "", TEXT),
            with(&[]),
            "it is known, and has nothing for the smallest selection"
        );
    }

    #[test]
    fn a_file_is_known_in_whichever_folder_a_run_begins() {
        assert_eq!(
            kept(&table(), Quick::Smoke, "sums", TEXT),
            ["known[k=2]", "other[k=1]", "other[k=2]", "other[k=3]"]
        );
    }

    #[test]
    fn a_file_that_has_changed_is_as_one_that_nobody_has_measured() {
        let changed = TEXT.replace("[1, 2, 3]", "[1, 2, 3, 4]");
        assert_eq!(kept(&table(), Quick::Smoke, "", &changed).len(), 7);
    }
}
