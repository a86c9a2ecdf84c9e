//! The raw tree of a file: TOML values with spans, keys in file order, cheap to copy so that a matrix point can overlay it.
use super::diagnostic::{Diagnostic, SourceFile, Span};
use super::statements;
use std::collections::BTreeSet;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// Most faults of syntax that are shown for one file.
pub(crate) const MAX_SYNTAX: usize = 20;

/// Bytes of text that count as one value.
pub(crate) const TEXT_OF_VALUE: usize = 64;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Val {
    pub span: Span,
    pub kind: Kind,
}

/// A TOML value.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Str(Arc<str>),
    Int(i128),
    Float(f64),
    Bool(bool),
    Date,
    Array(Arc<Vec<Val>>),
    Table(Arc<Table>),
}

/// A table, in file order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub entries: Vec<Entry>,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: Arc<str>,
    pub key_span: Span,
    pub val: Val,
}

impl Table {
    /// Values in it, the table itself not counted.
    pub fn size(&self) -> usize {
        self.entries.iter().map(|e| e.val.size() + e.key.len() / TEXT_OF_VALUE).sum()
    }

    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| &*e.key == key)
    }

    /// Sets a key, in place of an old value if there is one.
    pub fn set(&mut self, entry: Entry) {
        match self.entries.iter_mut().find(|e| e.key == entry.key) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }
}

impl Val {
    /// What kind of value it is, for messages.
    pub fn what(&self) -> &'static str {
        match &self.kind {
            Kind::Str(_) => "text",
            Kind::Int(_) => "a whole number",
            Kind::Float(_) => "a number with a fraction",
            Kind::Bool(_) => "true or false",
            Kind::Date => "a date",
            Kind::Array(_) => "a list",
            Kind::Table(_) => "a table",
        }
    }

    /// One line without spaces, as in case names.
    pub fn compact(&self) -> String {
        match &self.kind {
            Kind::Str(s) => s.to_string(),
            _ => self.nested(),
        }
    }

    /// As in a file, shortened.
    pub fn written(&self) -> String {
        super::names::shorten(&self.nested(), 24)
    }

    fn nested(&self) -> String {
        match &self.kind {
            Kind::Str(s) => format!("\"{s}\""),
            Kind::Int(v) => v.to_string(),
            Kind::Float(v) if v.is_nan() => "nan".into(),
            Kind::Float(v) => format!("{v:?}"),
            Kind::Bool(v) => v.to_string(),
            Kind::Date => "date".into(),
            Kind::Array(a) => format!("[{}]", a.iter().map(Val::nested).collect::<Vec<_>>().join(",")),
            Kind::Table(t) => {
                let parts: Vec<_> = t.entries.iter().map(|e| format!("{}={}", e.key, e.val.nested())).collect();
                format!("{{{}}}", parts.join(","))
            }
        }
    }

    /// Values in it, itself included; long texts count as several.
    pub fn size(&self) -> usize {
        match &self.kind {
            Kind::Array(a) => 1 + a.iter().map(Val::size).sum::<usize>(),
            Kind::Table(t) => 1 + t.size(),
            Kind::Str(s) => 1 + s.len() / TEXT_OF_VALUE,
            _ => 1,
        }
    }
}

/// The tree of a file, or the faults of its syntax, sorted by place.
pub(crate) fn parse(source: &SourceFile) -> Result<Table, Vec<Diagnostic>> {
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    let places: BTreeSet<(usize, usize, &str)> = errors
        .iter()
        .map(|e| {
            let span = e.span().unwrap_or(source.text.len()..source.text.len());
            (span.start, span.end, e.message())
        })
        .collect();
    let places = statements::first_faults(&source.text, places.into_iter().collect());
    let more = places.len().saturating_sub(MAX_SYNTAX);
    let shown = places.into_iter().take(MAX_SYNTAX);
    let mut faults: Vec<Diagnostic> = shown.map(|(start, end, message)| syntax(Span { start, end }, message)).collect();
    if let (Some(last), true) = (faults.last_mut(), more > 0) {
        last.help = Some(format!("there are {more} more faults like these"));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut out = Vec::new();
    let tree = convert_table(table.get_ref(), &mut out);
    if out.is_empty() {
        return Ok(tree);
    }
    out.truncate(MAX_SYNTAX);
    Err(out)
}

fn syntax(span: Span, message: &str) -> Diagnostic {
    match message {
        m if m.contains("recurs") => Diagnostic::new(span, "nested too deeply"),
        m => Diagnostic::new(span, m.to_owned()),
    }
}

fn to_span(r: std::ops::Range<usize>) -> Span {
    Span { start: r.start, end: r.end }
}

/// Recursion is bounded: the TOML parser refuses deep nesting itself.
fn convert_table(table: &DeTable<'_>, faults: &mut Vec<Diagnostic>) -> Table {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(k, v)| Entry {
            key: k.get_ref().as_ref().into(),
            key_span: to_span(k.span()),
            val: convert(v.get_ref(), to_span(v.span()), faults),
        })
        .collect();
    entries.sort_by_key(|e| e.key_span.start);
    Table { entries }
}

fn convert(value: &DeValue<'_>, span: Span, faults: &mut Vec<Diagnostic>) -> Val {
    let kind = match value {
        DeValue::String(s) => Kind::Str(s.as_ref().into()),
        DeValue::Integer(i) => Kind::Int(i128::from_str_radix(i.as_str(), i.radix()).unwrap_or_else(|_| {
            faults.push(Diagnostic::new(span, "this number does not fit 128 bits"));
            0
        })),
        DeValue::Float(f) => {
            let v: f64 = f.as_str().parse().unwrap_or(f64::NAN);
            if v.is_infinite() && !f.as_str().contains("inf") {
                faults.push(Diagnostic::new(span, "this number is greater than any f64").help("write `inf`"));
            }
            Kind::Float(v)
        }
        DeValue::Boolean(b) => Kind::Bool(*b),
        DeValue::Datetime(_) => Kind::Date,
        DeValue::Array(a) => {
            Kind::Array(Arc::new(a.iter().map(|v| convert(v.get_ref(), to_span(v.span()), faults)).collect()))
        }
        DeValue::Table(t) => Kind::Table(Arc::new(convert_table(t, faults))),
    };
    Val { span, kind }
}
