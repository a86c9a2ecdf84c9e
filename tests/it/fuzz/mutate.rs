//! Malformed files: texts with pieces cut out, put in, repeated and replaced.
use crate::support::fragments::FRAGMENTS;
use collspec_cli::soak::Rng;

/// Numbers in place of other numbers.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "16",
    "255",
    "1000",
    "65536",
    "1000000000",
    "4294967296",
    "9223372036854775807",
    "99999999999999999999",
    "0.5",
    "-0.0",
    "nan",
    "inf",
    "1e308",
    "1e-320",
    "\"rank\"",
    "\"1 / 0\"",
    "\"i ^ i ^ i\"",
    "[]",
    "[1, 2]",
    "\"\"",
    "true",
];

/// The text with one to five changes; some results are not UTF-8.
pub fn mutate(rng: &mut Rng, text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    // Most files with several changes are refused for the first one, so one change is the most frequent number.
    let changes = if rng.percent(60) { 1 } else { rng.between(2, 5) };
    for _ in 0..changes {
        change(rng, &mut bytes);
    }
    bytes
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let at = rng.below(bytes.len() + 1);
    let end = |len: usize| (at + len).min(bytes.len());
    match rng.below(10) {
        0 => drop(bytes.drain(at..end(rng.between(1, 30)))),
        1 | 2 => drop(bytes.splice(at..at, rng.pick(FRAGMENTS).bytes())),
        3 => {
            let piece = bytes[at..end(rng.between(1, 60))].to_vec();
            let times = rng.between(1, 40);
            drop(bytes.splice(at..at, piece.repeat(times)));
        }
        4 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        5 => move_line(rng, bytes),
        _ => replace_number(rng, bytes),
    }
}

/// Leaves out a line, or repeats it elsewhere.
fn move_line(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let at = rng.below(lines.len());
    let moved = lines.remove(at);
    if rng.percent(60) {
        lines.insert(rng.below(lines.len() + 1), moved);
        lines.insert(rng.below(lines.len() + 1), moved);
    }
    *bytes = lines.join(&b'\n');
}

/// Puts another number in place of one.
fn replace_number(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let starts: Vec<usize> = (0..bytes.len()).filter(|at| digit(*at) && !(*at > 0 && digit(at - 1))).collect();
    if starts.is_empty() {
        return;
    }
    let start = *rng.pick(&starts);
    let end = (start..bytes.len()).find(|at| !digit(*at)).unwrap_or(bytes.len());
    drop(bytes.splice(start..end, rng.pick(NUMBERS).bytes()));
}
