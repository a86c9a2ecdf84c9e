//! Chooses a library by its path, or by its version among those on this machine.
use super::probe::{LibraryInfo, ProbeError, probe};
use super::version::VersionRequest;
use super::{Candidate, CudaRelease, FoundLibrary, LibraryCache, LibrarySource, Wanted, find_libraries, find_some};
use crate::child::Workers;
use std::path::{Path, PathBuf};

/// A library to run on.
#[derive(Clone, Debug)]
pub struct ChosenLibrary {
    /// The file, with links resolved.
    pub path: PathBuf,
    /// Its version and functions.
    pub probed: LibraryInfo,
}

/// The reason why no library was chosen.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// Neither a file nor a version.
    #[error("{0}: neither a file nor a version of NCCL like 2.30.7")]
    NeitherPathNorVersion(String),
    /// The file cannot be used.
    #[error("{}: {why}", path.display())]
    Unusable {
        path: PathBuf,
        /// The error of asking it.
        #[source]
        why: ProbeError,
    },
    /// No library of that version is on this machine.
    #[error(
        "there is no NCCL {wanted} on this machine ({}); `collspec nccl fetch {wanted}` gets one",
        versions_text(versions)
    )]
    NoSuchVersion {
        /// The version that was asked for.
        wanted: VersionRequest,
        /// The versions on this machine.
        versions: Vec<String>,
    },
}

fn versions_text(versions: &[String]) -> String {
    if versions.is_empty() { "none was found".to_owned() } else { format!("there is {}", versions.join(", ")) }
}

/// The library that `spec` names: a path, or a version (`2.30.7`; `2.30` is the newest patch of it). Of several files of
/// one version those that are not slimmed come first, because they run anywhere, and then a fetched one, because no other program changes it.
///
/// # Errors
///
/// `spec` is neither a file nor a version, the file cannot be used, or the version is not on this machine.
pub fn choose(spec: &str, workers: &Workers) -> Result<ChosenLibrary, ChooseError> {
    let path = Path::new(spec);
    let version = VersionRequest::parse(spec);
    // A text that is a version means the version, even if the working folder has a file of that name.
    if spec.contains('/') || (version.is_none() && path.is_file()) {
        let probed = probe(path, workers).map_err(|why| ChooseError::Unusable { path: path.to_owned(), why })?;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        return Ok(ChosenLibrary { path, probed });
    }
    let wanted = version.ok_or_else(|| ChooseError::NeitherPathNorVersion(spec.to_owned()))?;
    if wanted.is_whole()
        && let Some(library) = fetched_whole(wanted, spec, workers)
    {
        return Ok(library);
    }
    // Those that were fetched as another version cannot match, and are asked only for the error's list.
    best_match(wanted, find_some(workers, |candidate| may_match(wanted, candidate)))
        .or_else(|_| best_match(wanted, find_libraries(workers)))
}

/// The library that was fetched as this version, with the machine code of GPUs. None on this machine is preferred to it, so none has to be
/// searched for or asked.
fn fetched_whole(wanted: VersionRequest, spec: &str, workers: &Workers) -> Option<ChosenLibrary> {
    let whole = Wanted { version: spec.to_owned(), cuda: CudaRelease::default(), slim: false };
    let path = LibraryCache::of_user().ok()?.library_path(&whole).canonicalize().ok()?;
    let probed = probe(&path, workers).ok().filter(|probed| !probed.slimmed && wanted.matches(probed.version))?;
    Some(ChosenLibrary { path, probed })
}

/// False for a library that was fetched as another version.
fn may_match(wanted: VersionRequest, candidate: &Candidate) -> bool {
    let fetched = Some(&candidate.path).filter(|_| candidate.source == LibrarySource::Fetched);
    let folder = fetched.and_then(|path| path.parent()?.file_name()?.to_str());
    let version = folder.and_then(|name| VersionRequest::parse(name.split('+').next()?));
    version.is_none_or(|version| wanted.admits(version))
}

