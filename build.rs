//! Tells the program where cargo puts the shared libraries that become part of an installed command.
use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(embeds_libraries)");
    // A program in a checkout finds them in `deps`: tests need not link megabytes into it.
    let is_release = env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    // `OUT_DIR` is `PROFILE/build/PACKAGE/out`.
    let folder = env::var_os("OUT_DIR").and_then(|out| Some(Path::new(&out).ancestors().nth(3)?.join("deps")));
    if let (true, Some(folder)) = (is_release, folder) {
        println!("cargo::rustc-cfg=embeds_libraries");
        println!("cargo::rustc-env=COLLSPEC_BUILT_LIBRARIES={}", folder.display());
    }
}
