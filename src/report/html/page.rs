//! The page: cases with one verdict each, or several side by side, as one HTML file that needs nothing else.
use super::causes;
use crate::printable::{one_line, printable_lines, thousands};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The frame, with names in braces for what is filled in.
const FRAME: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("filter.js");
/// The hash by which a browser runs the page's own script and no other. A test says which it is when the script changes.
pub(super) const SCRIPT_HASH: &str = "PumFyus2Mha16i/fpH2PLdUbYMfo1TyeAgi5ieGzW6c=";

/// Bytes of scenario files that a page holds.
const MAX_SOURCES: usize = 512 << 10;
/// Bytes of one file.
const MAX_SOURCE: usize = 64 << 10;

/// Characters of a reason beside the case's name.
const BRIEF: usize = 160;

/// How a case is to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// As it should be.
    Good,
    /// Nothing was tried.
    Idle,
    /// Different, and not known to be wrong.
    Changed,
    /// Wrong.
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

/// The word by which a case is counted and filtered, and how it is to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// How it is to be seen.
    pub tone: Tone,
    /// The word.
    pub word: &'static str,
}

/// A report as a page.
#[derive(Clone, Debug)]
pub struct Page {
    /// How the whole is to be seen.
    pub tone: Tone,
    /// The answer in a line.
    pub headline: String,
    /// What it is about, in a line.
    pub subtitle: String,
    /// Tables of facts, each with a heading: of a run one, of a comparison one for each side.
    pub facts: Vec<(String, Vec<(String, String)>)>,
    /// The headings of the columns with the results of each side; none if the mark says it all.
    pub sides: Vec<String>,
    /// The heading above the cases that have a section.
    pub sections: &'static str,
    /// The cases, in the order in which they are shown.
    pub cases: Vec<PageCase>,
    /// The scenario files that sections quote: path and text.
    pub sources: BTreeMap<String, std::sync::Arc<str>>,
    /// Further sections, with a heading each: HTML whose foreign text is escaped.
    pub extra: Vec<(String, String)>,
}

/// A case of a page.
#[derive(Clone, Debug)]
pub struct PageCase {
    /// Its name.
    pub name: String,
    /// The words of its operations.
    pub operations: Vec<&'static str>,
    /// The element types of its buffers.
    pub types: Vec<&'static str>,
    /// Its mark.
    pub mark: Mark,
    /// A few words for each side.
    pub results: Vec<String>,
    /// Seconds that it took; `None` if it was not run.
    pub seconds: Option<f64>,
    /// Its section, if it has one.
    pub section: Option<Section>,
}

/// What is said of a case.
#[derive(Clone, Debug)]
pub struct Section {
    /// The operation that failed, or those of the case; cases with one reason at the same operation are shown together.
    pub operation: String,
    /// The reason in a line.
    pub reason: String,
    /// HTML whose foreign text is escaped.
    pub body: String,
    /// The path of its file, if the page has it.
    pub file: Option<String>,
}

/// The text as HTML shows it, also in an attribute in double quotes.
pub fn html_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A foreign text of one line, as HTML.
pub fn line(text: &str) -> String {
    html_text(&one_line(text))
}

/// The beginning of a foreign text, as HTML.
pub(super) fn brief(text: &str) -> String {
    let text = one_line(text);
    match text.char_indices().nth(BRIEF) {
        None => html_text(&text),
        Some((end, _)) => html_text(&text[..end]) + "…",
    }
}

/// A foreign text of several lines, as HTML.
pub fn lines(text: &str) -> String {
    html_text(printable_lines(text).trim_end())
}

