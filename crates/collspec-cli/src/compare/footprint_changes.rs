//! Changes in the libraries' cost to a process and effect on it. Differences within the noise of the processes are ignored.
use super::change::{LibraryChange, Meaning};
use super::tuning_changes::ALGORITHM;
use crate::footprint::{CALLS, Footprint, Growth, choices_in_words};
use collspec_core::plan::cost::human;
use collspec_core::printable::thousands;
use collspec_core::stats::median;
use std::collections::{BTreeMap, BTreeSet};

/// Number of samples of each side without which a time or an amount is not reported.
const LEAST_SAMPLES: usize = 3;
/// A time is reported if it grows by at least this factor and by at least this many seconds.
const TOLD_RATIO: f64 = 1.5;
const TOLD_SECONDS: f64 = 0.1;
/// Creating a communicator counts as worse if it takes this many times as long, and this many seconds longer.
const WORSE_RATIO: f64 = 2.0;
const WORSE_SECONDS: f64 = 0.5;
/// A memory amount is reported if it differs by at least this many bytes and this fraction (1/N) of the smaller amount.
const TOLD_DEVICE_BYTES: i64 = 1 << 20;
const TOLD_HOST_BYTES: i64 = 4 << 20;
const TOLD_PART: i64 = 10;
/// A resource that something done again and again may leave behind: its name, and its amount.
const RESOURCES: [(&str, Amount); 4] = [
    ("device memory", |growth| growth.device_bytes),
    ("host memory", |growth| growth.host_bytes),
    ("threads", |growth| growth.threads),
    ("descriptors", |growth| growth.descriptors),
];
type Amount = fn(&Growth) -> u64;

/// What is done again and again.
struct Repetition {
    /// Its growth in the processes that measured it.
    growth: fn(&Footprint) -> &[Growth],
    /// The end of the subject of a change.
    subject: &'static str,
    /// What left the resource behind, in words.
    words: fn(&Footprint) -> String,
    /// The amount of each of [`RESOURCES`] from which it counts.
    least: [u64; 4],
}

const REPEATED: [Repetition; 3] = [
    Repetition {
        growth: |side| &side.growth,
        subject: "left behind",
        words: |side| format!("with each communicator of {} ranks", side.ranks),
        least: [64 << 10, 256 << 10, 1, 1],
    },
    Repetition {
        growth: |side| &side.growth_of_calls,
        subject: "left behind by calls",
        words: |side| format!("with every {} calls on {} ranks", thousands(CALLS as u64), side.ranks),
        // 32 bytes of the host for each call of each of two ranks.
        least: [64 << 10, 64 << 10, 1, 1],
    },
    Repetition {
        growth: |side| &side.growth_of_calls_alone,
        subject: "left behind by calls of one rank",
        words: |_| format!("with every {} calls on a communicator of one rank", thousands(CALLS as u64)),
        least: [64 << 10, 32 << 10, 1, 1],
    },
];
/// Limit on the new and removed parameters that are named.
const NAMED_PARAMETERS: usize = 20;

/// The changes from one footprint to another.
pub fn footprint_changes(base: &Footprint, candidate: &Footprint) -> Vec<LibraryChange> {
    let mut changes = Vec::new();
    failures(base, candidate, &mut changes);
    if base.is_missing() || candidate.is_missing() {
        return changes;
    }
    times(base, candidate, &mut changes);
    amounts(base, candidate, &mut changes);
    for repetition in &REPEATED {
        growth(repetition, base, candidate, &mut changes);
    }
    side_effects(base, candidate, &mut changes);
    choices(base, candidate, &mut changes);
    parameters(base, candidate, &mut changes);
    changes
}

fn change(subject: impl Into<String>, text: String, meaning: Meaning) -> LibraryChange {
    LibraryChange { subject: subject.into(), text, names: Vec::new(), meaning, accepted: None }
}

