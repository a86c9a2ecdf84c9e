//! Makes the table of this repository's scenarios, which a release build carries so that an installed program has them.
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let corpus = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("scenarios").canonicalize()?;
    let mut table = String::from("&[\n");
    // A debug build reads the folder itself, so that no change to a scenario builds anything anew.
    if env::var("PROFILE")? == "release" {
        println!("cargo::rerun-if-changed={}", corpus.display());
        let mut files = Vec::new();
        list(&corpus, &mut files)?;
        files.sort();
        for file in files {
            writeln!(table, "    ({:?}, include_str!({file:?})),", file.strip_prefix(&corpus)?)?;
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=CORPUS={}", corpus.display());
    table.push_str("]\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("corpus.rs"), table)?;
    Ok(())
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
