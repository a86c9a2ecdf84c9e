//! Cases whose forms end differently.
use collspec_core::judge::{Status, Verdict};
use collspec_core::scenario::forms::{self, Form};
use collspec_core::scenario::{Case, SourceFile};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The outcomes of all forms so far, by case.
#[derive(Clone, Debug, Default)]
pub struct FormOutcomes(BTreeMap<String, CaseOutcomes>);

/// The forms of a case that passed and that failed.
#[derive(Clone, Debug)]
struct CaseOutcomes {
    file: Arc<SourceFile>,
    passed: FormSet,
    failed: FormSet,
}

/// Forms of a case; `None` means the case of the file. There is a set of them for each case of a run, so it is a single word.
#[derive(Clone, Copy, Debug, Default)]
struct FormSet(u32);

// One bit is for the case of the file.
const _: () = assert!(1 + forms::FORMS.len() < u32::BITS as usize);

impl FormSet {
    fn insert(&mut self, form: Option<&Form>) {
        let bit = match form {
            None => 0,
            // All forms are in the table.
            Some(form) => 1 + forms::FORMS.iter().take_while(|known| known.name != form.name).count(),
        };
        self.0 |= 1 << bit;
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn has_plain(self) -> bool {
        self.0 & 1 != 0
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        forms::FORMS.iter().enumerate().filter(move |(place, _)| self.0 & 2 << place != 0).map(|(_, form)| form.name)
    }
}

impl FormOutcomes {
    /// Counts the verdict on a case.
    pub fn add(&mut self, case: &Case, verdict: &Verdict) {
        if matches!(verdict.status, Status::Skip | Status::Error) {
            return;
        }
        let form = case.form.as_ref().map(|derived| derived.form);
        let outcomes = self.0.entry(case.base_name().to_owned()).or_insert_with(|| CaseOutcomes {
            file: case.file.clone(),
            passed: FormSet::default(),
            failed: FormSet::default(),
        });
        let set = if verdict.status == Status::Pass { &mut outcomes.passed } else { &mut outcomes.failed };
        set.insert(form);
    }

    /// A sentence for each case with some forms that pass and some that fail; cases of one file with the same forms share one.
    pub fn disagreements(&self) -> Vec<String> {
        // Cases of one file with the same outcomes share a sentence.
        let mut alike: Vec<(&str, String, &str, usize)> = Vec::new();
        for (name, ends) in &self.0 {
            if ends.passed.is_empty() || ends.failed.is_empty() {
                continue;
            }
            let words = format!(
                "{}, {}",
                subject_and_verb(ends.passed, "passes", "pass"),
                subject_and_verb(ends.failed, "fails", "fail")
            );
            match alike.iter_mut().find(|(file, other, ..)| *file == ends.file.path && *other == words) {
                Some((.., more)) => *more += 1,
                None => alike.push((&ends.file.path, words, name, 0)),
            }
        }
        let sentence = |(_, words, name, more): (&str, String, &str, usize)| match more {
            0 => format!("{name}: {words}"),
            1 => format!("{name}, and 1 more case of its file: {words}"),
            _ => format!("{name}, and {more} more cases of its file: {words}"),
        };
        alike.into_iter().map(sentence).collect()
    }
}

/// `plain passes`, `form tree fails`, `plain and forms ring, tree pass`.
fn subject_and_verb(who: FormSet, one: &str, several: &str) -> String {
    let mut forms: Vec<&str> = who.names().collect();
    forms.sort_unstable();
    let plain = who.has_plain().then(|| "plain".to_owned());
    let listed = match forms.as_slice() {
        [] => None,
        [form] => Some(format!("form {form}")),
        many => Some(format!("forms {}", many.join(", "))),
    };
    let verb = if usize::from(plain.is_some()) + forms.len() == 1 { one } else { several };
    let subject: Vec<String> = plain.into_iter().chain(listed).collect();
    format!("{} {verb}", subject.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixture;
    use collspec_core::scenario::FormOrigin;

    fn ended(all: &mut FormOutcomes, base: &str, form: Option<&str>, status: Status) {
        let mut case = (*fixture::case(base)).clone();
        case.form = form.map(|form| FormOrigin { form: forms::by_name(form).unwrap(), base: base.to_owned() });
        all.add(&case, &fixture::verdict(base, status));
    }

    #[test]
    fn a_form_that_fails_alone_is_named() {
        let mut all = FormOutcomes::default();
        ended(&mut all, "a/sum", Some("tree"), Status::Fail);
        ended(&mut all, "a/sum", None, Status::Pass);
        assert_eq!(all.disagreements(), ["a/sum: plain passes, form tree fails"]);
        ended(&mut all, "a/sum", Some("ring"), Status::Pass);
        ended(&mut all, "a/sum", Some("in_place"), Status::Pass);
        ended(&mut all, "a/sum", Some("sub"), Status::Skip);
        assert_eq!(all.disagreements(), ["a/sum: plain and forms in_place, ring pass, form tree fails"]);
    }

    #[test]
    fn who_all_end_alike_do_not_disagree() {
        let mut all = FormOutcomes::default();
        for status in [Status::Pass, Status::Fail] {
            let base = format!("a/{status:?}");
            ended(&mut all, &base, None, status);
            ended(&mut all, &base, Some("tree"), status);
            ended(&mut all, &base, Some("sub"), Status::Skip);
        }
        assert_eq!(all.disagreements(), [""; 0]);
    }

    #[test]
    fn cases_of_a_file_that_disagree_alike_are_told_together() {
        let mut all = FormOutcomes::default();
        for n in [1, 2, 3] {
            ended(&mut all, &format!("a/sum[n={n}]"), None, Status::Fail);
            ended(&mut all, &format!("a/sum[n={n}]"), Some("tree"), Status::Pass);
        }
        ended(&mut all, "b", None, Status::Fail);
        ended(&mut all, "b", Some("tree"), Status::Pass);
        let told = all.disagreements();
        let words = "form tree passes, plain fails";
        assert_eq!(told, [format!("a/sum[n=1], and 2 more cases of its file: {words}"), format!("b: {words}")]);
    }
}
