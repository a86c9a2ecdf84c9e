//! Files that are scenarios: every one is read into cases.
use collspec_core::scenario;
use collspec_core::scenario::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    assert_eq!(all[43].world_size.value, 8);
}

#[test]
fn the_short_form_is_one_step_over_in_and_out() {
    let all = cases("short_form");
    let case = &all[0];
    assert!(all.len() == 1 && case.name == "short_form");
    assert_eq!(case.inputs[0].name.value, "in");
    assert_eq!(case.steps.len(), 1);
    assert_eq!(case.steps[0].input().map(|b| b.name.as_str()), Some("in"));
    assert_eq!(case.expect[0].target.name, "out");
    assert!(matches!(&case.inputs[0].content, BufferContent::Rows(rows) if rows.len() == 2));
}

#[test]
fn variants_replace_whole_keys() {
    let all = cases("two_results_and_a_refusal");
    let names: Vec<_> = all.iter().map(|c| c.name.as_str()).collect();
    let stem = "two_results_and_a_refusal";
    assert_eq!(names, ["sum", "avg", "as_written"].map(|v| format!("{stem}[variant={v}]")));
    assert_eq!(all[2].outcome.as_ref().map(|o| o.value.clone()), Some(vec![ExpectedOutcome::Refused]));
    assert!(all[0].outcome.is_none() && all.iter().all(|c| c.swept));
    assert_eq!(all[1].expect.len(), 1);
    assert!(all[2].expect.is_empty());
}

#[test]
fn defaults_reach_the_steps_that_use_them() {
    let all = cases("communicator");
    let comm = |k: usize| match &all[0].steps[k].comm {
        StepComm::Comm(c) => c.value.clone(),
        StepComm::Groups(_) => String::new(),
    };
    assert!((0..4).all(|k| comm(k) == "odd"));
    assert_eq!(all[0].comms[0].name.value, "odd");
}

fn text(text: &str) -> Result<Vec<Case>, String> {
    let file = Arc::new(SourceFile { path: "x.toml".into(), text: text.into() });
    scenario::parse(&file, "x").map_err(|e| e.to_string())
}

#[test]
fn the_nearest_default_wins() -> Result<(), String> {
    let all = text(
        r#"
        world_size = 4
        dtype = "i32"
        reduce = "max"
        inputs.x = { each = "rank", count = 2 }
        inputs.y = { each = "rank", count = 2, dtype = "f64" }
        steps = [
          { op = "all_reduce", in = "x", out = "a" },
          { op = "loop", times = 2, reduce = "prod", groups = [[0, 1], [2, 3]], steps = [
            { op = "all_reduce", in = "y", out = "b" },
            { op = "all_reduce", in = "y", out = "c", reduce = "min", comm = "world" },
          ] },
        ]
        "#,
    )?;
    let case = &all[0];
    assert_eq!(case.inputs.iter().map(|b| b.dtype.name()).collect::<Vec<_>>(), ["i32", "f64"]);
    let reduce = |s: &Step| match &s.kind {
        StepKind::Collective(CollectiveStep { reduce: Some(StepReduction::Builtin(op)), .. }) => {
            op.name().unwrap_or("?")
        }
        _ => "none",
    };
    let inner = case.steps[1].inner();
    assert_eq!([reduce(&case.steps[0]), reduce(&inner[0]), reduce(&inner[1])], ["max", "prod", "min"]);
    assert!(matches!(&inner[0].comm, StepComm::Groups(g) if g.value.len() == 2));
    assert!(matches!(&inner[1].comm, StepComm::Comm(c) if c.value == "world"));
    Ok(())
}

#[test]
fn axes_set_nested_keys_and_name_numbers() -> Result<(), String> {
    let all = text(
        r#"
        world_size = 2
        inputs.x = { each = "k * rank", count = 1 }
        steps = [{ op = "broadcast", in = "x", out = "y" }]
        [matrix]
        "env.NCCL_ALGO" = ["^Ring,Tree"]
        inputs.x.count = [1, 2]
        k = [0.5, 3]
        root = [[0, 0]]
        exclude = [{ k = 3, inputs.x.count = 2 }]
        "#,
    )?;
    let names: Vec<_> = all.iter().map(|c| c.name.as_str()).collect();
    let start = "x[env.NCCL_ALGO=%5ERing";
    assert_eq!(names.len(), 3);
    assert!(!names[0].starts_with(start), "^ needs no escape: {}", names[0]);
    assert_eq!(names[0], "x[env.NCCL_ALGO=^Ring%2CTree,inputs.x.count=1,k=0.5,root=%5B0%2C0%5D]");
    assert!(
        matches!(&all[2].inputs[0].content, BufferContent::All(f) if matches!(f.count, Some(NumberByRank { kind: NumberByRankKind::Int(2), .. })))
    );
    assert_eq!(all[0].env[0].name.value, "NCCL_ALGO");
    Ok(())
}

#[test]
fn files_and_folders_have_names() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let root = dir.path();
    std::fs::create_dir_all(root.join("b/c"))?;
    for name in ["z.toml", "a.toml", "b/c/d.toml", "b/notes.md", ".hidden.toml"] {
        std::fs::write(root.join(name), "")?;
    }
    let names =
        |paths: &[PathBuf]| scenario::discover(paths).map(|l| l.into_iter().map(|s| s.name).collect::<Vec<_>>());
    assert_eq!(names(&[root.to_owned()])?, ["a", "b/c/d", "z"]);
    assert_eq!(names(&[root.join("b/c/d.toml"), root.join("a.toml"), root.join("a.toml")])?, ["a", "d"]);
    let exact = |name: &str| scenario::find_exact(root, name).map(|s| s.path);
    assert_eq!(exact("b/c/d[count=3]"), Some(root.join("b/c/d.toml")));
    assert_eq!(exact("../x"), None);
    assert_eq!(exact("b/none"), None);
    let fails = |paths: &[PathBuf]| names(paths).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(fails(&[root.join("b/notes.md")]).contains(".toml"));
    assert!(fails(&[root.join("nothing")]).contains("No such file"));
    std::fs::create_dir(root.join("empty"))?;
    assert!(fails(&[root.join("empty")]).contains("no .toml file"));
    std::fs::create_dir(root.join("other"))?;
    std::fs::write(root.join("other/a.toml"), "")?;
    let folder = root.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let both = names(&[root.join("a.toml"), root.join("other")])?;
    assert!(both.contains(&format!("{folder}/a")) && both.contains(&"other/a".to_owned()), "{both:?}");
    std::os::unix::fs::symlink(root.join("gone"), root.join("empty/dangling.toml"))?;
    let words = fails(&[root.join("empty")]);
    assert!(words.contains("no .toml file") && words.contains("dangling.toml is passed over"), "{words}");
    Ok(())
}