fn failures(base: &Footprint, candidate: &Footprint, changes: &mut Vec<LibraryChange>) {
    let tried = |side: &Footprint| side.failures.len() + side.init_seconds.len();
    let words = |name: &str, side: &Footprint| {
        let why = side.failures.first().map_or("", String::as_str);
        format!(
            "what it costs a process could not be measured on the {name} in {} of {} processes: {why}",
            side.failures.len(),
            tried(side)
        )
    };
    match (base.failures.is_empty(), candidate.failures.is_empty()) {
        (true, true) => {}
        (true, false) => {
            let meaning = if candidate.is_missing() { Meaning::Worse } else { Meaning::Changed };
            changes.push(change("measuring", words("candidate", candidate), meaning));
        }
        (false, true) => {
            let meaning = if base.is_missing() { Meaning::Better } else { Meaning::Changed };
            changes.push(change("measuring", words("base", base), meaning));
        }
        // Both had failures, which are not compared with each other.
        (false, false) => {}
    }
}

/// True if every sample of one side is smaller than every sample of the other, and there are enough of them.
fn are_apart<T: PartialOrd + Copy>(ours: &[T], theirs: &[T]) -> bool {
    let below = |low: &[T], high: &[T]| low.iter().all(|low| high.iter().all(|high| low < high));
    ours.len().min(theirs.len()) >= LEAST_SAMPLES && (below(ours, theirs) || below(theirs, ours))
}

fn times(base: &Footprint, candidate: &Footprint, changes: &mut Vec<LibraryChange>) {
    let told = |ours: f64, theirs: f64, ratio: f64, seconds: f64| {
        let (low, high) = if ours < theirs { (ours, theirs) } else { (theirs, ours) };
        high > low * ratio && high - low > seconds
    };
    let words = |samples: &[f64]| {
        let (low, high) = samples.iter().fold((f64::MAX, 0.0f64), |(low, high), s| (low.min(*s), high.max(*s)));
        let middle = median(samples).unwrap_or_default();
        format!("{} ({} to {} in {} processes)", seconds(middle), seconds(low), seconds(high), samples.len())
    };
    let ranks = candidate.ranks;
    let all: [(&str, String, &[f64], &[f64]); 3] = [
        ("load time", "loading the library".to_owned(), &base.load_seconds, &candidate.load_seconds),
        ("init time", format!("making a communicator of {ranks} ranks"), &base.init_seconds, &candidate.init_seconds),
        ("first call time", "the first all-reduce".to_owned(), &base.first_call_seconds, &candidate.first_call_seconds),
    ];
    for (subject, what, ours, theirs) in all {
        let (Some(old), Some(new)) = (median(ours), median(theirs)) else { continue };
        if !are_apart(ours, theirs) || !told(old, new, TOLD_RATIO, TOLD_SECONDS) {
            continue;
        }
        let meaning = match new > old {
            true if subject == "init time" && told(old, new, WORSE_RATIO, WORSE_SECONDS) => Meaning::Worse,
            true => Meaning::Changed,
            false => Meaning::Better,
        };
        let mut text = format!("{what} takes {} -> {}", words(ours), words(theirs));
        if subject == "init time" {
            text.push_str(&breakdown(base, candidate));
        }
        changes.push(change(subject, text, meaning));
    }
}

/// The parts of the time of initialisation, as the libraries report them, where they differ.
fn breakdown(base: &Footprint, candidate: &Footprint) -> String {
    let names: BTreeSet<&String> = base.init_parts.keys().chain(candidate.init_parts.keys()).collect();
    let value =
        |side: &Footprint, name: &String| side.init_parts.get(name).map_or("-".to_owned(), |s| format!("{s:.2}"));
    let part = |name: &String| {
        let (ours, theirs) = (value(base, name), value(candidate, name));
        (ours != theirs).then(|| format!("{name} {ours} -> {theirs}"))
    };
    let parts: Vec<String> = names.into_iter().filter_map(part).collect();
    if parts.is_empty() { String::new() } else { format!("; in seconds: {}", parts.join(", ")) }
}

/// An amount measured in each process.
type Amounts<'a> = &'a [i64];

