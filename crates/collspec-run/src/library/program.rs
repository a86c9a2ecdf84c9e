//! Commands of other programs. The working folder affects neither the file that runs nor the libraries that it loads.
//! Python, pip, uv and ldconfig come from the absolute folders of PATH alone, and Python runs isolated.
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable with the folders of the loader.
const LOADER_PATH: &str = "LD_LIBRARY_PATH";

/// A command for the program of this name in the absolute folders of PATH; `None` if it is not found. Its working folder is `/`
/// unless the caller sets another.
pub fn command_for(name: &str) -> Option<Command> {
    program_in(name, &env::var_os("PATH")?)
}

fn program_in(name: &str, path: &OsString) -> Option<Command> {
    let folders: Vec<PathBuf> = env::split_paths(path).filter(|folder| folder.is_absolute()).collect();
    let file = folders.iter().map(|folder| folder.join(name)).find(|file| is_executable(file))?;
    let mut command = Command::new(file);
    command.current_dir("/");
    // Programs that it starts itself must be found in the same folders.
    if let Ok(path) = env::join_paths(&folders) {
        command.env("PATH", path);
    }
    // Relative folders in the loader's path would be those of the working folder.
    command.envs(loader_path());
    Some(command)
}

/// The absolute folders of a list like LD_LIBRARY_PATH. Empty and relative entries mean folders of the working folder.
pub fn absolute_folders(list: &OsString) -> OsString {
    // The loader also splits at semicolons.
    let folders =
        list.as_bytes().split(|byte| matches!(byte, b':' | b';')).map(|folder| Path::new(OsStr::from_bytes(folder)));
    env::join_paths(folders.filter(|folder| folder.is_absolute())).unwrap_or_default()
}

/// The variable to set for a child, if this process's own value has folders that depend on the working folder.
pub fn loader_path() -> Option<(String, String)> {
    let now = env::var_os(LOADER_PATH)?;
    let clean = absolute_folders(&now);
    (clean != now).then(|| (LOADER_PATH.to_owned(), clean.to_string_lossy().into_owned()))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn programs_come_from_absolute_folders_only() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        for at in [&one, &two] {
            fs::create_dir(at).unwrap();
            fs::write(at.join("tool"), "#!/bin/sh\npwd; echo \"$PATH\"\n").unwrap();
        }
        fs::set_permissions(two.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        // The file of that name in `one` is not executable.
        let path = env::join_paths([Path::new(""), Path::new("."), Path::new("bin"), &one, &two]).unwrap();
        let mut command = program_in("tool", &path).unwrap();
        assert_eq!(command.get_program(), two.join("tool"));
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(said, format!("/\n{}:{}\n", one.display(), two.display()));
        assert!(program_in("tool", &env::join_paths(["", ".", "bin"]).unwrap()).is_none());
        assert!(program_in("other", &path).is_none());
    }

    #[test]
    fn relative_folders_are_dropped() {
        assert_eq!(absolute_folders(&":/a:b:/c/d:.:".into()), "/a:/c/d");
        assert_eq!(absolute_folders(&"/none;.;x;/c".into()), "/none:/c");
        assert_eq!(absolute_folders(&"".into()), "");
    }
}
