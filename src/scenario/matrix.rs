//! `matrix` and `variants`: axes, points, and the overlay of a point on the raw tree.
use super::diagnostic::{Diagnostic, Span};
use super::keys::{self, Place, Type};
use super::names::bad_name;
use super::reader::{AxisNow, Cx};
use super::tree::{Entry, Kind, TEXT_OF_VALUE, Table, Val};
use crate::suggest::nearest;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most cases of one file.
pub const MAX_CASES: usize = 20_000;
/// Most axes of one file.
const MAX_AXES: usize = 64;
/// Most values read for one file, all its cases together: what they become is kept until the last case has run.
const MAX_WORK: usize = 1_000_000;

/// Most conditions of `exclude` times combinations that are compared.
const MAX_MATCHES: usize = 100_000_000;

/// One axis.
#[derive(Debug)]
pub(crate) struct Axis {
    pub name: String,
    pub key_span: Span,
    pub values: Vec<Val>,
    /// True if it sets a key of the file; else it is a name for expressions.
    pub sets: bool,
}

/// All of `matrix`, checked.
#[derive(Debug, Default)]
pub(crate) struct Matrix {
    pub axes: Vec<Axis>,
    /// Tables whose axes must all match, as the axis and the numbers of its values that match, in order.
    exclude: Vec<Vec<(usize, Vec<usize>)>>,
    /// Names of axes with faults, which are left out.
    faulty: Vec<String>,
}

/// Axes and their values by name, to look up the conditions of `exclude`.
struct Known<'a> {
    axes: HashMap<&'a str, usize>,
    /// By axis: the number of each value.
    values: Vec<HashMap<String, usize>>,
}

impl Known<'_> {
    fn conditions(&self, cx: &mut Cx<'_>, table: &Table, prefix: &str, out: &mut Vec<(usize, Vec<usize>)>) {
        for e in table.entries.iter() {
            if cx.enough() {
                return;
            }
            let name = if prefix.is_empty() { e.key.to_string() } else { format!("{prefix}.{}", e.key) };
            if let Some((at, values)) = self.axes.get(name.as_str()).and_then(|at| Some((*at, self.values.get(*at)?))) {
                let whole = values.get(&e.val.compact());
                let mut numbers: Vec<usize> = whole.into_iter().copied().collect();
                let wrong = match &e.val.kind {
                    Kind::Array(list) => {
                        let found = list.iter().map(|v| values.get(&v.compact()).copied().ok_or(v));
                        let found: Vec<Result<usize, &Val>> = found.collect();
                        numbers.extend(found.iter().filter_map(|f| f.as_ref().ok()));
                        found.into_iter().find_map(Result::err).filter(|_| whole.is_none())
                    }
                    _ => Some(&e.val).filter(|_| whole.is_none()),
                };
                if let Some(v) = wrong {
                    let shown = super::names::shorten(&v.compact(), 60);
                    let d = Diagnostic::new(v.span, format!("the axis `{name}` has no value {shown}"));
                    cx.fault(d.help("this would exclude nothing"));
                }
                numbers.sort_unstable();
                numbers.dedup();
                out.push((at, numbers));
            } else if let Kind::Table(inner) = &e.val.kind {
                self.conditions(cx, inner, &name, out);
            } else {
                let d = Diagnostic::new(e.key_span, format!("`{name}` is not an axis"));
                let mut axes: Vec<&str> = self.axes.keys().copied().collect();
                axes.sort_unstable();
                cx.fault(match nearest(&name, axes) {
                    Some(near) => d.help(format!("did you mean `{near}`?")),
                    None => d,
                });
            }
        }
    }
}

/// A variant's name and its keys.
pub(crate) struct Variant<'t> {
    pub name: Option<&'t str>,
    pub keys: Option<&'t Table>,
}

impl Matrix {
    /// Reads `[matrix]`; `short` if some case has the short form.
    pub fn read(cx: &mut Cx<'_>, entry: Option<&Entry>, short: bool) -> Self {
        let mut out = Self::default();
        let Some(entry) = entry else { return out };
        let Kind::Table(table) = &entry.val.kind else {
            cx.wrong_type("matrix", Type::Table, &entry.val);
            return out;
        };
        out.collect(cx, table, "", entry.val.span, short);
        if out.axes.len() > MAX_AXES {
            let message = format!("the matrix has {} axes, more than {MAX_AXES}", out.axes.len());
            cx.fault(Diagnostic::new(entry.key_span, message));
            out.axes.truncate(MAX_AXES);
        }
        out.axes.sort_by_key(|a| a.key_span.start);
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        for axis in &out.axes {
            if let Some(first) = seen.insert(&axis.name, axis.key_span) {
                let d = Diagnostic::new(axis.key_span, format!("the axis `{}` stands here twice", axis.name));
                cx.fault(d.related(first, "first here"));
            }
        }
        if let Some(e) = table.get("exclude") {
            out.read_exclude(cx, &e.val);
        }
        out
    }

