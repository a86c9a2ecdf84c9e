//! Files that are scenarios: every one is read into cases.
use collspec::scenario::{self, Case, DiscoverError};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/valid")
}

fn cases(name: &str) -> Vec<Case> {
    let path = folder().join(format!("{name}.toml"));
    scenario::load(&path, name, scenario::MAX_BYTES).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_file_is_read() -> Result<(), DiscoverError> {
    let files = scenario::discover(&[folder()])?;
    assert!(files.len() >= 9, "{} files", files.len());
    for f in files {
        assert!(!cases(&f.name).is_empty(), "{} has no case", f.name);
    }
    Ok(())
}

#[test]
fn a_sweep_has_its_cases_and_names() {
    let all = cases("all_gather_sweep");
    assert_eq!(all.len(), 44);
    let names: Vec<_> = all.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names[0], "all_gather_sweep[world_size=2,dtype=i8,count=1,in_place=false]");
    assert!(!names.contains(&"all_gather_sweep[world_size=2,dtype=f32,count=7,in_place=true]"));
    assert_eq!(all[43].world_size.v, 8);
}