fn amounts(base: &Footprint, candidate: &Footprint, changes: &mut Vec<LibraryChange>) {
    let (device, host) = ("device memory", "host memory");
    let (init, call) = ("after init", "after the first call");
    let bytes: [(&str, &str, i64, Amounts<'_>, Amounts<'_>); 4] = [
        (device, init, TOLD_DEVICE_BYTES, &base.device_bytes_after_init, &candidate.device_bytes_after_init),
        (device, call, TOLD_DEVICE_BYTES, &base.device_bytes_after_call, &candidate.device_bytes_after_call),
        (host, init, TOLD_HOST_BYTES, &base.host_bytes_after_init, &candidate.host_bytes_after_init),
        (host, call, TOLD_HOST_BYTES, &base.host_bytes_after_call, &candidate.host_bytes_after_call),
    ];
    for (memory, when, least, ours, theirs) in bytes {
        let (Some(old), Some(new)) = (middle(ours), middle(theirs)) else { continue };
        let difference = (new - old).abs();
        // Leaks per communicator are reported separately.
        let unexplained = (new - old - left_behind(base, candidate, memory)).abs();
        if are_apart(ours, theirs)
            && difference.min(unexplained) >= least
            && difference >= old.abs().min(new.abs()) / TOLD_PART
        {
            let words = |bytes: i64| format!("{}{}", if bytes < 0 { "-" } else { "" }, human(bytes.unsigned_abs()));
            let text = format!("{memory} {when}, of all ranks: {} -> {}", words(old), words(new));
            changes.push(change(format!("{memory} {when}"), text, Meaning::Changed));
        }
    }
    let counts: [(&str, &[i64], &[i64]); 2] = [
        ("threads", &base.threads_after_call, &candidate.threads_after_call),
        ("descriptors", &base.descriptors_after_call, &candidate.descriptors_after_call),
    ];
    for (what, ours, theirs) in counts {
        if let (true, Some(old), Some(new)) = (are_apart(ours, theirs), middle(ours), middle(theirs))
            && new - old != left_behind(base, candidate, what)
        {
            let text = format!("{what} that the library and one communicator take: {old} -> {new}");
            changes.push(change(format!("{what} after the first call"), text, Meaning::Changed));
        }
    }
}

/// The candidate's additional leak of this resource per communicator.
fn left_behind(base: &Footprint, candidate: &Footprint, what: &str) -> i64 {
    let Some((_, amount)) = RESOURCES.iter().find(|(name, _)| *name == what) else { return 0 };
    let of = |side: &Footprint| side.growth.iter().map(amount).min().unwrap_or(0) as i64;
    of(candidate) - of(base)
}

fn middle(values: &[i64]) -> Option<i64> {
    median(&values.iter().map(|value| *value as f64).collect::<Vec<_>>()).map(|middle| middle as i64)
}

/// Compares what each repetition leaves behind.
fn growth(repetition: &Repetition, base: &Footprint, candidate: &Footprint, changes: &mut Vec<LibraryChange>) {
    let of = repetition.growth;
    if of(base).is_empty() || of(candidate).is_empty() {
        return;
    }
    for ((what, amount), least) in RESOURCES.into_iter().zip(repetition.least) {
        // The least that one side leaks in any of its processes is compared with the most that the other side leaks in any.
        let fewest = |side: &Footprint| of(side).iter().map(amount).min().unwrap_or(0);
        let most = |side: &Footprint| of(side).iter().map(amount).max().unwrap_or(0);
        let grows = |one: &Footprint, other: &Footprint| {
            let (more, less) = (fewest(one), most(other));
            more >= least && more - less.min(more) >= least.max(less / 4)
        };
        let words = |count: u64| match what {
            "threads" | "descriptors" if count == 1 => format!("1 {}", what.trim_end_matches('s')),
            "threads" | "descriptors" => format!("{} {what}", thousands(count)),
            _ => format!("{} of {what}", human(count)),
        };
        let text = |side: &Footprint| {
            let first = of(side).first();
            let kinds = first.filter(|_| matches!(what, "threads" | "descriptors"));
            let kinds: Vec<_> = kinds.iter().flat_map(|growth| growth.kinds.keys().cloned()).collect();
            let named = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
            let times = first.map_or(0, |growth| growth.times);
            let left = words(fewest(side));
            format!("{left}{named} {}, {times} times in a row", (repetition.words)(side))
        };
        let subject = format!("{what} {}", repetition.subject);
        if grows(candidate, base) {
            let text =
                format!("the candidate leaves behind {}; the base at most {}", text(candidate), words(most(base)));
            changes.push(change(subject, text, Meaning::Worse));
        } else if grows(base, candidate) {
            let text =
                format!("the base leaves behind {}; the candidate at most {}", text(base), words(most(candidate)));
            changes.push(change(subject, text, Meaning::Better));
        }
    }
}

