//! docs/from-torch.md: it shows and names the files of scenarios/from_torch, and its table has steps of the language.
use collspec_core::scenario::{self, SourceFile};
use std::path::Path;
use std::sync::Arc;

const DOCUMENT: &str = include_str!("../../docs/from-torch.md");

/// Code blocks, each with the path that is linked right before it.
fn patterns() -> Vec<(&'static str, &'static str)> {
    let blocks = DOCUMENT.split("```toml\n").zip(DOCUMENT.split("```toml\n").skip(1));
    blocks
        .map(|(before, block)| {
            let path =
                before.rsplit_once("](../").and_then(|(_, link)| link.split_once("):")).map_or("", |link| link.0);
            (path, block.split_once("```").map_or("", |parts| parts.0))
        })
        .collect()
}

#[test]
fn the_patterns_are_the_files() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let patterns = patterns();
    for (path, block) in &patterns {
        assert_eq!(*block, std::fs::read_to_string(root.join(path)).map_err(|e| format!("{path}: {e}"))?, "{path}");
    }
    assert_eq!(patterns.len(), 1, "one file is shown whole");
    let files = scenario::discover(&[root.join("scenarios/from_torch")])?;
    assert_eq!(files.len(), 5);
    for file in files {
        let name = file.path.file_name().and_then(|name| name.to_str()).ok_or("a name that is no text")?;
        assert!(DOCUMENT.contains(&format!("| [{name}](../scenarios/from_torch/{name}) | ")), "{name} is not named");
    }
    Ok(())
}

/// The second column of the table of calls.
fn table() -> Vec<&'static str> {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `") || line.starts_with("| arithmetic"));
    rows.filter_map(|row| row.trim_end_matches(" |").rsplit_once("| `")?.1.strip_suffix('`')).collect()
}

#[test]
fn the_table_has_steps() {
    let rows = table();
    assert!(rows.len() >= 20, "{} rows", rows.len());
    for row in rows {
        let comms = if row.starts_with("comms.") { row } else { "comms.tensor = { groups = [[0, 1]] }" };
        let step = if row.starts_with('{') { row } else { "{ op = \"barrier\" }" };
        let text = format!(
            "world_size = 4\n{comms}\ninputs.x = {{ each = \"rank\", count = 4 }}\nsteps = [\n{{ op = \"all_reduce\", comm = \"tensor\", in = \"x\", out = \"first\" }},\n{step},\n]\n"
        );
        let file = Arc::new(SourceFile { path: "row.toml".into(), text: text.into() });
        let read = scenario::parse(&file, "row");
        assert!(read.is_ok(), "{row}:\n{}", read.err().map(|e| e.to_string()).unwrap_or_default());
    }
}
