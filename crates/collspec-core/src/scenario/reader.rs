//! Reads single values of the tree: numbers, texts, expressions, buffers, ranks. Diagnostics are collected, and reading
//! continues after them.
use super::case::{NumberByRank, NumberByRankKind, Ranks, Spanned};
use super::diagnostic::{Diagnostic, SourceFile, Span};
use super::expressions::ParsedExpressions;
use super::keys::{self, ValueType};
use super::tree::{TomlEntry, TomlKind, TomlTable, TomlValue};
use super::units;
use super::variables::AllowEnv;
use crate::expr::{BUILTIN_NAMES, BinOp, Expr, ExprNode, Value};
use crate::suggest::nearest;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The value of an axis at a point of the matrix. Points that differ only in numbers share the data read for the first one, so
/// reading must not depend on a number: it is looked up when a case is made, and evaluated when the case is planned.
#[derive(Clone, Debug)]
pub(crate) struct AxisValue {
    pub name: String,
    number: Option<Value>,
}

impl AxisValue {
    /// Creates an axis; `number` is its value in expressions, `None` if the value is not a number.
    pub fn new(name: &str, number: Option<Value>) -> Self {
        Self { name: name.to_owned(), number }
    }

    /// True if expressions can name the axis.
    pub fn is_number(&self) -> bool {
        self.number.is_some()
    }
}

/// The axes with numbers, for the case of a point.
pub(crate) fn numbers(axes: &[AxisValue]) -> Vec<(String, Value)> {
    let mut numbers: Vec<_> = axes.iter().filter_map(|a| Some((a.name.clone(), a.number?))).collect();
    numbers.shrink_to_fit();
    numbers
}

/// The names that a program defines, collected before it is read so that every use can be checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct DefinedNames {
    pub buffers: BTreeMap<String, Span>,
    pub step_names: BTreeMap<String, Span>,
    pub streams: BTreeSet<String>,
    pub comms: BTreeMap<String, Span>,
    /// Communicators that steps create.
    pub new: BTreeSet<String>,
}

/// The names and defaults that the cases of a file use.
#[derive(Debug, Default)]
pub(crate) struct UsedNames {
    pub axes: HashSet<String>,
    /// Key spans of the defaults used by some step or buffer.
    pub defaults: HashSet<Span>,
    /// Key spans of the defaults that are overridden, with the span of the overriding value.
    pub replaced_defaults: HashMap<Span, Span>,
    pub buffers: HashSet<String>,
    pub step_names: HashSet<String>,
    pub comms: HashSet<String>,
}

impl UsedNames {
    pub fn merge(&mut self, other: Self) {
        self.axes.extend(other.axes);
        self.defaults.extend(other.defaults);
        other.replaced_defaults.into_iter().for_each(|(default, by)| self.replace_default(default, by));
        self.buffers.extend(other.buffers);
        self.step_names.extend(other.step_names);
        self.comms.extend(other.comms);
    }

    /// Records that a value overrides a default, if it is the first one.
    pub fn replace_default(&mut self, default: Span, by: Span) {
        self.replaced_defaults.entry(default).or_insert(by);
    }
}

/// The mistakes that were reported, so that their consequences are not reported too.
#[derive(Debug, Default)]
pub(crate) struct Mended {
    /// Places of values of `op` that are not operations.
    pub unknown_operations: HashSet<Span>,
    /// Places of steps with a key that is not understood.
    pub incomplete_steps: HashSet<Span>,
    /// Undefined names of buffers, communicators, streams and steps. Each is reported where it is first used.
    pub unknown_names: HashSet<String>,
    /// The help for keys that do not resemble any key of the language, and the number of the diagnostic that gives it.
    pub advice: HashMap<&'static str, usize>,
    /// Number of diagnostics that leave no doubt about the program: wrong words with one meaning, and what no plan depends on.
    pub clear: usize,
    /// True if some word has no clear meaning, so that what is read may differ from what is meant.
    pub unclear: bool,
}

/// The names that are allowed in an expression.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AllowedNames {
    pub i: bool,
    pub t: bool,
    pub peer: bool,
    pub buffers: bool,
    pub assert: bool,
}

