//! The page: cases with one verdict each, or several side by side, as one HTML file that needs nothing else.
use super::causes;
use collspec_core::printable::{one_line, printable_lines, thousands};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::{BTreeMap, BTreeSet};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("filter.js");
/// The hash by which a browser runs the page's own script and no other. A test says which it is when the script changes.
pub(super) const SCRIPT_HASH: &str = "PumFyus2Mha16i/fpH2PLdUbYMfo1TyeAgi5ieGzW6c=";

/// Bytes of scenario files that a page holds.
const MAX_SOURCES: usize = 512 << 10;
/// Bytes of one file.
const MAX_SOURCE: usize = 64 << 10;

/// Number of characters of a reason shown next to the case's name.
const BRIEF: usize = 160;

/// The impression that a case should give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// The result is as it should be.
    Good,
    /// Nothing was tested.
    Idle,
    /// Different, and not known to be wrong.
    Changed,
    /// The result is wrong.
    Bad,
}

impl Tone {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Good => "g",
            Self::Idle => "i",
            Self::Changed => "c",
            Self::Bad => "b",
        }
    }
}

/// The word by which a case is counted and filtered, and its appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The impression that it should give.
    pub tone: Tone,
    /// The word that is shown.
    pub word: &'static str,
}

/// A report as a page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The impression that the whole should give.
    pub tone: Tone,
    /// The answer in a line.
    pub headline: String,
    /// The subject of the page, in a line.
    pub subtitle: String,
    /// Tables of facts, each with a heading: of a run one, of a comparison one for each side.
    pub facts: Vec<(String, Vec<(String, String)>)>,
    /// The headings of the columns with the results of each side; empty if the mark suffices.
    pub sides: Vec<String>,
    /// The heading above the cases that have a section.
    pub sections: &'static str,
    /// The cases, in the order in which they are shown.
    pub cases: Vec<PageCase>,
    /// The scenario files that sections quote: path and text.
    pub sources: BTreeMap<String, std::sync::Arc<str>>,
    /// Sections before those of the cases, with a heading each.
    pub before: Vec<(String, Markup)>,
    /// Sections after them.
    pub after: Vec<(String, Markup)>,
}

/// An operation in the language's word, and the type of its elements; empty if it has none.
pub type TypedCall = (&'static str, &'static str);

#[derive(Clone, Debug)]
pub struct PageCase {
    /// The case's name.
    pub name: String,
    /// Its operations with their types.
    pub calls: Vec<TypedCall>,
    /// The operations that the mark applies to; all if it is empty.
    pub marked: Vec<&'static str>,
    /// The case's mark.
    pub mark: Mark,
    /// A few words for each side.
    pub results: Vec<String>,
    /// Seconds that it took; `None` if it was not run.
    pub seconds: Option<f64>,
    pub section: Option<Section>,
}

impl PageCase {
    /// The words of its operations, each once.
    fn operations(&self) -> BTreeSet<&'static str> {
        self.calls.iter().map(|(operation, _)| *operation).collect()
    }

    /// The types of its calls, each once.
    fn types(&self) -> BTreeSet<&'static str> {
        self.calls.iter().map(|(_, dtype)| *dtype).filter(|dtype| !dtype.is_empty()).collect()
    }
}

/// The details on a case.
#[derive(Clone, Debug)]
pub struct Section {
    /// The operation that failed, or those of the case; cases with the same reason and operation are shown together.
    pub operation: String,
    /// The reason in a line.
    pub reason: String,
    /// The content of the section.
    pub body: Markup,
    /// The path of its file, if the page has it.
    pub file: Option<String>,
}

/// The text as HTML shows it, for Markdown with elements of HTML.
pub fn html_text(text: &str) -> String {
    html!((text)).into_string()
}

