//! Merges cases that failed in the same way into one line of the page.
use super::page::{Mark, PageCase, Section, brief};
use collspec_core::printable::{one_line, thousands};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// A case with a section, and its number on the page.
pub(super) type Numbered<'a> = (usize, &'a PageCase, &'a Section);

/// Cases that have the same mark, and the same reason at the same operation apart from numbers, in the order of the first of each.
pub(super) fn by_cause<'a>(cases: impl Iterator<Item = Numbered<'a>>) -> Vec<Vec<Numbered<'a>>> {
    let mut known: BTreeMap<(Mark, &str, String), usize> = BTreeMap::new();
    let mut causes: Vec<Vec<Numbered<'a>>> = Vec::new();
    for (number, case, section) in cases {
        let key = (case.mark, section.operation.as_str(), without_numbers(&section.reason));
        let at = *known.entry(key).or_insert(causes.len());
        match causes.get_mut(at) {
            Some(cause) => cause.push((number, case, section)),
            None => causes.push(vec![(number, case, section)]),
        }
    }
    causes
}

/// Several cases with one cause: a line, and the sections of the cases folded below it.
pub(super) fn folded(cases: &[Numbered<'_>], sections: &Markup) -> Markup {
    let Some((_, first, section)) = cases.first() else { return Markup::default() };
    let Mark { tone, word } = first.mark;
    html! {
        details.cause {
            summary {
                b class=(tone.class()) { (word) } " " (thousands(cases.len() as u64)) " cases: "
                @if !section.operation.is_empty() { code { (one_line(&section.operation)) } " " }
                (brief(&section.reason))
            }
            (sections)
        }
    }
}

/// The text with a sign for each number, also one with a point or an exponent, and for infinities and NaN.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let words = text.split_inclusive(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '_' | '+' | '-')));
    for word in words {
        let end = word.trim_end_matches(|c: char| !c.is_alphanumeric());
        let (start, number) = end.split_at(end.find(|c: char| !matches!(c, '+' | '-')).unwrap_or(end.len()));
        let is_number = number.starts_with(|c: char| c.is_ascii_digit()) || matches!(number, "inf" | "nan" | "NaN");
        if is_number {
            out.push('#');
        } else {
            out.push_str(start);
            out.push_str(number);
        }
        out.push_str(&word[end.len()..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::without_numbers;

    #[test]
    fn texts_that_differ_in_numbers_are_one() {
        let of = without_numbers("rank 0: `a[12]` is -1.5e-7, expected inf; 13 of 1,000 elements differ");
        assert_eq!(of, without_numbers("rank 3: `a[0]` is 2, expected -NaN; 1 of 2,345 elements differ"));
        assert_ne!(of, without_numbers("rank 3: `b[0]` is 2, expected -NaN; 1 of 2,345 elements differ"));
        assert_eq!(without_numbers("x2 f32: 4; é-1 ü"), "x2 f32: #; é-1 ü");
    }
}
