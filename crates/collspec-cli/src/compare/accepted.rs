//! A file of accepted changes: the change, the cases, and the reason it is accepted.
use super::change::{Change, Meaning};
use super::comparison::Comparison;
use super::rules_file::{self, RulesError, at_places, lines_at};
use collspec_core::printable::toml_string;
use collspec_core::scenario::SourceFile;
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use toml::Spanned;

/// The word that an entry's `library` has for failing starts; below, the word for slower rows of `--bench`.
const STARTS: &str = "starts";
const SPEED: &str = "speed";
/// The word for rows of `--bench` that fail where work is counted.
const WORK: &str = "work";
/// Limit on entries whose cases are a pattern: each of these is compared with every case.
const MAX_PATTERNS: usize = 1000;
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    accept: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// A case's name; `*` matches any text.
    case: Option<String>,
    /// The subject of a change of the library, as a report names it.
    library: Option<String>,
    /// The word for the kind of change.
    change: Option<String>,
    reason: String,
}

/// The changes that a file accepts.
pub struct Accepted {
    file: SourceFile,
    entries: Vec<Spanned<Entry>>,
}

impl Accepted {
    /// Reads a file of accepted changes.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is not TOML, or an entry is wrong or lacks a reason.
    pub fn read(path: &Path) -> Result<Self, RulesError> {
        Self::parse(rules_file::read(path)?)
    }

    fn parse(source: SourceFile) -> Result<Self, RulesError> {
        let file: File = rules_file::parse(&source)?;
        let (mut faults, mut patterns) = (Vec::new(), 0);
        for entry in &file.accept {
            patterns += usize::from(entry.get_ref().case.as_ref().is_some_and(|case| case.contains('*')));
            let many = || format!("more than {MAX_PATTERNS} entries have * in `case`");
            let why = fault(entry.get_ref()).or_else(|| (patterns == MAX_PATTERNS + 1).then(many));
            faults.extend(why.map(|why| (entry.span(), why)));
        }
        if faults.is_empty() {
            Ok(Self { entries: file.accept, file: source })
        } else {
            Err(at_places(&source, &faults))
        }
    }

    /// Marks the changes that are accepted, and keeps the entries whose change did not happen. An entry about something that was
    /// not compared is none of them.
    pub fn apply(&self, comparison: &mut Comparison) {
        let mut stale = Vec::new();
        let whole = !(comparison.interrupted || comparison.speed_interrupted);
        let headers = [&comparison.base.header, &comparison.candidate.header];
        let has_footprints = headers.iter().all(|header| header.footprint.is_some());
        let rows = comparison.rows.iter().enumerate();
        let by_name: HashMap<String, usize> = rows.map(|(at, row)| (row.case.clone(), at)).collect();
        for entry in &self.entries {
            let (span, entry) = (entry.span(), entry.get_ref());
            let (mut used, mut compared) = (false, false);
            if let (Some(pattern), Some(change)) = (&entry.case, entry.change.as_deref().and_then(Change::from_word)) {
                let rows = match by_name.get(pattern).filter(|_| !pattern.contains('*')) {
                    Some(at) => comparison.rows.get_mut(*at..=*at),
                    None => comparison.rows.get_mut(..).filter(|_| pattern.contains('*')),
                };
                for row in rows.into_iter().flatten().filter(|row| matches(pattern, &row.case)) {
                    compared |= row.change.was_compared();
                    if row.change == change {
                        row.accepted.get_or_insert_with(|| entry.reason.clone());
                        used = true;
                    }
                }
            }
            if let Some(subject) = &entry.library {
                for change in comparison.library.iter_mut().filter(|change| matches(subject, &change.subject)) {
                    change.accepted.get_or_insert_with(|| entry.reason.clone());
                    used = true;
                }
                compared = has_footprints && ![STARTS, SPEED, WORK].contains(&subject.as_str());
                if let Some(starts) = comparison.starts.as_mut().filter(|_| matches(subject, STARTS)) {
                    compared |= starts.not_tried.is_none();
                    if can_be_accepted(starts.change().meaning()) {
                        starts.accepted = Some(entry.reason.clone());
                        used = true;
                    }
                }
                if let Some(speed) = comparison.speed.as_mut().filter(|_| matches(subject, SPEED)) {
                    compared |= speed.no_verdict().is_none();
                    if !speed.worse().is_empty() {
                        speed.accepted = Some(entry.reason.clone());
                        used = true;
                    }
                }
                if let Some(work) = comparison.work.as_mut().filter(|_| matches(subject, WORK)) {
                    compared = true;
                    if !work.failed.is_empty() {
                        work.accepted = Some(entry.reason.clone());
                        used = true;
                    }
                }
            }
            if whole && compared && !used {
                stale.push((span, "no change matches this entry; take it out".to_owned()));
            }
        }
        comparison.stale = lines_at(&self.file, &stale);
    }
}

