//! The changes that are tried, in rounds until a round changes nothing. Each pass keeps a change if the case still fails in the same way.
use super::axes::axes;
use super::document::{Document, Part, Path, innermost_key, is_in};
use super::trial::Trials;
use super::{Error, Size};
use std::collections::BTreeSet;
use std::io;
use toml::Value;

/// Is told of each smaller case.
type Progress<'p> = &'p mut dyn FnMut(Size, u32) -> io::Result<()>;

/// A pass: the document after the changes that it kept.
type Pass = fn(&mut Trials<'_>, Document) -> Document;

/// Numbers first, because they decide what each further run costs.
const PASSES: [Pass; 8] = [numbers, ranks, steps, groups, keys, lists, expressions, inline_axes];

/// Reduces the document.
pub fn reduce(trials: &mut Trials<'_>, mut document: Document, progress: Progress<'_>) -> Result<Document, Error> {
    loop {
        let before = document.clone();
        for pass in PASSES {
            let old = trials.size();
            document = pass(trials, document);
            if trials.size() != old {
                progress(trials.size(), trials.runs())?;
            }
            if trials.is_out_of_time() {
                return Ok(document);
            }
        }
        if document == before {
            return Ok(document);
        }
    }
}

/// The document after a change, if it still fails.
fn kept(trials: &mut Trials<'_>, new: Document) -> Option<Document> {
    trials.fails(&new).then_some(new)
}

/// Keys whose numbers are no sizes: a case with another time limit ends otherwise.
const NO_SIZES: [&str; 3] = ["timeout", "world_size", "seconds"];

/// Makes numbers smaller, in values and in expressions: first all that are equal together, then each.
fn numbers(trials: &mut Trials<'_>, mut document: Document) -> Document {
    let frozen = trials.is_of_expectations();
    let numbers_at = |document: &Document, path: &[Part]| {
        if frozen && is_content(path) { Vec::new() } else { numbers_at(document, path) }
    };
    let mut values: Vec<u64> = document.places().iter().flat_map(|path| numbers_at(&document, path)).collect();
    values.sort_unstable();
    values.dedup();
    for value in values.into_iter().rev().filter(|value| *value > 1) {
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

/// True if the place says what buffers hold, or should hold. If only an expectation fails, these stay as they are: with others the
/// case would fail for another reason.
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

/// Puts a smaller number in place of `value` where `here` says so: the least power of two that still fails, and then what lies
/// between that and the one before.
fn smaller(trials: &mut Trials<'_>, mut document: Document, value: u64, here: impl Fn(&[Part]) -> bool) -> Document {
    let with = |document: &Document, number: u64| {
        document.map(&|path, old| {
            if !here(path) || !numbers_at(document, path).contains(&value) {
                return None;
            }
            Some(match old {
                Value::String(text) => Value::String(replaced(text, &value.to_string(), &number.to_string())),
                _ => Value::Integer(i64::try_from(number).unwrap_or(i64::MAX)),
            })
        })
    };
    let original = document.clone();
    let powers = std::iter::successors(Some(1u64), |power| power.checked_mul(2)).take_while(|power| *power < value);
    let (mut below, mut found) = (0, None);
    for power in powers {
        if let Some(new) = kept(trials, with(&original, power)) {
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
        match kept(trials, with(&original, middle)) {
            Some(new) => (document, above) = (new, middle),
            None => below = middle,
        }
    }
    document
}

/// Leaves ranks out, from the last on.
fn ranks(trials: &mut Trials<'_>, document: Document) -> Document {
    let Some(Value::Integer(all)) = document.0.get("world_size").cloned() else { return document };
    for ranks in 1..all {
        for new in [with_ranks(&document, all, ranks, false), with_ranks(&document, all, ranks, true)] {
            if let Some(new) = kept(trials, new) {
                return new;
            }
        }
        if trials.is_out_of_time() {
            break;
        }
    }
    document
}

/// The document for fewer ranks: rows by rank and lists of ranks get shorter. With `everywhere` all lists lose the ranks that
/// are gone, and what names one of them names the last.
fn with_ranks(document: &Document, all: i64, ranks: i64, everywhere: bool) -> Document {
    let [all_rows, rows] = [all, ranks].map(|number| usize::try_from(number).unwrap_or(0));
    let names_ranks = |path: &[Part]| innermost_key(path).is_some_and(|key| ["ranks", "groups", "comm"].contains(&key));
    let names_one =
        |path: &[Part]| innermost_key(path).is_some_and(|key| ["root", "peer", "to", "from"].contains(&key));
    let mut new = document.map(&|path, value| match value {
        Value::Integer(_) if path == [Part::Key("world_size".to_owned())] => Some(Value::Integer(ranks)),
        Value::Integer(rank) if everywhere && names_one(path) && *rank >= ranks => Some(Value::Integer(ranks - 1)),
        _ => None,
    });
    // Lists last: their places change.
    for path in document.places() {
        if let Some(Value::Array(list)) = new.get_mut(&path) {
            if names_ranks(&path) {
                list.retain(|rank| rank.as_integer().is_none_or(|rank| rank < ranks));
                list.retain(|group| group.as_array().is_none_or(|group| !group.is_empty()));
            } else if list.len() == all_rows && !is_in(&path, "matrix") && !is_in(&path, "steps") {
                list.truncate(rows);
            }
        }
    }
    new
}

/// Leaves steps out: halves, quarters and so on down to single steps.
fn steps(trials: &mut Trials<'_>, mut document: Document) -> Document {
    let lists = |document: &Document| -> Vec<Path> {
        let places = document.places().into_iter();
        places
            .filter(|path| innermost_key(path) == Some("steps") && document.get(path).is_some_and(Value::is_array))
            .collect()
    };
    for path in lists(&document) {
        let length = |document: &Document| document.get(&path).and_then(Value::as_array).map_or(0, Vec::len);
        let mut size = length(&document).div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < length(&document) {
                let candidates = without_steps(&document, &path, from, size);
                match candidates.into_iter().find_map(|new| kept(trials, new)) {
                    Some(new) => document = new,
                    None => from += size,
                }
                if trials.is_out_of_time() {
                    return document;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }
    document
}

/// The document without these steps of a list: as it is then, and with what went into them where their results went.
fn without_steps(document: &Document, path: &[Part], from: usize, size: usize) -> Vec<Document> {
    let mut new = document.clone();
    let Some(Value::Array(list)) = new.get_mut(path) else { return Vec::new() };
    let removed: Vec<Value> = list.drain(from..(from + size).min(list.len())).collect();
    let input = match document.0.get("inputs") {
        Some(Value::Table(table)) if !table.contains_key("each") => table.keys().next().map(String::as_str),
        _ => Some("in"),
    };
    let mut rewired = new.clone();
    for step in removed.iter().rev() {
        let buffer = |key: &str| step.get(key).and_then(Value::as_str);
        let (Some(output), Some(source)) = (buffer("out"), buffer("in").or(input)) else { continue };
        rewired = rewired.map(&|path, value| match value {
            Value::String(text) if is_in(path, "steps") && !NO_BUFFERS.contains(&innermost_key(path)?) => {
                Some(Value::String(replaced(text, output, source)))
            }
            _ => None,
        });
    }
    vec![without_orphans(&new), new, without_orphans(&rewired), rewired]
}

/// Keys of steps that name no buffers.
const NO_BUFFERS: [&str; 5] = ["op", "reduce", "dtype", "comm", "stream"];

/// The document without expectations and inputs of buffers that no step names.
fn without_orphans(document: &Document) -> Document {
    let mut used = BTreeSet::new();
    let mut new = document.clone();
    for path in document.places().iter().filter(|path| is_in(path, "steps")) {
        if let Some(Value::String(text)) = document.get(path) {
            used.extend(words(text).map(str::to_owned));
        }
    }
    for key in ["inputs", "expect"] {
        let Some(Value::Table(table)) = document.0.get(key) else { continue };
        for name in table.keys().filter(|name| !used.contains(*name) && *name != "each" && *name != "count") {
            new = new.without(&[Part::Key(key.to_owned()), Part::Key(name.clone())]);
        }
    }
    new
}

/// Puts the steps of a group or a loop in its place.
fn groups(trials: &mut Trials<'_>, mut document: Document) -> Document {
    let mut at = 0;
    while let Some(step) = document.get(&[Part::Key("steps".to_owned()), Part::Index(at)]) {
        let inner = step.get("steps").and_then(Value::as_array).cloned();
        let flat = inner.and_then(|inner| {
            let mut new = document.clone();
            let Some(Value::Array(list)) = new.0.get_mut("steps") else { return None };
            list.splice(at..=at, inner);
            kept(trials, new)
        });
        match flat {
            Some(new) => document = new,
            None => at += 1,
        }
    }
    document
}

/// Leaves keys out, the outer ones first.
fn keys(trials: &mut Trials<'_>, mut document: Document) -> Document {
    let mut at = 0;
    loop {
        let places = document.places();
        let Some(path) = places.get(at) else { return document };
        let is_key =
            matches!(path.last(), Some(Part::Key(key)) if !["op", "world_size", "steps"].contains(&key.as_str()));
        match is_key.then(|| kept(trials, document.without(path))).flatten() {
            Some(new) => document = new,
            None => at += 1,
        }
        if trials.is_out_of_time() {
            return document;
        }
    }
}

/// Shortens lists of numbers, all of one length together, such as the rows of ranks.
fn lists(trials: &mut Trials<'_>, mut document: Document) -> Document {
    let rows = |document: &Document| -> Vec<(Path, usize)> {
        let length = |path: &Path| match document.get(path) {
            Some(Value::Array(list))
                if !is_in(path, "matrix") && list.iter().all(|v| !v.is_table() && !v.is_array()) =>
            {
                Some((path.clone(), list.len()))
            }
            _ => None,
        };
        document.places().iter().filter_map(length).collect()
    };
    let mut lengths: Vec<usize> = rows(&document).into_iter().map(|(_, length)| length).collect();
    lengths.sort_unstable();
    lengths.dedup();
    for length in lengths.into_iter().rev() {
        for (from_end, short) in (1..length).flat_map(|short| [(false, short), (true, short)]) {
            // Few lengths are tried of a long row.
            if short > 4 && !short.is_power_of_two() && short != length / 2 {
                continue;
            }
            let mut new = document.clone();
            for (path, _) in rows(&document).into_iter().filter(|(_, all)| *all == length) {
                if let Some(Value::Array(list)) = new.get_mut(&path) {
                    if from_end {
                        list.drain(..length - short);
                    } else {
                        list.truncate(short)
                    }
                }
            }
            if let Some(new) = kept(trials, new) {
                document = new;
                break;
            }
            if trials.is_out_of_time() {
                return document;
            }
        }
    }
    document
}

/// Puts simpler expressions in place of long ones.
fn expressions(trials: &mut Trials<'_>, mut document: Document) -> Document {
    if trials.is_of_expectations() {
        return document;
    }
    for path in document.places() {
        if !matches!(innermost_key(&path), Some("each" | "expr")) || !is_in(&path, "inputs") {
            continue;
        }
        let simple = ["1", "rank", "i", "rank + i"];
        let Some(Value::String(old)) = document.get(&path).cloned() else { continue };
        let shorter = simple.into_iter().filter(|text| text.len() < old.len());
        for text in shorter {
            if let Some(new) = kept(trials, document.with(&path, Value::String(text.to_owned()))) {
                document = new;
                break;
            }
        }
    }
    document
}

/// Puts the value of an axis where it is used, and leaves the axis out.
fn inline_axes(trials: &mut Trials<'_>, mut document: Document) -> Document {
    for path in axes(&document) {
        let Some(Value::Array(values)) = document.get(&path).cloned() else { continue };
        let [value] = values.as_slice() else { continue };
        let names: Vec<String> = path[1..]
            .iter()
            .filter_map(|part| if let Part::Key(key) = part { Some(key.clone()) } else { None })
            .collect();
        let without = document.without(&path);
        // It sets a key of the file, or it is a name in expressions.
        let mut setting = without.clone();
        set(&mut setting.0, &names, value);
        let word = names.join(".");
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let naming = without.map(&|_, old| match old {
            Value::String(old) if *old == word => Some(value.clone()),
            Value::String(old) if words(old).any(|known| known == word) => {
                Some(Value::String(replaced(old, &word, &text)))
            }
            _ => None,
        });
        if let Some(new) = kept(trials, setting).or_else(|| kept(trials, naming)) {
            document = new;
        }
    }
    document
}

/// Sets a key, with the tables that it is in.
fn set(table: &mut toml::Table, names: &[String], value: &Value) {
    match names {
        [] => {}
        [name] => _ = table.insert(name.clone(), value.clone()),
        [name, rest @ ..] => {
            let inner = table.entry(name.clone()).or_insert_with(|| Value::Table(toml::Table::new()));
            if let Value::Table(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

/// The names and numbers of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').filter(|word| !word.is_empty())
}

/// The text with another word in place of each of these.
fn replaced(text: &str, word: &str, other: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(is_part) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
        out.push_str(before);
        out.push_str(if &from[..end] == word { other } else { &from[..end] });
        rest = &from[end..];
    }
    out + rest
}
