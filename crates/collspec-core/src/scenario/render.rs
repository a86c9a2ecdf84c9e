//! Renders diagnostics as text with annotate-snippets.
use super::diagnostic::{Diagnostic, SourceFile, Span};
use crate::printable::{printable, push_escaped};
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

/// Longest line that is shown completely, in bytes.
const MAX_LINE: usize = 160;
/// Number of bytes shown on each side of the span in a longer line.
const CONTEXT_BYTES: usize = 60;
/// Longest message, label or help.
const MAX_TEXT: usize = 600;

/// All diagnostics of a file, each with its line, a caret and the suggested fix.
pub fn render(file: &SourceFile, diagnostics: &[Diagnostic], color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let texts: Vec<String> = diagnostics.iter().map(|d| render_diagnostic(file, d, &renderer)).collect();
    texts.join("\n\n")
}

/// A long line, cut around a span.
struct CutLine {
    text: String,
    number: usize,
    /// The span in `text`.
    from: usize,
    to: usize,
    /// Column in the whole line, in characters from 1.
    column: usize,
}

fn render_diagnostic(file: &SourceFile, d: &Diagnostic, renderer: &Renderer) -> String {
    let path = printable(&file.path);
    let message = match &d.case {
        Some(case) => format!("{} (in {})", d.message, clip(case, 120)),
        None => d.message.clone(),
    };
    let message = clip(&message, MAX_TEXT);
    let mut group: Group<'_> =
        Group::with_title(if d.warns { Level::WARNING } else { Level::ERROR }.primary_title(message));
    if file.text.is_empty() {
        group = group.element(Origin::path(&*path));
    } else {
        return with_lines(&path, &file.text, d, group, renderer);
    }
    renderer.render(&[with_help(group, d)])
}

fn with_help<'a>(group: Group<'a>, d: &Diagnostic) -> Group<'a> {
    match &d.help {
        Some(help) => group.element(Level::HELP.message(clip(help, MAX_TEXT))),
        None => group,
    }
}

fn with_lines(path: &str, text: &str, d: &Diagnostic, group: Group<'_>, renderer: &Renderer) -> String {
    let label = (!d.label.is_empty()).then(|| clip(&d.label, MAX_TEXT));
    let main = SpanLine::of(text, d.span);
    let related: Vec<_> = d.related.iter().map(|(s, words)| (SpanLine::of(text, *s), words)).collect();
    if main.is_long() || related.iter().any(|r| r.0.is_long()) {
        let cut = main.cut(text);
        let words = related.iter().map(|(l, words)| format!("line {}: {}", l.number(text), clip(words, MAX_TEXT)));
        let notes: Vec<String> = words.collect();
        let snippet = Snippet::source(cut.text.as_str()).line_start(cut.number).path(path);
        let annotation = AnnotationKind::Primary.span(cut.from..cut.to).label(label);
        let group = group.element(snippet.annotation(annotation));
        let group = group.elements(notes.iter().map(|n| Level::NOTE.message(n.as_str())));
        let rendered = renderer.render(&[with_help(group, d)]);
        let seen = cut.text.get(..cut.from).map_or(0, |t| t.chars().count()) + 1;
        return with_column(rendered, path, cut.number, seen, cut.column);
    }
    let lines = || related.iter().map(|r| &r.0).chain([&main]);
    let start = lines().map(|l| l.start).min().unwrap_or(0);
    let end = lines().map(|l| l.end).max().unwrap_or(text.len());
    let number = lines().map(|l| l.number(text)).min().unwrap_or(1);
    let source = displayed(&text[start..end]);
    // The position in the shown text for a position in the file's text.
    let at = |place: usize| displayed(&text[start..place]).len();
    let mut snippet = Snippet::source(source.as_str()).line_start(number).path(path);
    snippet = snippet.annotation(AnnotationKind::Primary.span(at(main.from)..at(main.to)).label(label));
    for (l, words) in &related {
        snippet = snippet.annotation(AnnotationKind::Context.span(at(l.from)..at(l.to)).label(clip(words, MAX_TEXT)));
    }
    let rendered = renderer.render(&[with_help(group.element(snippet), d)]);
    let before = &text[main.start..main.from];
    let (seen, column) = (displayed(before).chars().count() + 1, before.chars().count() + 1);
    with_column(rendered, path, main.number(text), seen, column)
}

/// Replaces the column of the displayed line by the column in the file, if they differ.
fn with_column(rendered: String, path: &str, line: usize, seen: usize, column: usize) -> String {
    let place = |column: usize| format!("{path}:{line}:{column}");
    if seen == column { rendered } else { rendered.replacen(&place(seen), &place(column), 1) }
}

fn clip(text: &str, most: usize) -> String {
    printable(&super::names::shorten(text, most)).into_owned()
}

/// A file's text as displayed; the renderer expands tabs.
fn displayed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' | '\t' => out.push(c),
            '\r' if chars.peek() == Some(&'\n') => {}
            c => push_escaped(&mut out, c),
        }
    }
    out
}

/// The largest index up to `at` at which a character starts.
fn floor_char_boundary(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A line of the text and the part of a span on it, in bytes of the text.
struct SpanLine {
    start: usize,
    end: usize,
    from: usize,
    to: usize,
}

impl SpanLine {
    fn of(text: &str, span: Span) -> Self {
        let from = floor_char_boundary(text, span.start);
        let start = text[..from].rfind('\n').map_or(0, |k| k + 1);
        let end = text[from..].find('\n').map_or(text.len(), |k| from + k);
        let end = start + text[start..end].trim_end_matches('\r').len();
        let from = from.min(end);
        Self { start, end, from, to: floor_char_boundary(text, span.end).clamp(from, end) }
    }

    fn is_long(&self) -> bool {
        self.end - self.start > MAX_LINE
    }

    fn number(&self, text: &str) -> usize {
        text[..self.start].bytes().filter(|b| *b == b'\n').count() + 1
    }

    fn cut(&self, text: &str) -> CutLine {
        let to = floor_char_boundary(text, self.to.min(self.from + CONTEXT_BYTES)).max(self.from);
        let left = if self.from - self.start > CONTEXT_BYTES {
            floor_char_boundary(text, self.from - CONTEXT_BYTES)
        } else {
            self.start
        };
        let right = floor_char_boundary(text, to + CONTEXT_BYTES).clamp(to, self.end);
        let head = if left > self.start { "…" } else { "" };
        let tail = if right < self.end { "…" } else { "" };
        let at = |place: usize| head.len() + displayed(&text[left..place]).len();
        CutLine {
            text: format!("{head}{}{tail}", displayed(&text[left..right])),
            number: self.number(text),
            from: at(self.from),
            to: at(to),
            column: text[self.start..self.from].chars().count() + 1,
        }
    }
}
