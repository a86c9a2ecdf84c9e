//! `collspec new` writes scenarios that pass.
use crate::support::Home;

#[test]
fn everything_that_new_lists_is_written_and_passes() {
    let home = Home::new();
    let list = home.run(&["new", "--list"]);
    let names: Vec<&str> =
        list.out.lines().filter_map(|line| line.strip_prefix("  ")).filter_map(|line| line.split(' ').next()).collect();
    for pattern in ["all_reduce", "fsdp", "tensor_parallel", "moe", "pipeline", "gradient_buckets"] {
        assert!(names.contains(&pattern), "{pattern}: {list}");
    }
    for name in &names {
        let wrote = home.run(&["new", name]);
        assert_eq!(wrote.code, 0, "{wrote}");
        assert!(wrote.err.contains(&format!("`collspec run {name}.toml`")), "{wrote}");
    }
    let text = std::fs::read_to_string(home.path("fsdp.toml")).unwrap();
    let schema = text.lines().next().unwrap().strip_prefix("#:schema ./").unwrap();
    let printed = home.run(&["schema"]);
    assert_eq!(std::fs::read_to_string(home.path(schema)).unwrap(), printed.out);
    let run = home.run(&["run", "--backend", "soft", "."]);
    assert_eq!(run.code, 0, "{run}");
}

#[test]
fn new_keeps_a_file_that_exists_and_corrects_a_misspelt_name() {
    let home = Home::new();
    home.file("fsdp.toml", "mine");
    let exists = home.run(&["new", "fsdp"]);
    assert_eq!(exists.code, 2, "{exists}");
    assert_eq!(std::fs::read_to_string(home.path("fsdp.toml")).unwrap(), "mine");

    let misspelt = home.run(&["new", "pipelin"]);
    assert_eq!(misspelt.code, 2, "{misspelt}");
    assert!(misspelt.err.contains("did you mean `pipeline`?"), "{misspelt}");
}

/// A folder from a stranger can have a link under the name of the schema.
#[test]
fn new_writes_the_schema_over_no_file_but_its_own() {
    let home = Home::new();
    home.file("mine", "kept");
    std::os::unix::fs::symlink("mine", home.path(".scenario-schema.json")).unwrap();
    let linked = home.run(&["new", "fsdp"]);
    assert!(linked.code == 0 && linked.err.contains("but not over .scenario-schema.json"), "{linked}");
    assert_eq!(std::fs::read_to_string(home.path("mine")).unwrap(), "kept");

    home.file("there/.scenario-schema.json", "{\"title\": \"another\"}");
    let another = home.run(&["new", "moe", "-o", "there/a.toml"]);
    assert!(another.code == 0 && another.err.contains("which is not collspec's"), "{another}");
    assert_eq!(std::fs::read_to_string(home.path("there/.scenario-schema.json")).unwrap(), "{\"title\": \"another\"}");

    home.file("old/.scenario-schema.json", "{\"title\": \"A scenario of collspec\"}");
    let old = home.run(&["new", "moe", "-o", "old/a.toml"]);
    assert!(old.code == 0 && old.err.contains("and .scenario-schema.json for editors"), "{old}");
    let printed = home.run(&["schema"]);
    assert_eq!(std::fs::read_to_string(home.path("old/.scenario-schema.json")).unwrap(), printed.out);
}