impl AllowedNames {
    pub const PER_RANK: Self = Self { i: false, t: false, peer: false, buffers: false, assert: false };
    pub const ELEMENT: Self = Self { i: true, ..Self::PER_RANK };
    pub const STEP: Self = Self { t: true, ..Self::PER_RANK };
    pub const COUNTS: Self = Self { t: true, peer: true, ..Self::PER_RANK };
    pub const MAP: Self = Self { i: true, t: true, buffers: true, ..Self::PER_RANK };
    pub const ASSERT: Self = Self { i: true, buffers: true, assert: true, ..Self::PER_RANK };

    pub fn has(self, name: &str) -> bool {
        match name {
            "i" => self.i,
            "t" => self.t,
            "peer" => self.peer,
            _ => BUILTIN_NAMES.contains(&name),
        }
    }
}

/// The kind of number that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberKind {
    /// A whole number only.
    Whole,
    /// A whole number that is not negative.
    Natural,
    Real,
    Bool,
}

/// The ranks that a list has entries for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankScope {
    World,
    Communicator,
}

/// Limit on the diagnostics collected for one point.
const MAX_DIAGNOSTICS: usize = 100;

/// The state of reading one point of a file.
pub(crate) struct PointReader<'a> {
    pub file: &'a Arc<SourceFile>,
    pub axes: &'a [AxisValue],
    pub world: usize,
    /// True if the case expects a refusal: the plan then reports reads of unwritten buffers.
    pub refused: bool,
    /// Variables that `--allow-env` allows.
    pub allow_env: &'a AllowEnv,
    pub expressions: &'a ParsedExpressions,
    pub known: DefinedNames,
    pub diagnostics: Vec<Diagnostic>,
    pub used: UsedNames,
    pub mended: Mended,
}

