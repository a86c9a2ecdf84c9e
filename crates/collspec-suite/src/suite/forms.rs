//! Adds the forms of cases that files or options ask for.
use super::{CaseSet, invalid_files, parallel};
use collspec_core::scenario::forms::{self, Form};
use collspec_core::scenario::{Case, Diagnostic};
use collspec_core::suggest::nearest;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The forms in which cases run in addition to the file's own steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Forms {
    /// The forms that each file names.
    #[default]
    Named,
    /// These forms for every case that can take them, whatever the files name.
    These(Vec<&'static Form>),
}

impl Forms {
    /// Parses `all`, `none`, or names separated by commas.
    ///
    /// # Errors
    ///
    /// The form is unknown; the text lists the forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "all" => return Ok(Self::These(forms::FORMS.iter().collect())),
            "none" => return Ok(Self::These(Vec::new())),
            _ => {}
        }
        let mut these = Vec::new();
        for word in text.split(',').map(str::trim) {
            let form = forms::by_name(word).ok_or_else(|| unknown(word))?;
            if !these.contains(&form) {
                these.push(form);
            }
        }
        Ok(Self::These(these))
    }
}

fn unknown(word: &str) -> String {
    let known = forms::names();
    let near = nearest(word, known.iter().copied().chain(["all", "none"]));
    let help = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    format!("{help}the forms are {}, or all, or none", known.join(", "))
}

/// The forms made from one case.
#[derive(Default)]
struct Made {
    cases: Vec<Arc<Case>>,
    /// Forms that the case cannot take, and the reasons.
    refused: Vec<(&'static Form, String)>,
}

/// Adds the wanted forms of all cases, on `jobs` threads. If a file names a form that none of its cases can take, that is
/// an error in the file.
pub(super) fn add(suite: &mut CaseSet, wanted: &Forms, jobs: usize) {
    let list = |case: &Case| match wanted {
        Forms::Named => case.forms.iter().map(|form| form.value).collect(),
        Forms::These(these) => these.clone(),
    };
    let made = parallel::map(&suite.cases, jobs, |case| make(suite, case, &list(case)));
    if *wanted == Forms::Named {
        for (case, diagnostic) in unused(&suite.cases, &made) {
            invalid_files::add(&mut suite.invalid_files, &case, vec![diagnostic]);
        }
    }
    suite.cases.extend(made.into_iter().flat_map(|made| made.cases));
}

fn make(suite: &CaseSet, case: &Arc<Case>, list: &[&'static Form]) -> Made {
    let mut made = Made::default();
    let refuses = |case: &Arc<Case>| {
        suite.plans.plan(case, &suite.limits).err().map(|diagnostics| diagnostics.into_iter().next())
    };
    let mut sound = None;
    for form in list {
        match form.apply(case) {
            Ok(new) => {
                let new = Arc::new(new);
                match refuses(&new) {
                    None => made.cases.push(new),
                    // An error of the case itself is reported for the case, not for each of its forms.
                    Some(_) if !*sound.get_or_insert_with(|| refuses(case).is_none()) => {}
                    Some(first) => {
                        let why = first.map_or_else(|| "it cannot be planned".to_owned(), |first| first.message);
                        made.refused.push((form, why));
                    }
                }
            }
            Err(why) => made.refused.push((form, why.to_owned())),
        }
    }
    made
}

/// A case that cannot take a form it names: the case, the form's index in its list, and the reason.
type Refused<'a> = (&'a Arc<Case>, usize, &'a str);

/// The forms that a file names but none of its cases takes.
fn unused(cases: &[Arc<Case>], made: &[Made]) -> Vec<(Arc<Case>, Diagnostic)> {
    // by file and position of the word: the first case that cannot take the form; `None` if some case can
    let mut named: BTreeMap<(&str, usize), Option<Refused<'_>>> = BTreeMap::new();
    for (case, made) in cases.iter().zip(made) {
        for (index, form) in case.forms.iter().enumerate() {
            let why = made.refused.iter().find(|(refused, _)| *refused == form.value);
            let why = why.map(|(_, why)| (case, index, why.as_str()));
            let first = named.entry((&case.file.path, form.span.start)).or_insert(why);
            if why.is_none() {
                *first = None;
            }
        }
    }
    let left = named.into_values().flatten().map(|(case, index, why)| {
        let form = &case.forms[index];
        let text = format!("no case of this file can take the form `{}`", form.value.name);
        let diagnostic =
            Diagnostic::new(form.span, text).label(why.to_owned()).help(format!("the form is: {}", form.value.doc));
        (case.clone(), diagnostic)
    });
    left.collect()
}