    fn collect(&mut self, cx: &mut Cx<'_>, table: &Table, prefix: &str, span: Span, short: bool) {
        for e in &table.entries {
            let name = if prefix.is_empty() { e.key.to_string() } else { format!("{prefix}.{}", e.key) };
            match &e.val.kind {
                _ if name == "exclude" => {}
                Kind::Table(t) => self.collect(cx, t, &name, span, short),
                Kind::Array(values) => {
                    if let Some(d) = cx.slipped(e, span).filter(|_| not_an_axis(&name, values)) {
                        cx.fault(d);
                        self.stray(e, name);
                        continue;
                    }
                    self.axis(cx, e, &name, values, short);
                    if self.axes.last().is_none_or(|a| a.name != name || a.values.is_empty()) {
                        self.axes.retain(|a| a.name != name);
                        self.faulty.push(name);
                    }
                }
                _ => {
                    self.stray(e, name.clone());
                    match cx.slipped(e, span) {
                        Some(d) => {
                            let axis = if prefix.is_empty() { ", or write a list if it is an axis" } else { "" };
                            cx.fault(d.help(format!(
                                "what follows a header belongs to it: move it above the first header{axis}"
                            )));
                        }
                        None => {
                            let d = Diagnostic::new(e.val.span, format!("the axis `{name}` must be a list of values"));
                            cx.fault(d.label(format!("this is {}", e.val.what())));
                        }
                    }
                }
            }
        }
    }

    /// A key that is no axis: the rest of the file is read as if it stood where it is meant to.
    fn stray(&mut self, e: &Entry, name: String) {
        let sets = keys::at_top(name.split('.').next().unwrap_or("")) || name == "op";
        self.axes.push(Axis { name, key_span: e.key_span, values: vec![e.val.clone()], sets });
    }

    fn axis(&mut self, cx: &mut Cx<'_>, e: &Entry, name: &str, values: &[Val], short: bool) {
        let first = name.split('.').next().unwrap_or("");
        let dotted = name.contains('.');
        let sets = match first {
            "matrix" | "variants" => false,
            _ => {
                keys::at_top(first)
                    || (short && keys::find(Place::Step, first).is_some_and(|_| !matches!(first, "in" | "out")))
            }
        };
        if !sets {
            if dotted {
                let d = Diagnostic::new(e.key_span, format!("`{first}` is no key of the file"));
                cx.fault(near_key(d, first));
                return;
            }
            if let Some((message, help)) = bad_name(name) {
                cx.fault(near_key(Diagnostic::new(e.key_span, message).help(help), name));
                return;
            }
            if !values.iter().any(|v| number(v).is_some()) && !values.is_empty() {
                let d =
                    Diagnostic::new(e.key_span, format!("the axis `{name}` is neither a key of the file nor a number"));
                cx.fault(near_key(d, name));
                return;
            }
        }
        if values.is_empty() {
            cx.fault(Diagnostic::new(
                e.val.span,
                format!("the axis `{name}` has no value: the file would have no case"),
            ));
        }
        let mut seen: BTreeMap<String, Span> = BTreeMap::new();
        for v in values {
            if let Some(first) = seen.insert(v.compact(), v.span) {
                let d = Diagnostic::new(v.span, format!("the axis `{name}` has this value twice"));
                cx.fault(d.related(first, "first here"));
            }
        }
        self.axes.push(Axis { name: name.to_owned(), key_span: e.key_span, values: values.to_vec(), sets });
    }

