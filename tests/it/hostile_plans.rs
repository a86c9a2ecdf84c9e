//! Numbers of good scenarios replaced by hostile ones: the plan answers, with a plan or a refusal, and soon.
use collspec::internals::plan::{Limits, plan};
use collspec::internals::scenario::{SourceFile, discover, parse};
use std::path::PathBuf;
use std::sync::Arc;

const HOSTILE: [&str; 8] = ["-1", "0", "1", "3", "1000", "1000000000000", "9223372036854775807", "0.5"];

/// Byte ranges of the whole numbers in a text.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'.';
    let mut found = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        let start = i;
        while i < bytes.len() && bytes[i].is_ascii_digit() {
            i += 1;
        }
        let alone = (start == 0 || !word(bytes[start - 1])) && (i == bytes.len() || !word(bytes[i]));
        if i > start && alone {
            found.push((start, i));
        }
        i = i.max(start + 1);
    }
    found
}

#[test]
fn hostile_numbers_are_answered() {
    let limits = Limits { memory: 16 << 20, ranks: 64, calls: 1 << 14, ..Limits::default() };
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let folder = |name: &str| discover(&[root.join(name)]).expect("the corpus is there");
    let files: Vec<_> = folder("documented").into_iter().chain(folder("language")).collect();
    let (mut tried, mut turn) = (0, 0usize);
    for file in &files {
        let text = std::fs::read_to_string(&file.path).expect("readable");
        for (start, end) in numbers(&text) {
            for hostile in HOSTILE {
                turn += 1;
                if turn % 5 != 0 {
                    continue;
                }
                let text = format!("{}{hostile}{}", &text[..start], &text[end..]);
                let source = Arc::new(SourceFile { path: file.name.clone(), text: text.into() });
                let Ok(cases) = parse(&source, &file.name) else { continue };
                for case in cases.into_iter().take(2) {
                    let _ = plan(&Arc::new(case), &limits);
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 100, "only {tried} mutated cases came as far as the plan");
}