/// The beginning of a foreign text, in one line.
pub(super) fn brief(text: &str) -> String {
    let text = one_line(text);
    match text.char_indices().nth(BRIEF) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A foreign text of several lines.
pub fn lines(text: &str) -> String {
    printable_lines(text).trim_end().to_owned()
}

impl Page {
    /// The page as HTML.
    pub fn html(&self) -> String {
        let policy = format!(
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{SCRIPT_HASH}'; img-src data:; \
             base-uri 'none'; form-action 'none'"
        );
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    title { (one_line(&self.headline)) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header class=(self.tone.class()) {
                        h1 { (one_line(&self.headline)) }
                        p { (one_line(&self.subtitle)) }
                    }
                    main {
                        details.facts { summary { "Library, machine and environment" } (self.facts()) }
                        (super::matrix::matrix(&self.cases))
                        (self.filter())
                        (self.sections())
                        section #cases {
                            h2 { "All cases" }
                            .wide { (self.table()) }
                        }
                        (self.sources())
                    }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        page.into_string()
    }

    fn facts(&self) -> Markup {
        html! {
            @for (heading, facts) in &self.facts {
                h3 { (one_line(heading)) }
                table {
                    @for (name, value) in facts {
                        tr { th { (one_line(name)) } td { (one_line(value)) } }
                    }
                }
            }
        }
    }

    fn filter(&self) -> Markup {
        let mut counts: BTreeMap<Mark, usize> = BTreeMap::new();
        self.cases.iter().for_each(|case| *counts.entry(case.mark).or_default() += 1);
        html! {
            form #filter hidden {
                label { "Text " input #text type="search" placeholder="part of a name"; }
                label { "Operation " select #operation { (options(self.cases.iter().flat_map(PageCase::operations))) } }
                label { "Type " select #type { (options(self.cases.iter().flat_map(PageCase::types))) } }
                fieldset {
                    legend { "Status" }
                    // The worst first.
                    @for (mark, count) in counts.iter().rev() {
                        label {
                            input type="checkbox" value=(mark.word) checked;
                            " " (mark.word) " " (thousands(*count as u64))
                        }
                    }
                }
                button type="reset" { "Show all" }
                output #shown {}
            }
        }
    }

    fn sections(&self) -> Markup {
        let with_section =
            || self.cases.iter().enumerate().filter_map(|(at, case)| Some((at, case, case.section.as_ref()?)));
        let number = with_section().count();
        let others = |sections: &[(String, Markup)]| {
            html! { @for (heading, content) in sections { section { h2 { (one_line(heading)) } (content) } } }
        };
        html! {
            (others(&self.before))
            @if number > 0 {
                section #failures {
                    h2 { (self.sections) ": " (thousands(number as u64)) }
                    @for cases in causes::by_cause(with_section()) {
                        @let details = html!(@for case in &cases { (self.section(case)) });
                        @if cases.len() > 1 { (causes::folded(&cases, &details)) } @else { (details) }
                    }
                }
            }
            (others(&self.after))
        }
    }

    fn section(&self, (at, case, section): &causes::Numbered<'_>) -> Markup {
        let Mark { tone, word } = case.mark;
        html! {
            details.case {
                summary { b class=(tone.class()) { (word) } " " code { (one_line(&case.name)) } " " (brief(&section.reason)) }
                div id={ "c" (at) } {
                    (section.body)
                    @if let Some(path) = section.file.as_ref().filter(|file| self.sources.contains_key(*file)) {
                        p { a href={ "#s" (self.sources.range(..path.clone()).count()) } { "the file " (one_line(path)) } }
                    }
                }
            }
        }
    }

    /// The table of all cases.
    fn table(&self) -> Markup {
        html! {
            table {
                thead {
                    tr {
                        th { "status" } th { "case" } th { "operation" } th { "type" }
                        @for side in &self.sides { th { (one_line(side)) } }
                        th { "time" }
                    }
                }
                tbody #rows {
                    @for (at, case) in self.cases.iter().enumerate() {
                        @let name = html!((one_line(&case.name)));
                        tr class=(case.mark.tone.class()) {
                            td { (case.mark.word) }
                            td { @if case.section.is_some() { a href={ "#c" (at) } { (name) } } @else { (name) } }
                            td { (words(&case.operations())) }
                            td { (words(&case.types())) }
                            @for result in &case.results { td { (one_line(result)) } }
                            td { (case.seconds.map(collspec_suite::report::human::duration).unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }

    fn sources(&self) -> Markup {
        if self.sources.is_empty() {
            return Markup::default();
        }
        let mut room = MAX_SOURCES;
        let mut files = Vec::new();
        for (at, (path, text)) in self.sources.iter().enumerate() {
            let fits = text.len() <= MAX_SOURCE.min(room);
            if fits {
                room -= text.len();
            }
            files.push(html! {
                details id={ "s" (at) } {
                    summary { code { (one_line(path)) } }
                    @if fits {
                        pre {
                            @for (number, text) in text.lines().enumerate() {
                                (format!("{:>4}  {}\n", number + 1, one_line(text)))
                            }
                        }
                    } @else {
                        p { "The file has " (thousands(text.len() as u64)) " bytes and is not shown here." }
                    }
                }
            });
        }
        html! { section { h2 { "Scenario files" } @for file in &files { (file) } } }
    }
}

/// Words with blanks between them.
fn words(words: &BTreeSet<&str>) -> String {
    words.iter().copied().collect::<Vec<_>>().join(" ")
}

/// The words as choices of a list, each once, after one for all.
fn options(words: impl Iterator<Item = &'static str>) -> Markup {
    let words: BTreeSet<&str> = words.collect();
    html! {
        option value="" { "all" }
        @for word in words { option { (word) } }
    }
}
