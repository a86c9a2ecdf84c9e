//! Checks that the library that a process has really loaded is the requested one, and the only one.
//!
//! A worker's first message names the files of NCCL libraries that it has mapped, from `/proc/self/maps`: what was asked for says
//! nothing about LD_PRELOAD or a second library.
use super::{Backend, Error};
use crate::job::MappedLibrary;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Refuses a process that has mapped these files if its library is not the backend's. Information that the kernel withholds is not
/// a reason to refuse.
///
/// # Errors
///
/// Another file is mapped in place of the library, or another NCCL library in addition to it.
pub fn check(backend: &Backend, mapped: Option<&[MappedLibrary]>) -> Result<(), Error> {
    let (Backend::Nccl { library, .. }, Some(mapped)) = (backend, mapped) else { return Ok(()) };
    let paths = || mapped.iter().map(|library| library.path.clone()).collect::<Vec<_>>();
    let Some(asked) = mapped.iter().find(|mapped| is_file(mapped, library)) else {
        return Err(Error::OtherLibrary { asked: library.clone(), mapped: paths() });
    };
    if mapped.iter().any(|mapped| !mapped.is_same_file(asked)) {
        return Err(Error::MixedLibraries { mapped: paths() });
    }
    Ok(())
}

fn is_file(mapped: &MappedLibrary, path: &Path) -> bool {
    if mapped.is_replaced() {
        return false;
    }
    let resolved = path.canonicalize();
    if resolved.as_deref().unwrap_or(path) == Path::new(&mapped.path) {
        return true;
    }
    // One file may have several names.
    let identity = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
    identity(path).is_some_and(|asked| identity(Path::new(&mapped.path)) == Some(asked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Driver;
    use std::fs;

    fn mapped(path: &Path, inode: u64) -> MappedLibrary {
        MappedLibrary { path: path.display().to_string(), device: "08:01".into(), inode }
    }

    #[test]
    fn only_the_library_that_was_asked_for_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        fs::write(at("libnccl.so.2"), "").unwrap();
        fs::write(at("other"), "").unwrap();
        std::os::unix::fs::symlink(at("libnccl.so.2"), at("link")).unwrap();
        fs::hard_link(at("libnccl.so.2"), at("name")).unwrap();
        let backend = |library: &Path| Backend::Nccl { library: library.to_owned(), driver: Driver::Machine };
        let (own, other) = (mapped(&at("libnccl.so.2"), 1), mapped(&at("other"), 2));
        for asked in ["libnccl.so.2", "link", "name"] {
            assert!(check(&backend(&at(asked)), Some(std::slice::from_ref(&own))).is_ok(), "{asked}");
        }
        let check = |mapped: &[MappedLibrary]| check(&backend(&at("link")), Some(mapped));
        assert!(matches!(check(&[]), Err(Error::OtherLibrary { .. })));
        assert!(matches!(check(std::slice::from_ref(&other)), Err(Error::OtherLibrary { .. })));
        let error = check(&[own.clone(), other]).unwrap_err();
        assert!(matches!(error, Error::MixedLibraries { .. }), "{error}");
        let replaced = MappedLibrary { path: format!("{} (deleted)", own.path), ..own };
        assert!(matches!(check(&[replaced]), Err(Error::OtherLibrary { .. })));
    }

    #[test]
    fn software_has_no_file_and_a_kernel_may_tell_nothing() {
        assert!(check(&Backend::Soft, Some(&[mapped(Path::new("/x"), 1)])).is_ok());
        assert!(check(&Backend::Nccl { library: "/x".into(), driver: Driver::Machine }, None).is_ok());
    }
}
