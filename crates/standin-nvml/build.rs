//! NCCL opens `libnvidia-ml.so.1`; the loader gives it a library that is loaded already under that name.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    println!("cargo:rerun-if-changed=build.rs");
}