fn best_match(wanted: VersionRequest, found: Vec<FoundLibrary>) -> Result<ChosenLibrary, ChooseError> {
    let usable = found.into_iter().filter_map(|found| Some((found.source, found.path, found.probed.ok()?)));
    let (fits, others): (Vec<_>, Vec<_>) = usable.partition(|(_, _, probed)| wanted.matches(probed.version));
    // Of equal elements the last one is the maximum, so the order is reversed to prefer those found first.
    let best = fits
        .into_iter()
        .rev()
        .max_by_key(|(source, _, probed)| (probed.version, !probed.slimmed, *source == LibrarySource::Fetched));
    let Some((_, path, probed)) = best else {
        let mut versions: Vec<_> = others.into_iter().map(|(_, _, probed)| probed.version).collect();
        versions.sort_unstable();
        versions.dedup();
        let versions = versions.into_iter().map(crate::backend::version_text).collect();
        return Err(ChooseError::NoSuchVersion { wanted, versions });
    };
    Ok(ChosenLibrary { path, probed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, source: LibrarySource, version: i32) -> FoundLibrary {
        let probed = if version > 0 {
            Ok(LibraryInfo {
                version,
                maker: nccl_sys::Maker::Nvidia,
                symbols: Vec::new(),
                slimmed: path.ends_with("slim"),
            })
        } else {
            Err(ProbeError::Unusable("no".into()))
        };
        FoundLibrary { path: path.into(), source, probed }
    }

    fn all() -> Vec<FoundLibrary> {
        vec![
            found("/a", LibrarySource::LoaderPath, 22105),
            found("/b", LibrarySource::Python, 23003),
            found("/c", LibrarySource::Cuda, 23003),
            found("/d", LibrarySource::Cuda, 0),
            found("/e", LibrarySource::Fetched, 22105),
            found("/f", LibrarySource::Fetched, 22903),
            found("/slim", LibrarySource::Fetched, 23003),
            found("/another/slim", LibrarySource::Fetched, 22705),
        ]
    }

    #[test]
    fn the_newest_patch_then_the_fetched_then_the_first() {
        let best = |text: &str| best_match(VersionRequest::parse(text).unwrap(), all());
        assert_eq!(best("2.30").unwrap().path, Path::new("/b"));
        assert_eq!(best("2.21.5").unwrap().path, Path::new("/e"));
        assert_eq!(best("2.29").unwrap().path, Path::new("/f"));
        assert_eq!(best("2.27.5").unwrap().path, Path::new("/another/slim"));
        let words = best("2.30.7").unwrap_err().to_string();
        assert!(
            words.contains("there is 2.21.5, 2.27.5, 2.29.3, 2.30.3") && words.contains("nccl fetch 2.30.7"),
            "{words}"
        );
    }

    #[test]
    fn libraries_that_were_fetched_as_another_version_are_not_asked() {
        let may = |text: &str, path: &str, source| {
            may_match(VersionRequest::parse(text).unwrap(), &Candidate { path: path.into(), source })
        };
        let fetched = |text: &str, path: &str| may(text, path, LibrarySource::Fetched);
        assert!(fetched("2.30.7", "/c/2.30.7+slim/libnccl.so.2") && fetched("2.30", "/c/2.30.7/libnccl.so.2"));
        assert!(!fetched("2.30.7", "/c/2.30.3/libnccl.so.2") && !fetched("2.3", "/c/2.30.7/libnccl.so.2"));
        assert!(fetched("2.30.7", "/c/mine/libnccl.so.2"), "its version is not known from its name");
        assert!(may("2.30.7", "/c/2.30.3/libnccl.so.2", LibrarySource::LoaderPath));
    }

    #[test]
    fn what_is_neither_file_nor_version_is_said_to_be() {
        let error = choose("newest", &Workers::CurrentExe).unwrap_err();
        assert!(matches!(error, ChooseError::NeitherPathNorVersion(_)), "{error}");
        let error = choose("/no/such/libnccl.so.2", &Workers::Command("/no/such/program".into())).unwrap_err();
        assert!(matches!(error, ChooseError::Unusable { .. }), "{error}");
    }
}
