//! What a selection reaches, in words, and the selection as the table that `--quick` reads.
use super::choose::Selection;
use super::measure::{End, Run};
use collspec_core::job::HOST_CODE;
use collspec_core::scenario::{Case, file_part};
use collspec_suite::suite::{FILES, QUICK, SMOKE, hash_of_file};
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::sync::Arc;

/// Writes the table: the files that were measured, and the names of the cases of each part.
///
/// # Errors
///
/// Writing fails.
pub fn write_table(
    to: &mut dyn Write,
    cases: &[Arc<Case>],
    selection: &Selection,
    libraries: &[&str],
) -> io::Result<()> {
    writeln!(
        to,
        "# The cases of `collspec run --quick` and `--smoke`, written by `collspec select` from what they reach in"
    )?;
    writeln!(to, "# {}.", libraries.join(", "))?;
    writeln!(to, "{FILES}")?;
    let files: BTreeMap<&str, &Arc<Case>> = cases.iter().map(|case| (file_part(&case.name), case)).collect();
    files.into_iter().try_for_each(|(file, case)| writeln!(to, "{} {file}", hash_of_file(case)))?;
    for (part, chosen) in [(SMOKE, &selection.smoke), (QUICK, &selection.rest)] {
        writeln!(to, "{part}")?;
        let mut names: Vec<&str> = chosen.iter().map(|at| cases[*at].name.as_str()).collect();
        names.sort_unstable();
        names.into_iter().try_for_each(|name| writeln!(to, "{name}"))?;
    }
    Ok(())
}

/// Writes how much of each library all cases reach, how much of it the chosen ones do, and how many were chosen.
///
/// # Errors
///
/// Writing fails.
pub fn write_coverage(
    to: &mut dyn Write,
    cases: &[Arc<Case>],
    selection: &Selection,
    libraries: &[(String, Vec<Run>)],
) -> io::Result<()> {
    let quick: Vec<usize> = selection.smoke.iter().chain(&selection.rest).copied().collect();
    for (library, runs) in libraries {
        let reached = |chosen: &mut dyn Iterator<Item = usize>| {
            let all: HashSet<u64> = chosen.flat_map(|case| runs[case].reached.iter().copied()).collect();
            let host = all.iter().filter(|place| **place >= HOST_CODE).count();
            (all.len() - host, host)
        };
        let ran = runs.iter().filter(|run| run.end != End::NotRun).count();
        let failed = runs.iter().filter(|run| run.end == End::Failed).count();
        let (instructions, functions) = reached(&mut (0..cases.len()));
        writeln!(
            to,
            "{library}: {ran} cases ran, of which {failed} failed, and reached {instructions} instructions of kernels and {functions} functions"
        )?;
        for (part, chosen) in [("--quick", &quick), ("--smoke", &selection.smoke)] {
            let ran: Vec<usize> = chosen.iter().copied().filter(|case| runs[*case].end != End::NotRun).collect();
            let seconds: f64 = ran.iter().map(|case| runs[*case].seconds).sum();
            let (instructions, functions) = reached(&mut ran.iter().copied());
            writeln!(
                to,
                "  {part}: {} cases in {seconds:.0} s of work reach {instructions} and {functions}",
                ran.len()
            )?;
        }
    }
    writeln!(
        to,
        "{} cases were measured; --quick has {}, --smoke {}:",
        cases.len(),
        quick.len(),
        selection.smoke.len()
    )?;
    let mut by_folder: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let (quick, smoke): (HashSet<usize>, HashSet<usize>) =
        (quick.into_iter().collect(), selection.smoke.iter().copied().collect());
    for (at, case) in cases.iter().enumerate() {
        let counts = by_folder.entry(folder(&case.name)).or_default();
        counts[0] += 1;
        counts[1] += usize::from(quick.contains(&at));
        counts[2] += usize::from(smoke.contains(&at));
    }
    for (folder, [all, quick, smoke]) in by_folder {
        writeln!(to, "  {folder:<32} {all:>6} {quick:>6} {smoke:>6}")?;
    }
    Ok(())
}

fn folder(name: &str) -> &str {
    let file = file_part(name);
    file.rfind('/').map_or(file, |end| &file[..end])
}
