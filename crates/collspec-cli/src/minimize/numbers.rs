//! Makes numbers smaller: counts, and other numbers in values and expressions.
use super::document::{Document, Part, Path, innermost_key, is_in};
use super::passes::kept;
use super::trial::Trials;
use super::words::{replaced, words};
use toml::Value;

/// Keys whose numbers are not sizes: a case with another time limit ends differently.
const NO_SIZES: [&str; 3] = ["timeout", "world_size", "seconds"];

/// Makes the numbers smaller that determine the cost of a run: to the least power of two that still fails.
pub(super) fn sizes(trials: &mut Trials<'_>, mut document: Document) -> Document {
    let frozen = trials.is_of_expectations();
    let here = |at: &[Part]| !(frozen && is_content(at));
    for value in values(&document, &here) {
        let cheaper =
            [1, value / 2].into_iter().any(|less| trials.is_cheaper(&with_number(&document, value, less, &here)));
        if !cheaper {
            continue;
        }
        let powers: Vec<u64> = powers_below(value).collect();
        if let Some(new) =
            powers.into_iter().find_map(|power| kept(trials, with_number(&document, value, power, &here)))
        {
            document = new;
        }
        if trials.is_out_of_time() {
            return document;
        }
    }
    document
}

/// The numbers above 1 in these places, the largest first.
fn values(document: &Document, here: &impl Fn(&[Part]) -> bool) -> Vec<u64> {
    let places = document.places().into_iter().filter(|path| here(path));
    let mut values: Vec<u64> = places.flat_map(|path| numbers_at(document, &path)).filter(|value| *value > 1).collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    values.dedup();
    values
}

/// The powers of two below a value.
fn powers_below(value: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(1u64), |power| power.checked_mul(2)).take_while(move |power| *power < value)
}

/// The document with another number in place of `value` in these places.
fn with_number(document: &Document, value: u64, number: u64, here: &impl Fn(&[Part]) -> bool) -> Document {
    document.map(&|path, old| {
        if !here(path) || !numbers_at(document, path).contains(&value) {
            return None;
        }
        Some(match old {
            Value::String(text) => Value::String(replaced(text, &value.to_string(), &number.to_string())),
            _ => Value::Integer(i64::try_from(number).unwrap_or(i64::MAX)),
        })
    })
}

/// Makes numbers smaller, in values and in expressions: first all equal ones at once, then each separately.
pub(super) fn numbers(trials: &mut Trials<'_>, mut document: Document) -> Document {
    let frozen = trials.is_of_expectations();
    let numbers_at = |document: &Document, path: &[Part]| {
        if frozen && is_content(path) { Vec::new() } else { numbers_at(document, path) }
    };
    for value in values(&document, &|at: &[Part]| !(frozen && is_content(at))) {
        document = smaller(trials, document, value, |at| !(frozen && is_content(at)));
        let mut rest: Vec<Path> =
            document.places().into_iter().filter(|path| numbers_at(&document, path).contains(&value)).collect();
        if rest.len() > 1 {
            rest.truncate(64);
            for path in rest {
                document = smaller(trials, document, value, |at| at == path);
            }
        }
    }
    document
}

/// True if the place gives the contents of buffers, actual or expected. If only an expectation fails, these stay unchanged: otherwise
/// the case would fail for another reason.
fn is_content(path: &[Part]) -> bool {
    let expected = is_in(path, "expect") || is_in(path, "assert");
    expected || (is_in(path, "inputs") && matches!(innermost_key(path), Some("each" | "expr")))
}

/// The numbers of a value, or in a text.
fn numbers_at(document: &Document, path: &[Part]) -> Vec<u64> {
    if innermost_key(path).is_some_and(|key| NO_SIZES.contains(&key)) || is_in(path, "description") {
        return Vec::new();
    }
    match document.get(path) {
        Some(Value::Integer(number)) => u64::try_from(*number).ok().into_iter().collect(),
        Some(Value::String(text)) => words(text).filter_map(|word| word.parse().ok()).collect(),
        _ => Vec::new(),
    }
}

/// Puts a smaller number in place of `value` where `here` says so: the least power of two that still fails, and then numbers
/// between that and the power of two before it.
fn smaller(trials: &mut Trials<'_>, mut document: Document, value: u64, here: impl Fn(&[Part]) -> bool) -> Document {
    let original = document.clone();
    let (mut below, mut found) = (0, None);
    for power in powers_below(value) {
        if let Some(new) = kept(trials, with_number(&original, value, power, &here)) {
            (document, found) = (new, Some(power));
            break;
        }
        below = power;
        if trials.is_out_of_time() {
            return document;
        }
    }
    // Without a power that fails, the value itself is the upper end.
    let mut above = found.unwrap_or(value);
    while below + 1 < above && !trials.is_out_of_time() {
        let middle = below + (above - below) / 2;
        match kept(trials, with_number(&original, value, middle, &here)) {
            Some(new) => (document, above) = (new, middle),
            None => below = middle,
        }
    }
    document
}
