//! `collspec nccl`.
use super::args::{NcclCommand, NcclFetchArgs};
use super::download_bar::DownloadBar;
use super::exit::Exit;
use super::terminal;
use crate::fetch::{FetchError, Kept, elf, fetch};
use collspec_core::printable::{one_line, printable, printable_lines};
use collspec_run::child::Workers;
use collspec_run::library::{CudaRelease, FoundLibrary, LibraryCache, LibraryInfo, Wanted, find_libraries};
use collspec_suite::suite::backend::fetching_words;
use collspec_suite::suite::with_causes;
use std::io::Write;
use std::path::PathBuf;

pub fn nccl(args: &NcclCommand) -> anyhow::Result<Exit> {
    match args {
        NcclCommand::List => list(),
        NcclCommand::Fetch(args) => get(args),
    }
}

fn list() -> anyhow::Result<Exit> {
    let found = find_libraries(&Workers::CurrentExe);
    let mut out = terminal::out();
    if found.is_empty() {
        writeln!(
            out,
            "no NCCL library was found: not in LD_LIBRARY_PATH, the loader's cache, Python's packages, conda,"
        )?;
        writeln!(out, "the system's CUDA folders, or among those fetched; {}", fetching_words())?;
    }
    for library in &found {
        write!(out, "{}", library_entry(library))?;
    }
    out.flush()?;
    Ok(Exit::ALL_PASSED)
}

fn get(args: &NcclFetchArgs) -> anyhow::Result<Exit> {
    let NcclFetchArgs { version, cuda, slim } = args;
    let Some(path) = fetch_library(&Wanted { version: version.clone(), cuda: *cuda, slim: *slim })? else {
        return Ok(Exit::INTERRUPTED);
    };
    let mut out = terminal::out();
    writeln!(out, "{}", printable(&path.display().to_string()))?;
    out.flush()?;
    // Its file is read and not opened as a library, so its code does not run.
    let exports = elf::read(&path)?.exports;
    writeln!(terminal::err(), "collspec: NCCL {version}; {}", lacking_in_short(&LibraryInfo::of_exports(exports)))?;
    Ok(Exit::ALL_PASSED)
}

/// True if this machine has a library of this version.
pub fn has_version(version: &str) -> bool {
    let is_it = |library: &FoundLibrary| library.probed.as_ref().is_ok_and(|probed| probed.version_text() == version);
    find_libraries(&Workers::CurrentExe).iter().any(is_it)
}

/// Fetches a library of this version; the exit code if there is none afterwards.
///
/// # Errors
///
/// The messages cannot be written.
pub fn fetch_version(version: &str) -> anyhow::Result<Option<Exit>> {
    let wanted = Wanted { version: version.to_owned(), cuda: CudaRelease::default(), slim: false };
    match fetch_library(&wanted) {
        Ok(Some(_)) => Ok(None),
        Ok(None) => Ok(Some(Exit::INTERRUPTED)),
        Err(error) => {
            let why = printable_lines(&with_causes(&*error)).into_owned();
            writeln!(
                terminal::err(),
                "collspec: there is no NCCL {version} on this machine, and fetching it failed: {why}"
            )?;
            Ok(Some(Exit::BACKEND_MISSING))
        }
    }
}

/// Fetches a library, and tells about it; `None` if that was interrupted.
fn fetch_library(wanted: &Wanted) -> anyhow::Result<Option<PathBuf>> {
    let cache = LibraryCache::of_user()?;
    if !cache.library_path(wanted).is_file() {
        let Wanted { version, cuda, .. } = wanted;
        writeln!(terminal::err(), "collspec: fetching NCCL {version} for {cuda}, some 300 MB")?;
    }
    let bar = DownloadBar::new();
    let fetched = fetch(wanted, &cache, &|progress| bar.show(progress));
    bar.end();
    let fetched = match fetched {
        Err(FetchError::Interrupted) => {
            writeln!(terminal::err(), "collspec: interrupted; the cache is as it was")?;
            return Ok(None);
        }
        fetched => fetched?,
    };
    let mut err = terminal::err();
    match fetched.hash {
        Some(hash) => writeln!(err, "collspec: sha256 {hash}, as the wheel lists it")?,
        None => writeln!(err, "collspec: the library was fetched before")?,
    }
    if let Some(Kept { bytes, of }) = fetched.kept {
        writeln!(
            err,
            "collspec: slimmed: {} of {} MB kept; it runs on software GPUs and on no others",
            bytes / 1_000_000,
            of / 1_000_000
        )?;
    }
    Ok(Some(fetched.path))
}

/// A library in two lines: version and file, then the place in which it was found and the functions that it lacks.
fn library_entry(library: &FoundLibrary) -> String {
    let path = library.path.display().to_string();
    let path = printable(&path);
    match &library.probed {
        Ok(probed) => {
            let slimmed = if probed.slimmed { "slimmed, so it runs on software GPUs alone; " } else { "" };
            format!(
                "{:<8} {path}\n         {}; {slimmed}{}\n",
                probed.version_text(),
                library.source,
                lacking_text(probed)
            )
        }
        Err(error) => format!("unusable {path}\n         {}; {}\n", library.source, one_line(&error.to_string())),
    }
}

/// How many functions a library lacks, for a page that is about more than libraries.
pub fn lacking_in_short(probed: &LibraryInfo) -> String {
    match probed.missing_functions().len() {
        0 => "it has every function that collspec knows".to_owned(),
        1 => "it lacks 1 function, which `collspec nccl list` names".to_owned(),
        lacks => format!("it lacks {lacks} functions, which `collspec nccl list` names"),
    }
}

/// The functions that a library lacks, by release.
fn lacking_text(probed: &LibraryInfo) -> String {
    let mut lacks = probed.missing_functions();
    if lacks.is_empty() {
        return lacking_in_short(probed);
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
    use collspec_run::library::{LibrarySource, ProbeError};

    const MAKER: nccl_sys::Maker = nccl_sys::Maker::Nvidia;

    #[test]
    fn a_library_in_two_lines() {
        let names = |releases: &[&str]| {
            let all = LibraryInfo { version: 0, maker: MAKER, symbols: Vec::new(), slimmed: false }.missing_functions();
            all.into_iter().filter(|(_, since)| !releases.contains(since)).map(|(name, _)| name.to_owned()).collect()
        };
        let library = |probed| FoundLibrary { path: "/a/libnccl.so.2".into(), source: LibrarySource::Python, probed };
        let all = library(Ok(LibraryInfo { version: 23203, maker: MAKER, symbols: names(&[]), slimmed: false }));
        assert_eq!(
            library_entry(&all),
            "2.32.3   /a/libnccl.so.2\n         Python's packages; it has every function that collspec knows\n"
        );
        let old = library(Ok(LibraryInfo {
            version: 22605,
            maker: MAKER,
            symbols: names(&["2.7", "2.28", "2.29"]),
            slimmed: true,
        }));
        assert!(
            library_entry(&old).ends_with(
                "it lacks 15 functions, by release: 2.7 ncclSend, ncclRecv; 2.28 ncclAlltoAll, ncclGather, ncclScatter; \
                 2.29 ncclCommGetUniqueId, ncclCommGrow, ncclWinGetUserPtr, 7 more\n"
            ),
            "{}",
            library_entry(&old)
        );
        assert!(
            library_entry(&old).contains("Python's packages; slimmed, so it runs on software GPUs alone; it lacks")
        );
        let bad = library(Err(ProbeError::Unusable("it is a text".into())));
        assert_eq!(library_entry(&bad), "unusable /a/libnccl.so.2\n         Python's packages; it is a text\n");
    }
}
