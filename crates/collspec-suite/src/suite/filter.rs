//! Selects cases by name, by tag, and by their shard when several machines divide a run.
use collspec_core::scenario::Case;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The tag of long-running cases; they run only if a filter selects them.
const LONG: &str = "long";

/// A selection of cases: those that match any positive term and no negative term.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The terms. Without a positive term, every case not tagged `long` is selected.
    pub terms: Vec<FilterTerm>,
    /// Without a positive term, cases tagged `long` are selected too.
    pub long: bool,
}

/// One condition on a case's name or tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterTerm {
    /// The whole name equals the text.
    Named(String),
    /// The text is a part of the name, or a tag.
    Has(String),
    /// The text is neither a part of the name nor a tag.
    HasNot(String),
}

impl FilterTerm {
    pub fn parse(text: &str) -> Self {
        let rest = text.trim_start().strip_prefix("not").filter(|rest| rest.starts_with(char::is_whitespace));
        match rest.map(str::trim).filter(|rest| !rest.is_empty()) {
            Some(rest) => Self::HasNot(rest.to_owned()),
            None => Self::Has(text.to_owned()),
        }
    }

    fn is_wanted(&self) -> bool {
        !matches!(self, Self::HasNot(_))
    }

    /// True if the case contains the text of the term.
    fn finds(&self, case: &Case) -> bool {
        match self {
            Self::Named(name) => case.name == *name,
            Self::Has(text) | Self::HasNot(text) => {
                case.name.contains(text.as_str()) || case.tags.iter().any(|tag| tag == text)
            }
        }
    }
}

impl fmt::Display for FilterTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(text) | Self::Has(text) => write!(f, "'{text}'"),
            Self::HasNot(text) => write!(f, "'not {text}'"),
        }
    }
}

impl Filter {
    /// Builds a filter from texts, each `TEXT` or `not TEXT`.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self { terms: texts.into_iter().map(|text| FilterTerm::parse(text.as_ref())).collect(), long: false }
    }

    /// A filter that selects the cases with these names.
    pub fn named<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Self {
        Self { terms: names.into_iter().map(|name| FilterTerm::Named(name.into())).collect(), long: false }
    }

    /// True if the case is selected.
    pub fn admits(&self, case: &Case) -> bool {
        let (wanted, unwanted): (Vec<&FilterTerm>, Vec<&FilterTerm>) =
            self.terms.iter().partition(|term| term.is_wanted());
        if unwanted.iter().any(|term| term.finds(case)) {
            return false;
        }
        if wanted.is_empty() {
            return self.long || !case.tags.iter().any(|tag| tag == LONG);
        }
        wanted.iter().any(|term| term.finds(case))
    }
}

/// One of several shares of a run. Each case belongs to exactly one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The share's index, from 0.
    index: usize,
    count: usize,
}

impl Shard {
    /// Parses a share such as `2/5`, the second of five.
    ///
    /// # Errors
    ///
    /// The text is not `I/N` with 1 <= I <= N; the message gives the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse::<usize>().ok()?, n.parse().ok()?)));
        match numbers {
            Some((number, count)) if (1..=count).contains(&number) => Ok(Self { index: number - 1, count }),
            Some((number, count)) if count > 0 => {
                Err(format!("expected I/N with I from 1 to N: there is no share {number} of {count}"))
            }
            _ => Err("expected I/N, for example 2/5: the second of five shares".to_owned()),
        }
    }

    /// Keeps this share: every N-th case, ordered by name.
    pub fn keep(self, cases: &mut Vec<Arc<Case>>) {
        let mut names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
        names.sort();
        let places: HashMap<String, usize> = names.into_iter().enumerate().map(|(at, name)| (name, at)).collect();
        cases.retain(|case| places.get(&case.name).is_some_and(|at| at % self.count == self.index));
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixture;

    fn admits(text: &str, name: &str) -> bool {
        Filter::parse([text]).admits(&fixture::case(name))
    }

    fn tagged(tag: &str) -> Case {
        let mut case = (*fixture::case("a")).clone();
        case.tags = vec![tag.into()];
        case
    }

    #[test]
    fn a_filter_is_part_of_a_name_or_all_of_it() {
        assert!(Filter::default().admits(&fixture::case("a")));
        assert!(admits("n=1", "a[n=16]"));
        assert!(!admits("b", "a"));
        let named = |name: &str| Filter::named([name]).admits(&fixture::case("a[n=16]"));
        assert!(!named("n=1"));
        assert!(named("a[n=16]"));
    }

    #[test]
    fn what_takes_long_is_meant_only_if_it_is_selected() {
        let case = tagged(LONG);
        assert!(!Filter::default().admits(&case));
        assert!(Filter { long: true, ..Filter::default() }.admits(&case));
        for text in ["a", LONG] {
            assert!(Filter::parse([text]).admits(&case), "{text}");
        }
        assert!(!Filter::parse(["not b"]).admits(&case), "a filter that only excludes selects nothing by name");
        assert!(Filter::named(["a"]).admits(&case));
    }

    #[test]
    fn a_tag_is_matched_whole() {
        let case = tagged("slow");
        assert!(Filter::parse(["slow"]).admits(&case));
        assert!(!Filter::parse(["slo"]).admits(&case));
        assert!(!Filter::named(["slow"]).admits(&case));
        assert!(!Filter::parse(["not slow"]).admits(&case));
        assert!(Filter::parse(["not slo"]).admits(&case));
    }

    #[test]
    fn any_wanted_term_selects_and_any_unwanted_one_excludes() {
        let names = |texts: &[&str]| -> Vec<&str> {
            let filter = Filter::parse(texts);
            ["ring/sum", "ring/max", "tree/sum", "tree/max"]
                .into_iter()
                .filter(|name| filter.admits(&fixture::case(name)))
                .collect()
        };
        assert_eq!(names(&["ring", "max"]), ["ring/sum", "ring/max", "tree/max"]);
        assert_eq!(names(&["not ring"]), ["tree/sum", "tree/max"]);
        assert_eq!(names(&["not ring", "not max"]), ["tree/sum"]);
        assert_eq!(names(&["ring", "not max"]), ["ring/sum"]);
    }

    #[test]
    fn not_is_a_word_of_its_own() {
        for (text, term) in [
            ("not  a b ", FilterTerm::HasNot("a b".into())),
            ("nothing", FilterTerm::Has("nothing".into())),
            ("not", FilterTerm::Has("not".into())),
            ("not ", FilterTerm::Has("not ".into())),
        ] {
            assert_eq!(FilterTerm::parse(text), term);
        }
    }

    #[test]
    fn every_case_is_in_one_shard() {
        let all: Vec<Arc<Case>> = (0..23).rev().map(|n| fixture::case(&format!("c{n}"))).collect();
        for count in [1, 2, 5, 23, 40] {
            let mut seen = Vec::new();
            for number in 1..=count {
                let mut cases = all.clone();
                Shard::parse(&format!("{number}/{count}")).unwrap().keep(&mut cases);
                assert!((23 / count..=23usize.div_ceil(count)).contains(&cases.len()), "{number}/{count}");
                seen.extend(cases.iter().map(|case| case.name.clone()));
            }
            seen.sort();
            let mut names: Vec<String> = all.iter().map(|case| case.name.clone()).collect();
            names.sort();
            assert_eq!(seen, names, "{count}");
        }
        for text in ["0/2", "3/2", "1/0", "2", "a/b", "-1/2", "1/2/3"] {
            assert!(Shard::parse(text).is_err(), "{text}");
        }
    }
}