impl Page {
    /// The page as HTML.
    pub fn html(&self) -> String {
        let hash = FRAME.replace("SCRIPT_HASH", SCRIPT_HASH);
        let parts: [(&str, String); 14] = [
            ("title", line(&self.headline)),
            ("style", STYLE.to_owned()),
            ("tone", self.tone.class().to_owned()),
            ("headline", line(&self.headline)),
            ("subtitle", line(&self.subtitle)),
            ("facts", self.facts()),
            ("matrix", super::matrix::matrix(&self.cases)),
            ("operations", options(self.cases.iter().flat_map(|case| &case.operations))),
            ("types", options(self.cases.iter().flat_map(|case| &case.types))),
            ("statuses", self.statuses()),
            ("sections", self.sections()),
            ("sides", self.sides.iter().map(|side| format!("<th>{}", line(side))).collect()),
            ("rows", self.rows()),
            ("sources", self.sources()),
        ];
        // The frame is cut once, so that a name in braces within a part stays as it is.
        let mut out = String::new();
        let mut rest = hash.as_str();
        while let Some((before, after)) = rest.split_once("{{") {
            out.push_str(before);
            let (name, behind) = after.split_once("}}").unwrap_or((after, ""));
            match parts.iter().find(|(part, _)| *part == name) {
                Some((_, html)) => out.push_str(html),
                None => out.push_str(SCRIPT),
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }

    fn facts(&self) -> String {
        let mut out = String::new();
        for (heading, facts) in &self.facts {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "<h3>{}</h3><table>", line(heading));
            for (name, value) in facts {
                let _ = write!(out, "<tr><th>{}<td>{}", line(name), line(value));
            }
            out.push_str("</table>");
        }
        out
    }

    /// A box for every mark, with its count, the worst first.
    fn statuses(&self) -> String {
        let mut counts: BTreeMap<Mark, usize> = BTreeMap::new();
        self.cases.iter().for_each(|case| *counts.entry(case.mark).or_default() += 1);
        let mut out = String::new();
        for (mark, count) in counts.iter().rev() {
            let (word, count) = (html_text(mark.word), thousands(*count as u64));
            let _ = write!(out, "<label><input type=checkbox value=\"{word}\" checked> {word} {count}</label>");
        }
        out
    }

    fn sections(&self) -> String {
        let mut out = String::new();
        for (heading, html) in &self.extra {
            let _ = write!(out, "<section><h2>{}</h2>{html}</section>", line(heading));
        }
        let with_section =
            || self.cases.iter().enumerate().filter_map(|(at, case)| Some((at, case, case.section.as_ref()?)));
        let number = with_section().count();
        if number == 0 {
            return out;
        }
        let _ = writeln!(out, "<section id=failures><h2>{}: {}</h2>", self.sections, thousands(number as u64));
        for cases in causes::by_cause(with_section()) {
            let several = cases.len() > 1;
            if several {
                causes::begin(&mut out, &cases);
            }
            cases.iter().for_each(|case| self.section(&mut out, case));
            if several {
                out.push_str("</details>\n");
            }
        }
        out + "</section>"
    }

    /// The section of a case.
    fn section(&self, out: &mut String, (at, case, section): &causes::Numbered<'_>) {
        let Mark { tone, word } = case.mark;
        let _ = write!(
            out,
            "<details class=case><summary><b class={}>{}</b> <code>{}</code> {}</summary><div id=c{at}>{}",
            tone.class(),
            html_text(word),
            line(&case.name),
            brief(&section.reason),
            section.body
        );
        let source = section.file.as_ref().filter(|file| self.sources.contains_key(*file));
        if let Some(path) = source {
            let source = self.sources.range(..path.clone()).count();
            let _ = write!(out, "<p><a href=#s{source}>the file {}</a>", line(path));
        }
        out.push_str("</div></details>\n");
    }

    fn rows(&self) -> String {
        let mut out = String::new();
        for (at, case) in self.cases.iter().enumerate() {
            let name = line(&case.name);
            let name = if case.section.is_some() { format!("<a href=#c{at}>{name}</a>") } else { name };
            let (tone, word) = (case.mark.tone.class(), html_text(case.mark.word));
            let (operations, types) = (case.operations.join(" "), case.types.join(" "));
            let _ = write!(out, "<tr class={tone}><td>{word}<td>{name}<td>{operations}<td>{types}");
            case.results.iter().for_each(|result| _ = write!(out, "<td>{}", line(result)));
            let time = case.seconds.map(super::super::human::duration).unwrap_or_default();
            let _ = writeln!(out, "<td>{time}");
        }
        out
    }

    fn sources(&self) -> String {
        if self.sources.is_empty() {
            return String::new();
        }
        let mut out = String::from("<section><h2>Scenario files</h2>");
        let mut room = MAX_SOURCES;
        for (at, (path, text)) in self.sources.iter().enumerate() {
            let _ = write!(out, "<details id=s{at}><summary><code>{}</code></summary>", line(path));
            if text.len() > MAX_SOURCE.min(room) {
                let _ =
                    write!(out, "<p>The file has {} bytes and is not shown here.</p>", thousands(text.len() as u64));
            } else {
                room -= text.len();
                out.push_str("<pre>");
                for (number, text) in text.lines().enumerate() {
                    let _ = writeln!(out, "{:>4}  {}", number + 1, line(text));
                }
                out.push_str("</pre>");
            }
            out.push_str("</details>\n");
        }
        out + "</section>"
    }
}

/// The words as choices of a list, each once.
fn options<'a>(words: impl Iterator<Item = &'a &'static str>) -> String {
    let words: BTreeSet<&str> = words.copied().collect();
    words.into_iter().map(|word| format!("<option>{}</option>", html_text(word))).collect()
}