/// Compares processor affinity and environment variables.
fn side_effects(base: &Footprint, candidate: &Footprint, changes: &mut Vec<LibraryChange>) {
    match (base.processors.is_empty(), candidate.processors.is_empty()) {
        (true, false) => {
            let text = format!(
                "the candidate changes the processors of the threads that make communicators, and leaves them changed: {}",
                candidate.processors.join("; ")
            );
            changes.push(change("processors", text, Meaning::Worse));
        }
        (false, true) => {
            let text =
                "the candidate no longer changes the processors of the threads that make communicators".to_owned();
            changes.push(change("processors", text, Meaning::Better));
        }
        _ => {}
    }
    let value = |value: &Option<String>| value.as_ref().map_or("not set".to_owned(), |value| format!("`{value}`"));
    for new in candidate.variables.iter().filter(|change| !base.variables.iter().any(|old| old.name == change.name)) {
        let text =
            format!("the candidate changes the variable {}: {} -> {}", new.name, value(&new.before), value(&new.after));
        changes.push(change(format!("changed variable {}", new.name), text, Meaning::Worse));
    }
    for old in base.variables.iter().filter(|change| !candidate.variables.iter().any(|new| new.name == change.name)) {
        let text = format!("the candidate no longer changes the variable {}", old.name);
        changes.push(change(format!("changed variable {}", old.name), text, Meaning::Better));
    }
}

/// Algorithm, protocol and channels by size, for each operation that both sides report.
fn choices(base: &Footprint, candidate: &Footprint, changes: &mut Vec<LibraryChange>) {
    let of = |side: &Footprint| -> BTreeMap<(Option<String>, u64), String> {
        side.choices.iter().map(|choice| ((choice.operation.clone(), choice.bytes), choice.words.clone())).collect()
    };
    let (ours, theirs) = (of(base), of(candidate));
    type Sizes<'a> = Vec<(u64, &'a str)>;
    let mut differing: BTreeMap<&str, (Sizes<'_>, Sizes<'_>)> = BTreeMap::new();
    for ((operation, bytes), old) in &ours {
        let Some(new) = theirs.get(&(operation.clone(), *bytes)).filter(|new| *new != old) else { continue };
        let (before, after) = differing.entry(operation.as_deref().unwrap_or("operations")).or_default();
        before.push((*bytes, old));
        after.push((*bytes, new));
    }
    for (operation, (before, after)) in differing {
        let text = format!(
            "{operation} between {} ranks: {} -> {}",
            candidate.ranks,
            choices_in_words(&before).join("; "),
            choices_in_words(&after).join("; ")
        );
        changes.push(change(format!("{ALGORITHM}{operation}"), text, Meaning::Changed));
    }
}

fn parameters(base: &Footprint, candidate: &Footprint, changes: &mut Vec<LibraryChange>) {
    let (Some(ours), Some(theirs)) = (&base.parameters, &candidate.parameters) else {
        return;
    };
    for (subject, one, other) in [("new parameters", theirs, ours), ("gone parameters", ours, theirs)] {
        let names: Vec<&str> = one.keys().filter(|name| !other.contains_key(*name)).map(String::as_str).collect();
        if names.is_empty() {
            continue;
        }
        let more = names.len().saturating_sub(NAMED_PARAMETERS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let listed = names.iter().take(NAMED_PARAMETERS).copied().collect::<Vec<_>>().join(", ");
        let has = if subject == "new parameters" { "has new parameters" } else { "no longer has these parameters" };
        changes.push(change(subject, format!("the candidate {has}: {listed}{more}"), Meaning::Changed));
    }
    for (name, old) in ours {
        if let Some(new) = theirs.get(name).filter(|new| *new != old) {
            changes.push(change(
                format!("parameter {name}"),
                format!("the parameter {name}: `{old}` -> `{new}`"),
                Meaning::Changed,
            ));
        }
    }
}

/// A time as text.
fn seconds(seconds: f64) -> String {
    match seconds {
        ..0.001 => format!("{:.0} us", seconds * 1e6),
        ..1.0 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

#[cfg(test)]
mod tests;
