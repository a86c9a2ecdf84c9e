//! Numbers of good scenarios replaced by hostile ones: each file is refused at a place, or its cases run.
use crate::answered::{Answer, answer};
use collspec_core::scenario::discover;
use std::path::PathBuf;

const HOSTILE: [&str; 8] = ["-1", "0", "1", "3", "1000", "1000000000000", "9223372036854775807", "0.5"];

/// One in so many of all replacements is tried; it has no divisor in common with the number of hostile numbers, so that each of
/// them is tried as often.
const STEP: usize = 15;

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
#[ignore = "slow"]
fn hostile_numbers_are_refused_with_their_place_or_run() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let folder = |name: &str| discover(&[root.join(name)]).expect("the corpus is there");
    let files: Vec<_> = folder("documented").into_iter().chain(folder("language")).collect();
    let (mut refused, mut ran, mut turn) = (0, 0, 0usize);
    for file in &files {
        let text = std::fs::read_to_string(&file.path).expect("readable");
        for (start, end) in numbers(&text) {
            for hostile in HOSTILE {
                turn += 1;
                if !turn.is_multiple_of(STEP) {
                    continue;
                }
                match answer(&format!("{}{hostile}{}", &text[..start], &text[end..]), 1) {
                    Answer::Refused => refused += 1,
                    Answer::Ran(cases) => ran += cases,
                }
            }
        }
    }
    println!("{refused} files refused, {ran} cases run");
    assert!(refused > 100 && ran > 100, "{refused} files refused, {ran} cases run");
}
