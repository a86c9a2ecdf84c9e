//! Tells the program where cargo puts the shared libraries that become part of an installed command.
use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(embeds_libraries)");
    // A program in a checkout finds them in `deps`: tests need not link megabytes into it. Cargo gives the libraries names without a hash only
    // if their sources are a path, which those of a registry or of a git address are not.
    let sources = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let is_path = sources.join("gpuless/driver").is_dir() && !sources.to_string_lossy().contains("/git/checkouts/");
    let is_release = is_path && env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    // `OUT_DIR` is `PROFILE/build/PACKAGE/out`.
    let folder = env::var_os("OUT_DIR").and_then(|out| Some(Path::new(&out).ancestors().nth(3)?.join("deps")));
    if let (true, Some(folder)) = (is_release, folder) {
        println!("cargo::rustc-cfg=embeds_libraries");
        println!("cargo::rustc-env=COLLSPEC_BUILT_LIBRARIES={}", folder.display());
    }
}
