//! The quick selection: cases that were chosen by what they reach in NCCL, from a table that `collspec select` has written.
use super::coverage::keep_covering;
use collspec_core::scenario::{Case, file_part};
use std::collections::HashSet;
use std::sync::Arc;

/// The table of the corpus.
const TABLE: &str = include_str!("selection.txt");
/// The line before the cases of the smallest selection.
pub const SMOKE: &str = "[smoke]";
/// The line before those that the quick selection has in addition.
pub const QUICK: &str = "[quick]";

/// How few cases are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quick {
    /// Those that reach what all cases reach.
    Quick,
    /// Those that reach most of it in a minute.
    Smoke,
}

/// Keeps the cases that the table has. Those of a file that it does not know are selected by what distinguishes them, as cases of other
/// corpora are.
pub fn keep_quick(cases: &mut Vec<Arc<Case>>, quick: Quick) {
    keep(cases, quick, TABLE);
}

fn keep(cases: &mut Vec<Arc<Case>>, quick: Quick, table: &str) {
    let (mut files, mut quick_names, mut smoke_names) = (HashSet::new(), HashSet::new(), HashSet::new());
    let mut part = "";
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        if [SMOKE, QUICK].contains(&line) {
            part = line;
            continue;
        }
        files.insert(file_part(line));
        quick_names.insert(line);
        if part == SMOKE {
            smoke_names.insert(line);
        }
    }
    let wanted = match quick {
        Quick::Quick => &quick_names,
        Quick::Smoke => &smoke_names,
    };
    let names: Vec<Option<String>> = cases.iter().map(|case| name_in_table(case, &files)).collect();
    let in_table = |name: &Option<String>| name.as_deref().is_some_and(|name| quick_names.contains(name));
    // A file that has changed so much that no case of the table is left is not known.
    let known: HashSet<&str> =
        cases.iter().zip(&names).filter(|(_, name)| in_table(name)).map(|(case, _)| file_part(&case.name)).collect();
    let mut others: Vec<Arc<Case>> =
        cases.iter().filter(|case| !known.contains(file_part(&case.name))).cloned().collect();
    keep_covering(&mut others);
    let others: HashSet<&str> = others.iter().map(|case| case.name.as_str()).collect();
    let kept: Vec<Arc<Case>> = cases
        .iter()
        .zip(&names)
        .filter(|(case, name)| {
            name.as_deref().is_some_and(|name| wanted.contains(name)) || others.contains(case.name.as_str())
        })
        .map(|(case, _)| case.clone())
        .collect();
    *cases = kept;
}

/// The name that the case has in the table if its file does: names in there begin below the corpus, and those of a run below the folder
/// that was given.
fn name_in_table(case: &Case, files: &HashSet<&str>) -> Option<String> {
    let path = case.file.path.strip_suffix(".toml")?;
    let ends = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
    let file = ends.map(|at| &path[at..]).find(|end| files.contains(end))?;
    Some(format!("{file}{}", &case.name[file_part(&case.name).len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::CaseSet;

    /// The names that are kept of two files with three cases each in `scenarios/sums`, read from the folder of this name below `scenarios`.
    fn kept(table: &str, quick: Quick, folder: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let sums = root.path().join("scenarios/sums");
        std::fs::create_dir_all(&sums).unwrap();
        let text = "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"rank\", count = \"n\" }\n[matrix]\nn = [1, 2, 3]\n";
        for name in ["known", "other"] {
            std::fs::write(sums.join(format!("{name}.toml")), text).unwrap();
        }
        let mut suite = CaseSet::open(&[root.path().join("scenarios").join(folder)]).unwrap();
        assert!(suite.invalid_files.is_empty() && suite.cases.len() == 6);
        keep(&mut suite.cases, quick, table);
        let mut names: Vec<_> = suite.cases.iter().map(|case| case.name.clone()).collect();
        names.sort_unstable();
        names
    }

    const TABLE: &str = "# What it is\n[smoke]\nsums/known[n=2]\n[quick]\nsums/known[n=3]\nsums/gone\n";

    #[test]
    fn the_table_decides_about_its_files_and_factors_about_others() {
        let other = ["sums/other[n=1]", "sums/other[n=2]", "sums/other[n=3]"];
        let with = |names: &[&'static str]| [names, &other].concat();
        assert_eq!(kept(TABLE, Quick::Quick, ""), with(&["sums/known[n=2]", "sums/known[n=3]"]));
        assert_eq!(kept(TABLE, Quick::Smoke, ""), with(&["sums/known[n=2]"]));
        let none = "[smoke]\n[quick]\nsums/known[n=3]\n";
        assert_eq!(kept(none, Quick::Smoke, ""), with(&[]), "it is known, and has nothing for the smallest selection");
    }

    #[test]
    fn names_are_found_in_whichever_folder_a_run_begins() {
        assert_eq!(kept(TABLE, Quick::Smoke, "sums"), ["known[n=2]", "other[n=1]", "other[n=2]", "other[n=3]"]);
    }

    #[test]
    fn a_file_without_a_case_of_the_table_is_as_one_that_nobody_has_measured() {
        let table = "[smoke]\nsums/known[n=7]\n[quick]\nsums/known\n";
        assert_eq!(kept(table, Quick::Quick, "").len(), 6);
    }
}