/// The mistake in an entry, if there is one.
fn fault(entry: &Entry) -> Option<String> {
    match (&entry.case, &entry.library, &entry.change) {
        (None, None, _) => return Some("say which `case` or what of the `library` is accepted".to_owned()),
        (Some(_), Some(_), _) => return Some("an entry is either of a `case` or of the `library`".to_owned()),
        (Some(_), None, None) => return Some("say which `change` of the case is accepted".to_owned()),
        (None, Some(_), Some(_)) => return Some("`change` is for cases only".to_owned()),
        (Some(_), None, Some(word)) => {
            let acceptable: Vec<Change> = Change::all().filter(|change| can_be_accepted(change.meaning())).collect();
            if !acceptable.iter().any(|change| change.word() == *word) {
                let words: Vec<String> = acceptable.iter().map(|change| change.word()).collect();
                let near = collspec_core::suggest::nearest(word, words.iter().map(String::as_str));
                let hint = near
                    .map_or_else(|| format!("one of {}", words.join(", ")), |near| format!("did you mean `{near}`?"));
                return Some(format!("there is no change `{}` to accept: {hint}", word.escape_debug()));
            }
        }
        (None, Some(_), None) => {}
    }
    entry.reason.trim().is_empty().then(|| "write into `reason` why this is accepted".to_owned())
}

fn can_be_accepted(meaning: Meaning) -> bool {
    matches!(meaning, Meaning::Worse | Meaning::Undecided | Meaning::Changed)
}