impl PointReader<'_> {
    pub fn report(&mut self, d: Diagnostic) {
        if !self.is_full() {
            self.diagnostics.push(d);
        }
    }

    /// Reads something that no plan depends on, so that mistakes in it leave no doubt about the program.
    pub fn aside<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.diagnostics.len();
        let value = read(self);
        self.mended.clear += self.diagnostics.len() - before;
        value
    }

    /// True if every diagnostic so far leaves no doubt about the program.
    pub fn is_clear(&self) -> bool {
        !self.mended.unclear && !self.is_full() && self.diagnostics.len() == self.mended.clear
    }

    /// True if further diagnostics are discarded.
    pub fn is_full(&self) -> bool {
        self.diagnostics.len() >= MAX_DIAGNOSTICS
    }

    /// Reports that a value's type is not the one that the key requires.
    pub fn report_wrong_type(&mut self, name: &str, ty: ValueType, val: &TomlValue) {
        let message = format!("`{name}` must be {}", ty.describe());
        let d = Diagnostic::new(val.span, message).label(format!("this is {}", val.kind_name()));
        self.report(match (ty, &val.kind) {
            (ValueType::Table, TomlKind::Array(_)) if self.is_header(val.span) => {
                d.help(format!("write `[{name}]`, with one pair of brackets"))
            }
            (ValueType::TextList, TomlKind::Str(_)) => d.help(format!("write `{name} = [{}]`", self.shown(val))),
            (ValueType::Text, TomlKind::Array(list)) if name == "op" && list.len() > 1 => {
                d.help("one operation after the other is `steps`; one case for each of them is `matrix.op = [...]`")
            }
            (ValueType::Text, TomlKind::Array(list)) => match list.first() {
                Some(only) if list.len() == 1 && matches!(only.kind, TomlKind::Str(_)) => {
                    d.help(format!("write `{name} = {}`", self.shown(only)))
                }
                _ => d,
            },
            _ => d,
        });
    }

    /// Reports the keys of a table that are not allowed in it.
    pub fn check_keys(&mut self, table: &TomlTable, span: Span, allowed: &[&str], place: &str) {
        for e in &table.entries {
            if !allowed.contains(&&*e.key) && !self.is_full() {
                let d = self.unknown_key(e, span, allowed, place);
                self.report(d);
            }
        }
    }

    fn unknown_key(&self, e: &TomlEntry, table: Span, allowed: &[&str], place: &str) -> Diagnostic {
        if let Some(d) = self.misplaced_key(e, table) {
            return d;
        }
        let d = Diagnostic::new(e.key_span, format!("unknown key `{}` in {place}", e.key));
        if let Some(help) = units::size_of_buffer(e).filter(|_| place == "a buffer") {
            return d.help(help);
        }
        match nearest(&e.key, allowed.iter().copied()) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None if place == "the file" => {
                d.help(format!("a file has {}", keys::keys_in(keys::KeyPlace::File).collect::<Vec<_>>().join(", ")))
            }
            None if allowed.is_empty() => d,
            None if allowed.len() <= 24 => d.help(format!("known here: {}", allowed.join(", "))),
            None => d,
        }
    }

    /// The diagnostic for a key of the file that is misplaced under a header.
    pub fn misplaced_key(&self, e: &TomlEntry, table: Span) -> Option<Diagnostic> {
        let header = self.header(table)?;
        let top = keys::is_file_key(&e.key) || &*e.key == "op";
        (top && e.key_span.start > table.start).then(|| {
            Diagnostic::new(e.key_span, format!("`{}` stands under {header}", e.key))
                .help("what follows a header belongs to it: move the key above the first header")
        })
    }

    /// The header `[x]` or `[[x]]` of a table, if it has one.
    pub fn header(&self, table: Span) -> Option<&str> {
        self.file.text.get(table.start..table.end).filter(|t| t.starts_with('[') && !t.contains('\n'))
    }

    fn is_header(&self, span: Span) -> bool {
        let line = self.file.text.get(..span.start).map_or("", |before| before.rsplit('\n').next().unwrap_or(""));
        line.trim().is_empty() && self.header(span).is_some()
    }

    /// The span of a part of a text value: inside the quotes if the text has no escapes, else the whole value.
    pub fn span_in_text(&self, val: Span, text: &str, start: usize, end: usize) -> Span {
        let raw = self.file.text.get(val.start..val.end).unwrap_or("");
        for quotes in ["\"\"\"", "'''", "\"", "'"] {
            let body = raw.strip_prefix(quotes).and_then(|r| r.strip_suffix(quotes));
            // Every escape is longer than the character it encodes: equal lengths are equal texts.
            let same = body.is_some_and(|b| b.len() == text.len() && b.get(start..end) == text.get(start..end));
            if same {
                let at = val.start + quotes.len();
                return Span { start: at + start, end: at + end };
            }
        }
        val
    }

    /// A value as written in the file, for a message; shortened if it is long.
    pub fn shown(&self, val: &TomlValue) -> String {
        let written = self.file.text.get(val.span.start..val.span.end).unwrap_or("");
        let whole = match val.kind {
            TomlKind::Table(_) => written.starts_with('{'),
            // A list of tables may have headers, such as `[[steps]]`.
            TomlKind::Array(_) => written.starts_with('[') && !self.is_header(val.span),
            _ => true,
        };
        if whole && !written.is_empty() && written.len() <= 60 && !written.contains('\n') {
            return written.to_owned();
        }
        match val.kind {
            TomlKind::Table(_) => "{ ... }".into(),
            TomlKind::Array(_) => "[...]".into(),
            _ => val.written(),
        }
    }

    /// True if an undefined name of this kind occurs for the first time.
    pub fn is_first_unknown(&mut self, kind: &str, name: &str) -> bool {
        self.mended.unknown_names.insert(format!("{kind} {name}"))
    }

    pub fn text(&mut self, name: &str, val: &TomlValue) -> Option<Spanned<String>> {
        match &val.kind {
            TomlKind::Str(s) => Some(Spanned { span: val.span, value: s.to_string() }),
            _ => {
                self.report_wrong_type(name, ValueType::Text, val);
                None
            }
        }
    }

    pub fn bool(&mut self, name: &str, val: &TomlValue) -> Option<bool> {
        if let TomlKind::Bool(b) = val.kind {
            return Some(b);
        }
        self.report_wrong_type(name, ValueType::Bool, val);
        None
    }

    /// Reads a whole number in a range.
    pub fn int(&mut self, name: &str, val: &TomlValue, range: std::ops::RangeInclusive<i128>) -> Option<i128> {
        match val.kind {
            TomlKind::Int(v) if range.contains(&v) => return Some(v),
            TomlKind::Int(v) => {
                let message = format!("`{name}` must be from {} to {}, not {v}", range.start(), range.end());
                self.report(Diagnostic::new(val.span, message));
            }
            _ => {
                self.report_wrong_type(name, ValueType::Int, val);
                let quoted = match &val.kind {
                    TomlKind::Str(s) => s.trim().parse::<i128>().ok().filter(|v| range.contains(v)),
                    _ => None,
                };
                if let (Some(v), Some(d)) = (quoted, self.diagnostics.last_mut()) {
                    d.help = Some(format!("write `{name} = {v}`"));
                }
            }
        }
        None
    }

    /// Reads a text or a list of texts.
    pub fn texts(&mut self, name: &str, val: &TomlValue) -> Option<Vec<Spanned<String>>> {
        match &val.kind {
            TomlKind::Str(s) => Some(vec![Spanned { span: val.span, value: s.to_string() }]),
            TomlKind::Array(a) => a.iter().map(|v| self.text(name, v)).collect(),
            _ => {
                self.report_wrong_type(name, ValueType::Texts, val);
                None
            }
        }
    }

    /// Reads a number or a list of numbers by rank (rule 2 of the language).
    pub fn number_by_rank(
        &mut self,
        name: &str,
        val: &TomlValue,
        names: AllowedNames,
        want: NumberKind,
        per: RankScope,
    ) -> Option<NumberByRank> {
        let TomlKind::Array(entries) = &val.kind else { return self.single_number(name, val, names, want) };
        if per == RankScope::World && self.world > 0 && entries.len() != self.world {
            let message = format!("`{name}` has {} entries for {} ranks", entries.len(), self.world);
            self.report(Diagnostic::new(val.span, message));
            return None;
        }
        if entries.is_empty() {
            self.report(Diagnostic::new(val.span, format!("`{name}` is a list without entries")));
            return None;
        }
        let list: Vec<_> = entries.iter().map(|v| self.single_number(name, v, names, want)).collect();
        let list = list.into_iter().collect::<Option<_>>()?;
        Some(NumberByRank { span: val.span, kind: NumberByRankKind::List(list) })
    }

    fn single_number(
        &mut self,
        name: &str,
        val: &TomlValue,
        names: AllowedNames,
        want: NumberKind,
    ) -> Option<NumberByRank> {
        let ty = match want {
            NumberKind::Whole | NumberKind::Natural => ValueType::NumByRank,
            NumberKind::Real => ValueType::RealByRank,
            NumberKind::Bool => ValueType::BoolByRank,
        };
        let kind = match (&val.kind, want) {
            (TomlKind::Bool(b), NumberKind::Bool) => NumberByRankKind::Int((*b).into()),
            (TomlKind::Int(v @ (0 | 1)), NumberKind::Bool) => NumberByRankKind::Int(*v),
            (TomlKind::Int(v), NumberKind::Natural) if *v < 0 => {
                self.report(Diagnostic::new(val.span, format!("`{name}` must not be negative")));
                return None;
            }
            (TomlKind::Int(v), NumberKind::Whole | NumberKind::Natural | NumberKind::Real) => NumberByRankKind::Int(*v),
            (TomlKind::Float(v), NumberKind::Real) => NumberByRankKind::Float(*v),
            (TomlKind::Str(s), _) if name == "count" && units::elements(s).is_some() => {
                let d = Diagnostic::new(val.span, "`count` is a number of elements, without a unit");
                self.report(match units::elements(s) {
                    Some(help) => d.help(help),
                    None => d,
                });
                return None;
            }
            (TomlKind::Str(_), _) => {
                let expr = self.expression(val, names)?.value;
                if matches!(name, "peer" | "to" | "from") && is_exclusive_or(&expr) {
                    let d = Diagnostic::new(val.span, "`^` is power, so this is the rank itself");
                    self.report(d.help("the other rank of a pair is `rank + 1 - 2 * (rank % 2)`"));
                    return None;
                }
                NumberByRankKind::Expr(expr)
            }
            (TomlKind::Float(v), _) if *v == v.trunc() && v.abs() < 1e15 && want != NumberKind::Bool => {
                self.report_wrong_type(name, ty, val);
                if let Some(d) = self.diagnostics.last_mut() {
                    d.help = Some(format!("write `{name} = {}`", *v as i64));
                }
                return None;
            }
            _ => {
                self.report_wrong_type(name, ty, val);
                return None;
            }
        };
        Some(NumberByRank { span: val.span, kind })
    }

    /// Reads the ranks that run a step or have a buffer.
    pub fn ranks(&mut self, val: &TomlValue) -> Option<Ranks> {
        match &val.kind {
            TomlKind::Str(_) => Some(Ranks::Expr(self.expression(val, AllowedNames::PER_RANK)?)),
            TomlKind::Array(a) => {
                if a.is_empty() {
                    self.report(Diagnostic::new(val.span, "`ranks` names no rank"));
                    return None;
                }
                let list = self.world_ranks(a)?;
                self.reject_duplicates(&list);
                Some(Ranks::List(list))
            }
            _ => {
                self.report_wrong_type("ranks", ValueType::Ranks, val);
                if let (Some(d), TomlKind::Int(rank)) = (self.diagnostics.last_mut(), &val.kind) {
                    d.help = Some(format!("write `ranks = [{rank}]`"));
                }
                None
            }
        }
    }

    pub(crate) fn world_ranks(&mut self, entries: &[TomlValue]) -> Option<Vec<Spanned<i128>>> {
        let read: Vec<_> = entries
            .iter()
            .map(|v| match v.kind {
                TomlKind::Int(r) if self.world == 0 || (0..self.world as i128).contains(&r) => {
                    Some(Spanned { span: v.span, value: r })
                }
                TomlKind::Int(r) => {
                    let last = self.world - 1;
                    let d = Diagnostic::new(v.span, format!("there is no rank {r}"));
                    self.report(d.help(format!("with world_size = {} ranks are 0 to {last}", self.world)));
                    None
                }
                _ => {
                    self.report(
                        Diagnostic::new(v.span, "expected a world rank").label(format!("this is {}", v.kind_name())),
                    );
                    None
                }
            })
            .collect();
        read.into_iter().collect()
    }

    pub(crate) fn reject_duplicates(&mut self, list: &[Spanned<i128>]) {
        let mut seen: BTreeMap<i128, Span> = BTreeMap::new();
        for r in list {
            if let Some(first) = seen.insert(r.value, r.span) {
                self.report(
                    Diagnostic::new(r.span, format!("rank {} is listed twice", r.value)).related(first, "first here"),
                );
            }
        }
    }

    /// Reads lists of world ranks in which no rank occurs twice.
    pub fn groups(&mut self, val: &TomlValue) -> Option<Spanned<Vec<Vec<Spanned<i128>>>>> {
        let TomlKind::Array(lists) = &val.kind else {
            self.report_wrong_type("groups", ValueType::Groups, val);
            return None;
        };
        if lists.is_empty() {
            self.report(Diagnostic::new(val.span, "`groups` has no list of ranks"));
            return None;
        }
        let mut out = Vec::new();
        for list in lists.iter() {
            match &list.kind {
                TomlKind::Array(a) if a.is_empty() => self.report(Diagnostic::new(list.span, "this group has no rank")),
                TomlKind::Array(a) => out.extend(self.world_ranks(a)),
                _ => {
                    self.report_wrong_type("groups", ValueType::Groups, val);
                    return None;
                }
            }
        }
        let all: Vec<_> = out.iter().flatten().cloned().collect();
        self.reject_duplicates(&all);
        (out.len() == lists.len()).then_some(Spanned { span: val.span, value: out })
    }
}

/// True for `rank ^ 1`, the other rank of a pair in languages where `^` is exclusive or.
fn is_exclusive_or(expr: &Expr) -> bool {
    let ExprNode::Binary(BinOp::Pow, base, exponent) = &*expr.node else { return false };
    matches!(&**base, ExprNode::Name(name) if *name == "rank") && matches!(**exponent, ExprNode::Int(1))
}