    fn read_exclude(&mut self, cx: &mut Cx<'_>, val: &Val) {
        let Kind::Array(tables) = &val.kind else {
            cx.wrong_type("exclude", Type::Table, val);
            if let Some(d) = cx.faults.last_mut() {
                d.message = "`exclude` must be a list of tables".into();
            }
            return;
        };
        let numbered = |a: &Axis| a.values.iter().enumerate().map(|(k, v)| (v.compact(), k)).collect();
        let known = Known {
            axes: self.axes.iter().enumerate().map(|(at, a)| (a.name.as_str(), at)).collect(),
            values: self.axes.iter().map(numbered).collect(),
        };
        let mut exclude = Vec::new();
        for t in tables.iter() {
            if cx.enough() {
                break;
            }
            let Kind::Table(table) = &t.kind else {
                cx.fault(
                    Diagnostic::new(t.span, "`exclude` must be a list of tables")
                        .label(format!("this is {}", t.what())),
                );
                continue;
            };
            let mut conditions = Vec::new();
            known.conditions(cx, table, "", &mut conditions);
            if table.entries.is_empty() {
                cx.fault(Diagnostic::new(t.span, "an empty table would exclude every case"));
            }
            exclude.push(conditions);
        }
        // The same table twice excludes nothing more.
        exclude.sort_unstable();
        exclude.dedup();
        let conditions: usize = exclude.iter().map(Vec::len).sum();
        let points = self.axes.iter().fold(1usize, |all, a| all.saturating_mul(a.values.len())).min(MAX_CASES);
        if conditions.saturating_mul(points) > MAX_MATCHES {
            let message =
                format!("`exclude` has {conditions} conditions for {points} combinations: too much to compare");
            let help = format!("conditions times combinations may be {MAX_MATCHES}: a list matches any of its values");
            cx.fault(Diagnostic::new(val.span, message).help(help));
        }
        self.exclude = exclude;
    }

    /// The number of combinations; `None`, with a fault, if it is above a limit.
    /// `tree` is the size of the values read for each, `forms` the number of forms in which it may be kept.
    pub fn product(&self, cx: &mut Cx<'_>, variants: usize, tree: usize, forms: usize) -> Option<usize> {
        let mut product = variants.max(1);
        for a in &self.axes {
            product = product.saturating_mul(a.values.len());
        }
        let place = self.axes.last().map_or_else(Span::default, |a| a.key_span);
        if product > MAX_CASES {
            let shown = if product == usize::MAX { "far too many".to_owned() } else { product.to_string() };
            let d = Diagnostic::new(place, format!("the matrix has {shown} combinations, more than {MAX_CASES}"));
            cx.fault(d.help("`exclude` comes after: use fewer axes or values"));
            return None;
        }
        // A value of an axis is stored in the case's name, in its point, and where it is used.
        let largest = |a: &Axis| a.values.iter().map(Val::size).max().unwrap_or(0);
        let tree = tree.saturating_add(self.axes.iter().map(largest).sum::<usize>().saturating_mul(4));
        let cases = product.saturating_mul(forms.max(1));
        if cases.saturating_mul(tree) > MAX_WORK {
            let message = format!("{cases} cases of a file of {tree} values are too much to read");
            let help = format!(
                "a text counts as a value for each {TEXT_OF_VALUE} bytes; cases times values may be {MAX_WORK}: use fewer cases, or shorter texts and lists"
            );
            cx.fault(Diagnostic::new(place, message).help(help));
            return None;
        }
        Some(product)
    }

    /// The point with this number, the last axis counting fastest; `None` if it is excluded.
    pub fn point(&self, mut number: usize) -> Option<Vec<&Val>> {
        let mut numbers = Vec::with_capacity(self.axes.len());
        for a in self.axes.iter().rev() {
            numbers.push(number % a.values.len().max(1));
            number /= a.values.len().max(1);
        }
        numbers.reverse();
        let matches = |(at, wanted): &(usize, Vec<usize>)| {
            numbers.get(*at).is_some_and(|number| wanted.binary_search(number).is_ok())
        };
        if self.exclude.iter().any(|t| !t.is_empty() && t.iter().all(matches)) {
            return None;
        }
        self.axes.iter().zip(numbers).map(|(a, number)| a.values.get(number)).collect()
    }

    /// A first look past a faulty matrix: every sound axis has its first value, the others are numbers, so that the faults of
    /// the rest of the file can be shown too. `None` if the rest cannot be understood without them.
    pub fn salvage(&self) -> Option<(Vec<&Val>, Vec<AxisNow>)> {
        let vital = ["steps", "inputs", "op", "comms", "world_size"];
        if self.faulty.iter().any(|f| vital.contains(&f.split('.').next().unwrap_or(""))) {
            return None;
        }
        let values: Vec<&Val> = self.axes.iter().map(|a| a.values.first()).collect::<Option<_>>()?;
        let mut now = self.now(&values);
        let stand_in = Some(crate::expr::Value::Int(1));
        now.extend(self.faulty.iter().map(|f| AxisNow { name: f.clone(), value: stand_in }));
        Some((values, now))
    }

