//! `collspec nccl`.
use super::args::{Nccl, NcclFetch};
use super::exit::Exit;
use super::terminal;
use crate::child::Workers;
use crate::library::{Cache, Found, Probed, fetch, find, probe};
use crate::printable::{one_line, printable};
use std::io::Write;

pub fn nccl(args: &Nccl) -> anyhow::Result<Exit> {
    match args {
        Nccl::List => list(),
        Nccl::Fetch(args) => get(args),
    }
}

fn list() -> anyhow::Result<Exit> {
    let found = find(&Workers::CurrentExe);
    let mut out = terminal::out();
    if found.is_empty() {
        writeln!(
            out,
            "no NCCL library was found: not in LD_LIBRARY_PATH, the loader's cache, Python's packages, conda,"
        )?;
        writeln!(out, "the system's CUDA folders, or among those fetched; `collspec nccl fetch 2.30.7` gets one")?;
    }
    for library in &found {
        write!(out, "{}", entry(library))?;
    }
    out.flush()?;
    Ok(Exit::ALL_PASSED)
}

fn get(args: &NcclFetch) -> anyhow::Result<Exit> {
    let cache = Cache::of_user()?;
    let place = cache.place(&args.version, args.cuda);
    if !place.is_file() {
        writeln!(terminal::err(), "collspec: fetching NCCL {} for {}, some 300 MB", args.version, args.cuda)?;
    }
    let fetched = fetch(&args.version, args.cuda, &cache)?;
    let mut out = terminal::out();
    writeln!(out, "{}", printable(&fetched.path.display().to_string()))?;
    out.flush()?;
    let mut err = terminal::err();
    match fetched.hash {
        Some(hash) => writeln!(err, "collspec: sha256 {hash}, as the wheel lists it")?,
        None => writeln!(err, "collspec: it was there already")?,
    }
    match probe(&fetched.path, &Workers::CurrentExe) {
        Ok(probed) => writeln!(err, "collspec: NCCL {}; {}", probed.version_text(), lack(&probed))?,
        Err(error) => writeln!(err, "collspec: it cannot be used on this machine: {}", one_line(&error.to_string()))?,
    }
    Ok(Exit::ALL_PASSED)
}

/// A library in two lines: version and file, then where it was found and what it lacks.
fn entry(library: &Found) -> String {
    let path = library.path.display().to_string();
    let path = printable(&path);
    match &library.probed {
        Ok(probed) => {
            format!("{:<8} {path}\n         {}; {}\n", probed.version_text(), library.source, lack(probed))
        }
        Err(error) => format!("unusable {path}\n         {}; {}\n", library.source, one_line(&error.to_string())),
    }
}

/// What a library lacks, by release.
pub fn lack(probed: &Probed) -> String {
    let mut lacks = probed.lacks();
    if lacks.is_empty() {
        return "it lacks nothing that collspec knows".to_owned();
    }
    lacks.sort_by_key(|(_, since)| nccl_release(since));
    let releases = lacks.chunk_by(|a, b| a.1 == b.1).map(|of| {
        let shown = if of.len() > 4 { 3 } else { of.len() };
        let mut names: Vec<_> = of.iter().take(shown).map(|(name, _)| (*name).to_owned()).collect();
        if of.len() > shown {
            names.push(format!("{} more", of.len() - shown));
        }
        format!("{} {}", of.first().map_or("", |(_, since)| *since), names.join(", "))
    });
    let releases = releases.collect::<Vec<_>>().join("; ");
    let functions = if lacks.len() == 1 { "function" } else { "functions" };
    format!("it lacks {} {functions}, by release: {releases}", lacks.len())
}

/// Releases in their order: 2.9 before 2.18.
fn nccl_release(since: &str) -> Vec<u32> {
    since.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::{ProbeError, Source};

    const MAKER: nccl_sys::Maker = nccl_sys::Maker::Nvidia;

    #[test]
    fn a_library_in_two_lines() {
        let names = |releases: &[&str]| {
            let all = Probed { version: 0, maker: MAKER, symbols: Vec::new() }.lacks();
            all.into_iter().filter(|(_, since)| !releases.contains(since)).map(|(name, _)| name.to_owned()).collect()
        };
        let library = |probed| Found { path: "/a/libnccl.so.2".into(), source: Source::Python, probed };
        let all = library(Ok(Probed { version: 23007, maker: MAKER, symbols: names(&[]) }));
        assert_eq!(
            entry(&all),
            "2.30.7   /a/libnccl.so.2\n         Python's packages; it lacks nothing that collspec knows\n"
        );
        let old = library(Ok(Probed { version: 22605, maker: MAKER, symbols: names(&["2.7", "2.28", "2.29"]) }));
        assert!(
            entry(&old).ends_with(
                "it lacks 14 functions, by release: 2.7 ncclSend, ncclRecv; 2.28 ncclAlltoAll, ncclGather, ncclScatter; \
                 2.29 ncclCommGetUniqueId, ncclCommGrow, ncclWinGetUserPtr, 6 more\n"
            ),
            "{}",
            entry(&old)
        );
        let bad = library(Err(ProbeError::Unusable("it is a text".into())));
        assert_eq!(entry(&bad), "unusable /a/libnccl.so.2\n         Python's packages; it is a text\n");
    }
}
