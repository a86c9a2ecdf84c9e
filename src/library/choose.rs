//! The one library that is meant: by its path, or by its version among those that are here.
use super::probe::{ProbeError, Probed, probe};
use super::version::Wanted;
use super::{Found, Source, find};
use crate::child::Workers;
use std::path::{Path, PathBuf};

/// A library to run on.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The file, with links resolved.
    pub path: PathBuf,
    /// What it said of itself.
    pub probed: Probed,
}

/// Why no library was chosen.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// Neither a file nor a version.
    #[error("{0}: neither a file nor a version of NCCL such as 2.30.7")]
    Unclear(String),
    /// The file cannot be used.
    #[error("{}: {why}", path.display())]
    Unusable {
        /// As it was given.
        path: PathBuf,
        /// What it says.
        #[source]
        why: ProbeError,
    },
    /// No library of that version is here.
    #[error("there is no NCCL {wanted} on this machine ({}); `collspec nccl fetch {wanted}` gets one", there(versions))]
    NoSuchVersion {
        /// What was asked for.
        wanted: Wanted,
        /// What there is.
        versions: Vec<String>,
    },
}

fn there(versions: &[String]) -> String {
    if versions.is_empty() { "none was found".to_owned() } else { format!("there is {}", versions.join(", ")) }
}

/// The library that `spec` names: a path, or a version (`2.30.7`; `2.30` is the newest patch of it). Of several files of
/// one version a fetched one goes first: nobody else changes it.
pub fn choose(spec: &str, workers: &Workers) -> Result<Chosen, ChooseError> {
    let path = Path::new(spec);
    let version = Wanted::parse(spec);
    // A text that is a version means the version, even if the working folder has a file of that name.
    if spec.contains('/') || (version.is_none() && path.is_file()) {
        let probed = probe(path, workers).map_err(|why| ChooseError::Unusable { path: path.to_owned(), why })?;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        return Ok(Chosen { path, probed });
    }
    let wanted = version.ok_or_else(|| ChooseError::Unclear(spec.to_owned()))?;
    best(wanted, find(workers))
}

fn best(wanted: Wanted, found: Vec<Found>) -> Result<Chosen, ChooseError> {
    let usable = found.into_iter().filter_map(|found| Some((found.source, found.path, found.probed.ok()?)));
    let (fits, others): (Vec<_>, Vec<_>) = usable.partition(|(_, _, probed)| wanted.matches(probed.version));
    // the last of equals is the maximum: those found first shall be it
    let best = fits.into_iter().rev().max_by_key(|(source, _, probed)| (probed.version, *source == Source::Fetched));
    let Some((_, path, probed)) = best else {
        let mut versions: Vec<_> = others.into_iter().map(|(_, _, probed)| probed.version).collect();
        versions.sort_unstable();
        versions.dedup();
        let versions = versions.into_iter().map(crate::backend::version_text).collect();
        return Err(ChooseError::NoSuchVersion { wanted, versions });
    };
    Ok(Chosen { path, probed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, source: Source, version: i32) -> Found {
        let probed = if version > 0 {
            Ok(Probed { version, maker: nccl_sys::Maker::Nvidia, symbols: Vec::new() })
        } else {
            Err(ProbeError::Unusable("no".into()))
        };
        Found { path: path.into(), source, probed }
    }

    fn all() -> Vec<Found> {
        vec![
            found("/a", Source::LoaderPath, 22105),
            found("/b", Source::Python, 23003),
            found("/c", Source::Cuda, 23003),
            found("/d", Source::Cuda, 0),
            found("/e", Source::Fetched, 22105),
            found("/f", Source::Fetched, 22903),
        ]
    }

    #[test]
    fn the_newest_patch_then_the_fetched_then_the_first() {
        let best = |text: &str| best(Wanted::parse(text).unwrap(), all());
        assert_eq!(best("2.30").unwrap().path, Path::new("/b"));
        assert_eq!(best("2.21.5").unwrap().path, Path::new("/e"));
        assert_eq!(best("2.29").unwrap().path, Path::new("/f"));
        let words = best("2.30.7").unwrap_err().to_string();
        assert!(words.contains("there is 2.21.5, 2.29.3, 2.30.3") && words.contains("nccl fetch 2.30.7"), "{words}");
    }

    #[test]
    fn what_is_neither_file_nor_version_is_said_to_be() {
        let error = choose("newest", &Workers::CurrentExe).unwrap_err();
        assert!(matches!(error, ChooseError::Unclear(_)), "{error}");
        let error = choose("/no/such/libnccl.so.2", &Workers::Command("/no/such/program".into())).unwrap_err();
        assert!(matches!(error, ChooseError::Unusable { .. }), "{error}");
    }
}