/// True if the name matches the pattern, in which `*` matches any text.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The text of a file that would accept every change of the comparison not accepted yet, once each has its reason.
pub fn to_accept(comparison: &Comparison) -> String {
    let mut text =
        "# Accepted changes for `collspec compare --allow`. Write a reason into each entry, or take it out.\n\
                    # In `case`, * stands for any text.\n"
            .to_owned();
    let mut of_library = |subject: &str, what: &str| {
        let what = collspec_core::printable::one_line(what);
        let _ = write!(text, "\n[[accept]]\n# {what}\nlibrary = {}\nreason = \"\"\n", toml_string(subject));
    };
    if let Some(starts) = comparison.starts.as_ref().filter(|starts| starts.accepted.is_none())
        && can_be_accepted(starts.change().meaning())
    {
        of_library(STARTS, &format!("{}: {}", starts.change(), starts.words()));
    }
    if let Some(speed) = comparison.speed.as_ref().filter(|speed| speed.accepted.is_none() && !speed.worse().is_empty())
    {
        of_library(SPEED, &format!("{} rows are slower, or fail", speed.worse().len()));
    }
    if let Some(work) = comparison.work.as_ref().filter(|work| work.accepted.is_none() && !work.failed.is_empty()) {
        of_library(WORK, &format!("{} rows fail", work.failed.len()));
    }
    for change in
        comparison.library.iter().filter(|change| change.accepted.is_none() && can_be_accepted(change.meaning))
    {
        let _ = write!(
            text,
            "\n[[accept]]\n# {}\nlibrary = {}\nreason = \"\"\n",
            collspec_core::printable::one_line(&change.text),
            toml_string(&change.subject)
        );
    }
    for row in comparison.rows.iter().filter(|row| row.accepted.is_none() && can_be_accepted(row.change.meaning())) {
        let _ = write!(
            text,
            "\n[[accept]]\n# {}\ncase = {}\nchange = {}\nreason = \"\"\n",
            collspec_core::printable::one_line(&format!("{}: {}", row.change, row.detail)),
            toml_string(&row.case),
            toml_string(&row.change.word())
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::fixture::sum;
    use crate::compare::decision::GateVerdict;
    use collspec_suite::suite::AtLeast;
    use serde_json::json;

    #[test]
    fn what_is_quoted_reads_back_and_holds_nothing_raw() {
        for text in ["a/b[n=2]", "\"\\u\"", "a\u{202e}b\n\u{1b}[31m\u{e0041}", "ä 漢 ''"] {
            let quoted = toml_string(text);
            assert!(quoted.chars().all(collspec_core::printable::is_printable), "{quoted}");
            let read: toml::Table = toml::from_str(&format!("text = {quoted}")).unwrap();
            assert_eq!(read["text"].as_str(), Some(text));
        }
    }

    fn parse(text: String) -> Result<Accepted, RulesError> {
        Accepted::parse(SourceFile { path: "accepted.toml".into(), text: text.into() })
    }

    #[test]
    fn rows_that_fail_where_work_is_counted_can_be_accepted() {
        let library = json!({ "backend": "nccl", "version": "2.30.7" });
        let side = json!({
            "name": "2.30.7", "recorded": false, "corpus_runs": 1,
            "header": { "collspec_recording": 1, "collspec": "0.1.0", "library": library },
        });
        let failed = json!({ "row": sum(2, 4096, false), "reason": "it hangs" });
        let work = json!({ "rows": [], "failed": [failed], "not_counted": 0 });
        let comparison = json!({ "base": side, "candidate": side, "library": [], "rows": [], "work": work });
        let mut comparison: Comparison = serde_json::from_value(comparison).unwrap();
        assert_eq!(comparison.decision(AtLeast::Cases(0), false).overall(), GateVerdict::Worse { changes: 1 });

        let accepted = to_accept(&comparison).replace("reason = \"\"", "reason = \"a known bug\"");
        let accepted = parse(accepted).unwrap();
        let mut stale = |failed: bool| {
            comparison.work.as_mut().unwrap().failed.retain(|_| failed);
            accepted.apply(&mut comparison);
            assert!(!matches!(comparison.decision(AtLeast::Cases(0), false).overall(), GateVerdict::Worse { .. }));
            comparison.stale.len()
        };
        // Accepted again, it still matches; without failing rows it does not.
        assert_eq!([stale(true), stale(true), stale(false)], [0, 0, 1]);
    }

    #[test]
    fn an_entry_is_stale_only_if_its_change_could_have_happened() {
        let mut comparison = Comparison::not_begun("2.28.9", "2.30.7", String::new());
        let seen = json!({ "passed": 1, "failed": 0, "skipped": 0, "endings": [] });
        comparison.rows = ["same-bits", "skipped"]
            .map(|change| {
                let row =
                    json!({ "case": change, "file": "a.toml", "change": change, "base": seen, "candidate": seen });
                serde_json::from_value(row).unwrap()
            })
            .into();
        comparison.not_begun = None;
        let case = |name: &str| format!("[[accept]]\ncase = \"{name}\"\nchange = \"now-wrong\"\nreason = \"known\"\n");
        let library = |subject: &str| format!("[[accept]]\nlibrary = \"{subject}\"\nreason = \"known\"\n");
        let cases = ["same-bits", "skipped", "of another folder", "same*"].map(case).concat();
        let accepted = parse(cases + &["starts", "speed", "work", "init time", "*"].map(library).concat()).unwrap();
        accepted.apply(&mut comparison);
        let stale = ["1:1", "13:1"].map(|at| format!("accepted.toml:{at}: no change matches this entry; take it out"));
        assert_eq!(comparison.stale, stale);
        let decision = comparison.decision(AtLeast::Cases(1), false);
        assert_eq!(decision.reasons(), stale);
        assert!(decision.headline(&comparison).ends_with(" An accepted change did not happen."));
        // Until an interrupt they may not have had the time.
        comparison.interrupted = true;
        accepted.apply(&mut comparison);
        assert_eq!(comparison.stale, [""; 0]);
    }
}
