//! The changes that are tried, in rounds until a round changes nothing. Each pass keeps a change if the case still fails in the same way.
use super::axes::axes;
use super::document::{Document, Part, Path, innermost_key, is_in};
use super::graphs::graphs;
use super::numbers::{numbers, sizes};
use super::trial::Trials;
use super::words::{replaced, words};
use super::{Error, Size};
use std::collections::BTreeSet;
use std::io;
use toml::Value;

/// Receives each smaller case.
type Progress<'p> = &'p mut dyn FnMut(Size, u32) -> io::Result<()>;

/// A pass: the document after the changes that it kept.
type Pass = fn(&mut Trials<'_>, Document) -> Document;

/// Sizes, ranks and steps first, because they determine the cost of each further run.
const PASSES: [Pass; 10] = [sizes, ranks, steps, graphs, groups, keys, lists, expressions, inline_axes, numbers];

/// Reduces the document. Each pass has its share of the time, so that one without success leaves time for the others; the attempts
/// that it skipped come in the next round.
pub fn reduce(trials: &mut Trials<'_>, mut document: Document, progress: Progress<'_>) -> Result<Document, Error> {
    loop {
        let (before, runs) = (document.clone(), trials.runs());
        trials.was_cut();
        for (at, pass) in PASSES.into_iter().enumerate() {
            let old = trials.size();
            trials.begin_pass(PASSES.len() - at);
            document = pass(trials, document);
            if trials.size() != old {
                progress(trials.size(), trials.runs())?;
            }
            if trials.is_over() {
                return Ok(document);
            }
        }
        let is_complete = document == before && !trials.was_cut();
        if is_complete || trials.runs() == runs {
            return Ok(document);
        }
    }
}

/// The document after a change, if it still fails.
pub(super) fn kept(trials: &mut Trials<'_>, new: Document) -> Option<Document> {
    trials.fails(&new).then_some(new)
}

/// Leaves ranks out, from the last on.
fn ranks(trials: &mut Trials<'_>, document: Document) -> Document {
    let Some(Value::Integer(all)) = document.0.get("world_size").cloned() else { return document };
    // The least numbers first, and one in the middle before all the others.
    let order = (1..all.min(5)).chain([all / 2]).chain(5..all).filter(|ranks| *ranks < all);
    for ranks in order {
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

/// The document for fewer ranks: rows by rank and lists of ranks get shorter. With `everywhere` all lists lose the removed ranks,
/// and any other mention of one of them names the last rank instead.
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
    // Lists last: their places change. A list in another one first, so that the other one loses it if nothing is left of it.
    for path in document.places().into_iter().rev() {
        if let Some(Value::Array(list)) = new.get_mut(&path) {
            if names_ranks(&path) {
                list.retain(|rank| rank.as_integer().is_none_or(|rank| rank < ranks));
                list.retain(|group| group.as_array().is_none_or(|group| !group.is_empty()));
            } else if list.len() == all_rows && !is_in(&path, "matrix") && !in_program(&path) {
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
            .filter(|path| {
                matches!(innermost_key(path), Some("steps" | "before"))
                    && document.get(path).is_some_and(Value::is_array)
            })
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

/// The document without these steps of a list: once unchanged otherwise, and once with their inputs in place of their results.
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
            Value::String(text) if in_program(path) && !NO_BUFFERS.contains(&innermost_key(path)?) => {
                Some(Value::String(replaced(text, output, source)))
            }
            _ => None,
        });
    }
    vec![without_orphans(&new), new, without_orphans(&rewired), rewired]
}

/// True inside the steps that run, including those of `before`.
fn in_program(path: &[Part]) -> bool {
    is_in(path, "steps") || is_in(path, "before")
}

/// Keys of steps that name no buffers.
const NO_BUFFERS: [&str; 6] = ["op", "reduce", "dtype", "comm", "stream", "graph"];

/// The document without the communicators, and the expectations and inputs of buffers, that no step names.
fn without_orphans(document: &Document) -> Document {
    let mut used = BTreeSet::new();
    let mut new = document.clone();
    let makes_from_another = |path: &[Part]| is_in(path, "comms") && innermost_key(path) == Some("comm");
    for path in document.places().iter().filter(|path| in_program(path) || makes_from_another(path)) {
        if let Some(Value::String(text)) = document.get(path) {
            used.extend(words(text).map(str::to_owned));
        }
    }
    for key in ["inputs", "expect", "comms"] {
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

/// Shortens lists of numbers, all those of one length at once, such as the rows of ranks.
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

/// Puts the value of an axis where it is used, and removes the axis.
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
