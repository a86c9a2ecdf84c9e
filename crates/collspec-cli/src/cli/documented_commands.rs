//! For tests: every command in the documents is one that the program understands.
use super::args::Args;
use clap::Parser;

/// The commands of a document's blocks of code, with lines that a backslash continues.
fn commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    // In a block with a prompt, other lines are what commands print.
    let prompt = if text.contains("$ ") { "$ " } else { "" };
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix(prompt));
    let commands = lines.filter(|line| line.starts_with("collspec ") && !line.contains(['|', '<', '[', '…']));
    let alone = commands.flat_map(|line| line.split(" && ")).map(|line| line.split(['>', '#', ';']).next().unwrap());
    alone
        .filter(|line| line.trim_start().starts_with("collspec ") && !line.contains("..."))
        .filter_map(shlex::split)
        .collect()
}

#[test]
fn every_command_in_the_documents_is_understood() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages.chain([root.join("README.md")]).filter(|path| path.extension().is_some_and(|e| e == "md")) {
        // A table or a paragraph may begin with the program's name, too.
        let text = std::fs::read_to_string(&page).unwrap();
        let blocks = text.split("```").skip(1).step_by(2);
        let code = blocks.filter(|block| block.starts_with("console") || block.starts_with("sh"));
        for words in code.flat_map(commands) {
            let run = super::implied_run::is_meant(words[1].as_ref()).then(|| "run".to_owned());
            let whole = words[..1].iter().cloned().chain(run).chain(words[1..].iter().cloned());
            count += 1;
            if let Err(error) = Args::try_parse_from(whole) {
                wrong.push(format!("{}: {}\n{error}", page.display(), words.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 40, "only {count} commands were found");
}
