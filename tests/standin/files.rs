//! Libraries as files: what each exports, and what the program must not export.
use collspec_run::library::standin;
use std::path::Path;

/// The names that a 64-bit little-endian ELF file defines for others.
fn exported(path: &Path) -> Vec<String> {
    const DYNAMIC_SYMBOLS: u64 = 11;
    const SYMBOL: usize = 24;
    let bytes = std::fs::read(path).unwrap();
    let number = |at: usize, len: usize| {
        let mut word = [0; 8];
        word[..len].copy_from_slice(&bytes[at..at + len]);
        u64::from_le_bytes(word)
    };
    assert_eq!((&bytes[..4], bytes[4], bytes[5]), (b"\x7fELF".as_slice(), 2, 1));
    let (start, size, count) = (number(0x28, 8) as usize, number(0x3a, 2) as usize, number(0x3c, 2) as usize);
    let section = |i: usize| start + i * size;
    let symbols = (0..count).map(section).find(|at| number(at + 4, 4) == DYNAMIC_SYMBOLS).unwrap();
    let names = number(section(number(symbols + 0x28, 4) as usize) + 0x18, 8) as usize;
    let (from, len) = (number(symbols + 0x18, 8) as usize, number(symbols + 0x20, 8) as usize);
    (from..from + len)
        .step_by(SYMBOL)
        .filter(|at| number(at + 6, 2) != 0)
        .map(|at| {
            let name = &bytes[names + number(at, 4) as usize..];
            String::from_utf8(name[..name.iter().position(|byte| *byte == 0).unwrap()].to_vec()).unwrap()
        })
        .collect()
}

#[test]
fn each_library_exports_its_own_and_the_program_nothing() {
    let of_vendors = |names: &[String]| {
        let starts = |name: &String| ["nccl", "cu", "collspec"].iter().any(|start| name.starts_with(start));
        names.iter().filter(|name| starts(name)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(of_vendors(&exported(env!("CARGO_BIN_EXE_collspec").as_ref())), Vec::<String>::new());
    assert_eq!(of_vendors(&exported(&std::env::current_exe().unwrap())), Vec::<String>::new());

    let driver = exported(&standin::folder().unwrap().join("libcuda.so"));
    assert!(driver.iter().all(|name| name.starts_with("cu") || name.starts_with("collspec")), "{driver:?}");
    assert!(driver.iter().any(|name| name == "cuMemAlloc_v2"));
    let mut library = exported(&standin::library().unwrap());
    library.sort();
    let mut wanted = soft_nccl::table().present();
    wanted.push("collspecStandin");
    wanted.sort_unstable();
    assert_eq!(library, wanted);
}

#[test]
fn the_folder_holds_the_vendors_names_and_both_driver_names_are_one_file() {
    let folder = standin::folder().unwrap();
    let mut names: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.retain(|name| !name.contains(".new.")); // another process may be at it
    assert_eq!(names, ["libcuda.so", "libcuda.so.1", "libnccl.so.2"]);
    let target = |name: &str| std::fs::canonicalize(folder.join(name)).unwrap();
    assert_eq!(target("libcuda.so"), target("libcuda.so.1"));
    assert_ne!(target("libcuda.so"), target("libnccl.so.2"));
}
