//! Small shared libraries, compiled from a few lines of C.
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A folder that is deleted with its contents.
pub struct Folder(TempDir);

impl Folder {
    /// Compiles the library. `None`, with the reason on standard error, if there is no C compiler.
    pub fn new() -> Option<Self> {
        match Command::new("cc").arg("--version").output() {
            Ok(answer) if answer.status.success() => Some(Self(tempfile::tempdir().unwrap())),
            _ => {
                eprintln!("skipped: there is no C compiler (cc) to build small libraries with");
                None
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Every library calls itself `libnccl.so.2`, as every NCCL does.
    pub fn library(&self, name: &str, source: &str) -> PathBuf {
        let c = self.file(&format!("{name}.c"), source);
        let path = self.path(name);
        let done = Command::new("cc")
            .args(["-shared", "-fPIC", "-w", "-Wl,-soname,libnccl.so.2", "-o"])
            .args([&path, &c])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        path
    }
}
