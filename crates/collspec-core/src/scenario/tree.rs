//! The tree of a file: TOML values with spans, keys in file order. It is cheap to copy, so that each point of the matrix can
//! change a copy.
use super::diagnostic::{Diagnostic, SourceFile, Span};
use super::{statements, syntax};
use std::collections::BTreeSet;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// Number of syntax errors that are shown for one file.
pub(crate) const MAX_SYNTAX_ERRORS: usize = 20;

/// Bytes of text that count as one value.
pub(crate) const TEXT_BYTES_PER_VALUE: usize = 64;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct TomlValue {
    pub span: Span,
    pub kind: TomlKind,
}

/// The value of a TOML key or list item.
#[derive(Clone, Debug)]
pub(crate) enum TomlKind {
    Str(Arc<str>),
    Int(i128),
    Float(f64),
    Bool(bool),
    Date,
    Array(Arc<Vec<TomlValue>>),
    Table(Arc<TomlTable>),
}

/// A table, in file order.
#[derive(Clone, Debug, Default)]
pub(crate) struct TomlTable {
    pub entries: Vec<TomlEntry>,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) struct TomlEntry {
    pub key: Arc<str>,
    pub key_span: Span,
    pub value: TomlValue,
}

impl TomlTable {
    /// Number of values in the table, without the table itself.
    pub fn size(&self) -> usize {
        self.entries.iter().map(|e| e.value.size() + e.key.len() / TEXT_BYTES_PER_VALUE).sum()
    }

    pub fn get(&self, key: &str) -> Option<&TomlEntry> {
        self.entries.iter().find(|e| &*e.key == key)
    }

    /// Sets a key, replacing an old value.
    pub fn set(&mut self, entry: TomlEntry) {
        match self.entries.iter_mut().find(|e| e.key == entry.key) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }
}

impl TomlValue {
    /// The kind of value for messages.
    pub fn kind_name(&self) -> &'static str {
        match &self.kind {
            TomlKind::Str(_) => "text",
            TomlKind::Int(_) => "a whole number",
            TomlKind::Float(_) => "a number with a fraction",
            TomlKind::Bool(_) => "true or false",
            TomlKind::Date => "a date",
            TomlKind::Array(_) => "a list",
            TomlKind::Table(_) => "a table",
        }
    }

    /// The value in one line without spaces, as in names of cases.
    pub fn compact(&self) -> String {
        match &self.kind {
            TomlKind::Str(s) => s.to_string(),
            _ => self.to_toml(),
        }
    }

    /// The value as written in a file, shortened.
    pub fn written(&self) -> String {
        super::names::shorten(&self.to_toml(), 24)
    }

    fn to_toml(&self) -> String {
        match &self.kind {
            TomlKind::Str(s) => format!("\"{s}\""),
            TomlKind::Int(v) => v.to_string(),
            TomlKind::Float(v) if v.is_nan() => "nan".into(),
            TomlKind::Float(v) => format!("{v:?}"),
            TomlKind::Bool(v) => v.to_string(),
            TomlKind::Date => "date".into(),
            TomlKind::Array(a) => format!("[{}]", a.iter().map(TomlValue::to_toml).collect::<Vec<_>>().join(",")),
            TomlKind::Table(t) => {
                let parts: Vec<_> = t.entries.iter().map(|e| format!("{}={}", e.key, e.value.to_toml())).collect();
                format!("{{{}}}", parts.join(","))
            }
        }
    }

    /// Number of values in it, including itself; long texts count as several.
    pub fn size(&self) -> usize {
        match &self.kind {
            TomlKind::Array(a) => 1 + a.iter().map(TomlValue::size).sum::<usize>(),
            TomlKind::Table(t) => 1 + t.size(),
            TomlKind::Str(s) => 1 + s.len() / TEXT_BYTES_PER_VALUE,
            _ => 1,
        }
    }
}

/// Parses a file into a tree.
///
/// # Errors
///
/// The syntax errors by place.
pub(crate) fn parse(source: &SourceFile) -> Result<TomlTable, Vec<Diagnostic>> {
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    let places: BTreeSet<(usize, usize, &str)> = errors
        .iter()
        .map(|e| {
            let span = e.span().unwrap_or(source.text.len()..source.text.len());
            (span.start, span.end, e.message())
        })
        .collect();
    let mut places = statements::first_errors(&source.text, places.into_iter().collect());
    if syntax::is_json(&source.text) || syntax::is_yaml(&source.text) {
        places.truncate(1);
    }
    let more = places.len().saturating_sub(MAX_SYNTAX_ERRORS);
    let shown = places.into_iter().take(MAX_SYNTAX_ERRORS);
    let mut diagnostics: Vec<Diagnostic> =
        shown.map(|(start, end, message)| syntax::diagnostic(&source.text, Span { start, end }, message)).collect();
    if let (Some(last), true) = (diagnostics.last_mut(), more > 0) {
        last.help = Some(format!("{more} more syntax errors are not shown"));
    }
    if !diagnostics.is_empty() {
        return Err(diagnostics);
    }
    let mut out = Vec::new();
    let tree = convert_table(table.get_ref(), &mut out);
    if out.is_empty() {
        return Ok(tree);
    }
    out.truncate(MAX_SYNTAX_ERRORS);
    Err(out)
}

fn to_span(r: std::ops::Range<usize>) -> Span {
    Span { start: r.start, end: r.end }
}

/// The depth of the recursion is bounded, because the TOML parser refuses deep nesting.
fn convert_table(table: &DeTable<'_>, diagnostics: &mut Vec<Diagnostic>) -> TomlTable {
    let mut entries: Vec<TomlEntry> = table
        .iter()
        .map(|(k, v)| TomlEntry {
            key: k.get_ref().as_ref().into(),
            key_span: to_span(k.span()),
            value: convert(v.get_ref(), to_span(v.span()), diagnostics),
        })
        .collect();
    entries.sort_by_key(|e| e.key_span.start);
    TomlTable { entries }
}

fn convert(value: &DeValue<'_>, span: Span, diagnostics: &mut Vec<Diagnostic>) -> TomlValue {
    let kind = match value {
        DeValue::String(s) => TomlKind::Str(s.as_ref().into()),
        DeValue::Integer(i) => TomlKind::Int(i128::from_str_radix(i.as_str(), i.radix()).unwrap_or_else(|_| {
            // The parser accepts a prefix such as `0x` without digits.
            let lacks_digits = i.as_str().is_empty();
            let message = if lacks_digits { "this number lacks digits" } else { "this number does not fit 128 bits" };
            diagnostics.push(Diagnostic::new(span, message));
            0
        })),
        DeValue::Float(f) => {
            let v: f64 = f.as_str().parse().unwrap_or(f64::NAN);
            if v.is_infinite() && !f.as_str().contains("inf") {
                diagnostics.push(Diagnostic::new(span, "this number is greater than any f64").help("write `inf`"));
            }
            TomlKind::Float(v)
        }
        DeValue::Boolean(b) => TomlKind::Bool(*b),
        DeValue::Datetime(_) => TomlKind::Date,
        DeValue::Array(a) => {
            TomlKind::Array(Arc::new(a.iter().map(|v| convert(v.get_ref(), to_span(v.span()), diagnostics)).collect()))
        }
        DeValue::Table(t) => TomlKind::Table(Arc::new(convert_table(t, diagnostics))),
    };
    TomlValue { span, kind }
}