    /// What expressions see of a point.
    pub fn now(&self, values: &[&Val]) -> Vec<AxisNow> {
        self.axes.iter().zip(values).map(|(a, v)| AxisNow { name: a.name.clone(), value: number(v) }).collect()
    }
}

fn near_key(d: Diagnostic, name: &str) -> Diagnostic {
    let known = keys::of(Place::File).chain(keys::stars());
    match nearest(name, known) {
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d,
    }
}

/// Keys of the file whose own value is a list: such a list under the header is no list of values.
fn not_an_axis(name: &str, values: &[Val]) -> bool {
    match name {
        "steps" | "tags" => !values.iter().all(|v| matches!(v.kind, Kind::Array(_))),
        "assert" => true,
        "inputs" | "expect" => {
            let row = |v: &Val| matches!(&v.kind, Kind::Array(a) if !a.iter().any(|x| matches!(x.kind, Kind::Array(_) | Kind::Table(_))));
            !values.is_empty() && values.iter().all(row)
        }
        _ => false,
    }
}

fn number(v: &Val) -> Option<crate::expr::Value> {
    use crate::expr::Value;
    match v.kind {
        Kind::Int(x) => Some(Value::Int(x)),
        Kind::Float(x) => Some(Value::Float(x)),
        Kind::Bool(x) => Some(Value::Int(x.into())),
        _ => None,
    }
}

/// The variants in file order; one without a name if there are none.
pub(crate) fn variants<'t>(cx: &mut Cx<'_>, entry: Option<&'t Entry>) -> Vec<Variant<'t>> {
    let Some(entry) = entry else { return vec![Variant { name: None, keys: None }] };
    let Kind::Table(table) = &entry.val.kind else {
        cx.wrong_type("variants", Type::Table, &entry.val);
        return Vec::new();
    };
    let mut out = Vec::new();
    for e in &table.entries {
        match &e.val.kind {
            Kind::Table(t) => {
                if e.key.is_empty() || e.key.chars().any(char::is_control) {
                    cx.fault(Diagnostic::new(e.key_span, "a variant needs a name"));
                }
                for k in ["matrix", "variants"] {
                    if let Some(inner) = t.get(k) {
                        cx.fault(Diagnostic::new(inner.key_span, format!("`{k}` cannot stand in a variant")));
                    }
                }
                out.push(Variant { name: Some(&e.key), keys: Some(t) });
            }
            _ => {
                let d = cx.slipped(e, entry.val.span);
                match d {
                    Some(d) => cx.fault(d),
                    None => cx.wrong_type(&format!("variants.{}", e.key), Type::Table, &e.val),
                }
            }
        }
    }
    if table.entries.is_empty() {
        cx.fault(Diagnostic::new(entry.val.span, "`variants` has none: the file would have no case"));
    }
    out
}

/// The file with a variant's keys in place of its own.
pub(crate) fn with_variant(top: &Table, variant: &Variant<'_>) -> Table {
    let mut out = top.clone();
    for e in variant.keys.iter().flat_map(|t| &t.entries) {
        out.set(e.clone());
    }
    out
}

/// Sets the key that an axis names.
pub(crate) fn overlay(cx: &mut Cx<'_>, top: &mut Table, axis: &Axis, value: &Val) {
    let path: Vec<&str> = axis.name.split('.').collect();
    set(cx, top, &path, axis, value);
}

fn set(cx: &mut Cx<'_>, table: &mut Table, path: &[&str], axis: &Axis, value: &Val) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        table.set(Entry { key: (*first).into(), key_span: axis.key_span, val: value.clone() });
        return;
    }
    if table.get(first).is_none() {
        let val = Val { span: axis.key_span, kind: Kind::Table(Arc::default()) };
        table.set(Entry { key: (*first).into(), key_span: axis.key_span, val });
    }
    let Some(e) = table.entries.iter_mut().find(|e| &*e.key == *first) else { return };
    match &mut e.val.kind {
        Kind::Table(inner) => set(cx, Arc::make_mut(inner), rest, axis, value),
        _ => {
            let d = Diagnostic::new(
                axis.key_span,
                format!("the axis `{}` goes through `{first}`, which is no table", axis.name),
            );
            cx.fault(d.related(e.val.span, format!("this is {}", e.val.what())));
        }
    }
}
