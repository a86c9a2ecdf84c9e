//! Malformed texts: any bytes are refused at a place, or run.

use crate::answered::{answer, assert_places};
use crate::support::fragments::FRAGMENTS;
use collspec_core::expr;
use collspec_core::scenario;
use proptest::prelude::*;
use std::path::Path;

fn seeds() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let files = scenario::discover(&[folder.join("valid")]).unwrap_or_default();
    let mut texts: Vec<String> = files.iter().filter_map(|f| std::fs::read_to_string(&f.path).ok()).collect();
    let broken = scenario::discover(&[folder.join("invalid")]).unwrap_or_default();
    texts.extend(broken.iter().filter_map(|f| std::fs::read_to_string(&f.path).ok()));
    assert!(texts.len() > 60);
    texts
}

#[derive(Clone, Debug)]
enum Edit {
    Cut(usize, usize),
    Insert(usize, usize),
    Repeat(usize, usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<usize>(), 1..40usize).prop_map(|(at, len)| Edit::Cut(at, len)),
        (any::<usize>(), 0..FRAGMENTS.len()).prop_map(|(at, word)| Edit::Insert(at, word)),
        (any::<usize>(), 1..60usize, 1..6usize).prop_map(|(at, len, times)| Edit::Repeat(at, len, times)),
    ]
}

fn apply(text: &str, edits: &[Edit]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for e in edits {
        let place = |at: usize| at % (chars.len() + 1);
        match *e {
            Edit::Cut(at, len) => {
                let from = place(at);
                let to = (from + len).min(chars.len());
                chars.drain(from..to);
            }
            Edit::Insert(at, word) => {
                let at = place(at);
                chars.splice(at..at, FRAGMENTS[word].chars());
            }
            Edit::Repeat(at, len, times) => {
                let from = place(at);
                let piece: Vec<char> = chars[from..(from + len).min(chars.len())].to_vec();
                for _ in 0..times {
                    chars.splice(from..from, piece.iter().copied());
                }
            }
        }
    }
    chars.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text(text in "\\PC{0,200}") {
        answer(&text, 2);
    }

    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("x.toml");
        std::fs::write(&path, &bytes)?;
        if let Err(rejected) = scenario::load(&path, "x", scenario::MAX_BYTES) {
            assert_places(&rejected.file, &rejected.diagnostics);
        }
    }

    #[test]
    fn arbitrary_words(words in proptest::collection::vec(0..FRAGMENTS.len(), 0..60)) {
        answer(&words.iter().map(|w| FRAGMENTS[*w]).collect::<Vec<_>>().join(" "), 2);
    }

    #[test]
    fn arbitrary_expressions(text in "[0-9a-z+*/%^()\\[\\]<>=,.: -]{0,60}") {
        let _ = expr::parse_ref(&text);
        if let Ok(parsed) = expr::parse(&text) {
            struct Nothing;
            impl expr::Scope for Nothing {
                fn name(&self, _: &str) -> Result<expr::Value, expr::EvalError> {
                    Ok(expr::Value::Int(i128::MIN))
                }
            }
            let _ = parsed.expr.eval_int(&Nothing);
            let _ = parsed.expr.eval(&Nothing, expr::Mode::Float);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edited_files(which in any::<usize>(), edits in proptest::collection::vec(edit(), 1..5)) {
        thread_local!(static SEEDS: Vec<String> = seeds());
        SEEDS.with(|seeds| answer(&apply(&seeds[which % seeds.len()], &edits), 2));
    }
}
