//! `matrix` and `variants`: axes, points, and setting a point's values in the tree.
use super::diagnostic::{Diagnostic, Span};
use super::keys::{self, KeyPlace, ValueType};
use super::names::bad_name;
use super::reader::{AxisValue, PointReader};
use super::syntax_numbers::{listed, range_as_list};
use super::tree::{TEXT_BYTES_PER_VALUE, TomlEntry, TomlKind, TomlTable, TomlValue};
use crate::suggest::nearest;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Limit on the cases of one file.
pub const MAX_CASES: usize = 20_000;
/// Limit on the axes of one file.
const MAX_AXES: usize = 64;
/// Limit on the total number of values of all cases of a file; they are kept until the last case has run.
const MAX_VALUES: usize = 1_000_000;

/// Limit on the conditions of `exclude` times the combinations.
const MAX_COMPARISONS: usize = 100_000_000;

/// One axis of the matrix.
#[derive(Debug)]
pub(crate) struct Axis {
    pub name: String,
    pub key_span: Span,
    pub values: Vec<TomlValue>,
    /// True if it sets a key of the file; otherwise it is a name in expressions.
    pub sets: bool,
}

/// The checked `matrix` of a file.
#[derive(Debug, Default)]
pub(crate) struct Matrix {
    pub axes: Vec<Axis>,
    /// Tables of `exclude`: each excludes the points where all its axes have one of the numbered values.
    exclude: Vec<Vec<(usize, Vec<usize>)>>,
    /// Names of axes with errors, which are left out.
    faulty: Vec<String>,
}

/// Axes and their values by name, for the conditions of `exclude`.
struct AxisIndex<'a> {
    axes: HashMap<&'a str, usize>,
    /// For each axis, the number of each value.
    values: Vec<HashMap<String, usize>>,
}

impl AxisIndex<'_> {
    fn conditions(
        &self,
        reader: &mut PointReader<'_>,
        table: &TomlTable,
        prefix: &str,
        out: &mut Vec<(usize, Vec<usize>)>,
    ) {
        for e in table.entries.iter() {
            if reader.is_full() {
                return;
            }
            let name = if prefix.is_empty() { e.key.to_string() } else { format!("{prefix}.{}", e.key) };
            if let Some((at, values)) = self.axes.get(name.as_str()).and_then(|at| Some((*at, self.values.get(*at)?))) {
                let whole = values.get(&e.value.compact());
                let mut numbers: Vec<usize> = whole.into_iter().copied().collect();
                let wrong = match &e.value.kind {
                    TomlKind::Array(list) => {
                        let found = list.iter().map(|v| values.get(&v.compact()).copied().ok_or(v));
                        let found: Vec<Result<usize, &TomlValue>> = found.collect();
                        numbers.extend(found.iter().filter_map(|f| f.as_ref().ok()));
                        found.into_iter().find_map(Result::err).filter(|_| whole.is_none())
                    }
                    _ => Some(&e.value).filter(|_| whole.is_none()),
                };
                if let Some(v) = wrong {
                    let shown = super::names::shorten(&v.compact(), 60);
                    let d = Diagnostic::new(v.span, format!("the axis `{name}` has no value {shown}"));
                    reader.report(d.help("this entry excludes nothing"));
                }
                numbers.sort_unstable();
                numbers.dedup();
                out.push((at, numbers));
            } else if let TomlKind::Table(inner) = &e.value.kind {
                self.conditions(reader, inner, &name, out);
            } else {
                let d = Diagnostic::new(e.key_span, format!("`{name}` is not an axis"));
                let mut axes: Vec<&str> = self.axes.keys().copied().collect();
                axes.sort_unstable();
                reader.report(match nearest(&name, axes) {
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
    pub keys: Option<&'t TomlTable>,
}

impl Matrix {
    /// Reads `[matrix]`; `short` is true if some case has the short form.
    pub fn read(reader: &mut PointReader<'_>, entry: Option<&TomlEntry>, short: bool) -> Self {
        let mut out = Self::default();
        let Some(entry) = entry else { return out };
        let TomlKind::Table(table) = &entry.value.kind else {
            reader.report_wrong_type("matrix", ValueType::Table, &entry.value);
            return out;
        };
        out.collect(reader, table, "", entry.value.span, short);
        if out.axes.len() > MAX_AXES {
            let message = format!("the matrix has {} axes, more than {MAX_AXES}", out.axes.len());
            reader.report(Diagnostic::new(entry.key_span, message));
            out.axes.truncate(MAX_AXES);
        }
        out.axes.sort_by_key(|a| a.key_span.start);
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        for axis in &out.axes {
            if let Some(first) = seen.insert(&axis.name, axis.key_span) {
                let d = Diagnostic::new(axis.key_span, format!("the axis `{}` is defined twice", axis.name));
                reader.report(d.related(first, "first here"));
            }
        }
        if let Some(e) = table.get("exclude") {
            out.read_exclude(reader, &e.value);
        }
        out
    }

    fn collect(&mut self, reader: &mut PointReader<'_>, table: &TomlTable, prefix: &str, span: Span, short: bool) {
        for e in &table.entries {
            let name = if prefix.is_empty() { e.key.to_string() } else { format!("{prefix}.{}", e.key) };
            match &e.value.kind {
                _ if name == "exclude" => {}
                TomlKind::Table(t) => match (values_of_range(t), t.get("from")) {
                    (Some(values), Some(first)) => {
                        let d = no_list(&name, &e.value);
                        reader.report(d.help(format!("write each value by itself: `{name} = [{values}]`")));
                        self.add_stray_key(&TomlEntry { value: first.value.clone(), ..e.clone() }, name);
                    }
                    _ => self.collect(reader, t, &name, span, short),
                },
                TomlKind::Array(values) => {
                    if let Some(d) = reader.misplaced_key(e, span).filter(|_| not_an_axis(&name, values)) {
                        reader.report(d);
                        self.add_stray_key(e, name);
                        continue;
                    }
                    self.add_axis(reader, e, &name, values, short);
                    if self.axes.last().is_none_or(|a| a.name != name || a.values.is_empty()) {
                        self.axes.retain(|a| a.name != name);
                        self.faulty.push(name);
                    }
                }
                _ => {
                    self.add_stray_key(e, name.clone());
                    match reader.misplaced_key(e, span) {
                        Some(d) => {
                            let axis = if prefix.is_empty() { ", or write a list if it is an axis" } else { "" };
                            reader.report(d.help(format!(
                                "what follows a header belongs to it: move it above the first header{axis}"
                            )));
                        }
                        None => {
                            let values = match &e.value.kind {
                                TomlKind::Str(text)
                                    if text.split(',').all(|part| part.trim().parse::<f64>().is_ok()) =>
                                {
                                    text.to_string()
                                }
                                TomlKind::Str(text) => range_as_list(text).unwrap_or_else(|| reader.shown(&e.value)),
                                _ => reader.shown(&e.value),
                            };
                            reader.report(no_list(&name, &e.value).help(format!("write `{name} = [{values}]`")));
                        }
                    }
                }
            }
        }
    }

    /// Adds a key of the file that is misplaced under `matrix`, so that the rest of the file can be read.
    fn add_stray_key(&mut self, e: &TomlEntry, name: String) {
        let sets = keys::is_file_key(name.split('.').next().unwrap_or("")) || name == "op";
        self.axes.push(Axis { name, key_span: e.key_span, values: vec![e.value.clone()], sets });
    }

    fn add_axis(&mut self, reader: &mut PointReader<'_>, e: &TomlEntry, name: &str, values: &[TomlValue], short: bool) {
        let first = name.split('.').next().unwrap_or("");
        let dotted = name.contains('.');
        let sets = match first {
            "matrix" | "variants" => false,
            _ => {
                keys::is_file_key(first)
                    || (short && keys::find(KeyPlace::Step, first).is_some_and(|_| !matches!(first, "in" | "out")))
            }
        };
        if !sets {
            if dotted {
                let d = Diagnostic::new(e.key_span, format!("`{first}` is not a key of the file"));
                reader.report(near_key(d, first));
                return;
            }
            if let Some((message, help)) = bad_name(name) {
                reader.report(near_key(Diagnostic::new(e.key_span, message).help(help), name));
                return;
            }
            if !values.iter().any(|v| number(v).is_some()) && !values.is_empty() {
                let message = format!("the axis `{name}` is neither a key of the file nor a number");
                let d = near_key(Diagnostic::new(e.key_span, message), name);
                let help = "an axis of texts has the name of the key that it sets, such as `dtype` or `env.NCCL_ALGO`";
                reader.report(if d.help.is_some() { d } else { d.help(help) });
                return;
            }
        }
        if values.is_empty() {
            reader.report(Diagnostic::new(
                e.value.span,
                format!("the axis `{name}` has no value: the file would have no case"),
            ));
        }
        let mut seen: BTreeMap<String, Span> = BTreeMap::new();
        for v in values {
            if let Some(first) = seen.insert(v.compact(), v.span) {
                let d = Diagnostic::new(v.span, format!("the axis `{name}` has this value twice"));
                reader.report(d.related(first, "first here"));
            }
        }
        self.axes.push(Axis { name: name.to_owned(), key_span: e.key_span, values: values.to_vec(), sets });
    }

    fn read_exclude(&mut self, reader: &mut PointReader<'_>, val: &TomlValue) {
        let TomlKind::Array(tables) = &val.kind else {
            reader.report_wrong_type("exclude", ValueType::Table, val);
            if let Some(d) = reader.diagnostics.last_mut() {
                d.message = "`exclude` must be a list of tables".into();
            }
            return;
        };
        let numbered = |a: &Axis| a.values.iter().enumerate().map(|(k, v)| (v.compact(), k)).collect();
        let known = AxisIndex {
            axes: self.axes.iter().enumerate().map(|(at, a)| (a.name.as_str(), at)).collect(),
            values: self.axes.iter().map(numbered).collect(),
        };
        let mut exclude = Vec::new();
        for t in tables.iter() {
            if reader.is_full() {
                break;
            }
            let TomlKind::Table(table) = &t.kind else {
                reader.report(
                    Diagnostic::new(t.span, "`exclude` must be a list of tables")
                        .label(format!("this is {}", t.kind_name())),
                );
                continue;
            };
            let mut conditions = Vec::new();
            known.conditions(reader, table, "", &mut conditions);
            if table.entries.is_empty() {
                reader.report(Diagnostic::new(t.span, "an empty table would exclude every case"));
            }
            exclude.push(conditions);
        }
        // A repeated table does not exclude anything more.
        exclude.sort_unstable();
        exclude.dedup();
        let conditions: usize = exclude.iter().map(Vec::len).sum();
        let points = self.axes.iter().fold(1usize, |all, a| all.saturating_mul(a.values.len())).min(MAX_CASES);
        if conditions.saturating_mul(points) > MAX_COMPARISONS {
            let message =
                format!("`exclude` has {conditions} conditions for {points} combinations: too much to compare");
            let help =
                format!("conditions times combinations may be {MAX_COMPARISONS}: a list matches any of its values");
            reader.report(Diagnostic::new(val.span, message).help(help));
        }
        self.exclude = exclude;
    }

    /// The number of combinations; `None`, with a diagnostic, if it is above a limit. `tree` is the number of values of one
    /// combination, `forms` the number of forms in which it may run.
    pub fn product(&self, reader: &mut PointReader<'_>, variants: usize, tree: usize, forms: usize) -> Option<usize> {
        let mut product = variants.max(1);
        for a in &self.axes {
            product = product.saturating_mul(a.values.len());
        }
        let place = self.axes.last().map_or_else(Span::default, |a| a.key_span);
        if product > MAX_CASES {
            let shown = if product == usize::MAX { "far too many".to_owned() } else { product.to_string() };
            let d = Diagnostic::new(place, format!("the matrix has {shown} combinations, more than {MAX_CASES}"));
            reader.report(d.help("`exclude` comes after: use fewer axes or values"));
            return None;
        }
        // A value of an axis is stored in the case's name, in its point, and where it is used.
        let largest = |a: &Axis| a.values.iter().map(TomlValue::size).max().unwrap_or(0);
        let tree = tree.saturating_add(self.axes.iter().map(largest).sum::<usize>().saturating_mul(4));
        let cases = product.saturating_mul(forms.max(1));
        if cases.saturating_mul(tree) > MAX_VALUES {
            let message = format!("{cases} cases of a file of {tree} values are too much to read");
            let help = format!(
                "a text counts as a value for each {TEXT_BYTES_PER_VALUE} bytes; cases times values may be {MAX_VALUES}: use fewer cases, or shorter texts and lists"
            );
            reader.report(Diagnostic::new(place, message).help(help));
            return None;
        }
        Some(product)
    }

    /// The point with this number, the last axis counting fastest; `None` if it is excluded.
    pub fn point(&self, mut number: usize) -> Option<Vec<&TomlValue>> {
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

    /// A point for reading the rest of a file whose matrix has errors: valid axes have their first value, the others a
    /// number. `None` if the rest of the file depends on the invalid axes.
    pub fn first_sound_point(&self) -> Option<(Vec<&TomlValue>, Vec<AxisValue>)> {
        let vital = ["steps", "inputs", "op", "comms", "world_size"];
        if self.faulty.iter().any(|f| vital.contains(&f.split('.').next().unwrap_or(""))) {
            return None;
        }
        let values: Vec<&TomlValue> = self.axes.iter().map(|a| a.values.first()).collect::<Option<_>>()?;
        let mut now = self.axis_values(&values);
        let stand_in = Some(crate::expr::Value::Int(1));
        now.extend(self.faulty.iter().map(|f| AxisValue::new(f, stand_in)));
        Some((values, now))
    }

    /// The values of a point in expressions.
    pub fn axis_values(&self, values: &[&TomlValue]) -> Vec<AxisValue> {
        self.axes.iter().zip(values).map(|(a, v)| AxisValue::new(&a.name, number(v))).collect()
    }
}

fn near_key(d: Diagnostic, name: &str) -> Diagnostic {
    let known = keys::keys_in(KeyPlace::File).chain(keys::default_keys());
    match nearest(name, known) {
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d,
    }
}

/// The diagnostic for an axis without a list.
fn no_list(name: &str, value: &TomlValue) -> Diagnostic {
    let d = Diagnostic::new(value.span, format!("the axis `{name}` must be a list of values"));
    d.label(format!("this is {}", value.kind_name()))
}

/// The values of a table that gives a range, as a list, with the middle ones left out if there are many; `None` for
/// other tables.
fn values_of_range(table: &TomlTable) -> Option<String> {
    let whole =
        |key: &str| table.get(key).and_then(|e| if let TomlKind::Int(v) = e.value.kind { Some(v) } else { None });
    let (from, to) = (whole("from")?, whole("to")?);
    let next = |value: i128| match (whole("factor"), whole("step")) {
        (Some(factor), _) => value.checked_mul(factor),
        (None, step) => value.checked_add(step.unwrap_or(1)),
    };
    let all = std::iter::successors(Some(from), |value| next(*value).filter(|after| after > value));
    Some(listed(all.take_while(|value| *value <= to), to))
}

/// True for a key of the file whose value is a list, but not a list of values for an axis.
fn not_an_axis(name: &str, values: &[TomlValue]) -> bool {
    match name {
        "steps" | "before" | "tags" => !values.iter().all(|v| matches!(v.kind, TomlKind::Array(_))),
        "assert" => true,
        "inputs" | "expect" => {
            let row = |v: &TomlValue| matches!(&v.kind, TomlKind::Array(a) if !a.iter().any(|x| matches!(x.kind, TomlKind::Array(_) | TomlKind::Table(_))));
            !values.is_empty() && values.iter().all(row)
        }
        _ => false,
    }
}

fn number(v: &TomlValue) -> Option<crate::expr::Value> {
    use crate::expr::Value;
    match v.kind {
        TomlKind::Int(x) => Some(Value::Int(x)),
        TomlKind::Float(x) => Some(Value::Float(x)),
        TomlKind::Bool(x) => Some(Value::Int(x.into())),
        _ => None,
    }
}

/// The variants in file order; a single one without a name if the file does not define any.
pub(crate) fn variants<'t>(reader: &mut PointReader<'_>, entry: Option<&'t TomlEntry>) -> Vec<Variant<'t>> {
    let Some(entry) = entry else { return vec![Variant { name: None, keys: None }] };
    let TomlKind::Table(table) = &entry.value.kind else {
        reader.report_wrong_type("variants", ValueType::Table, &entry.value);
        return Vec::new();
    };
    let mut out = Vec::new();
    for e in &table.entries {
        match &e.value.kind {
            TomlKind::Table(t) => {
                if e.key.is_empty() || e.key.chars().any(char::is_control) {
                    reader.report(Diagnostic::new(e.key_span, "a variant needs a name"));
                }
                for k in ["matrix", "variants"] {
                    if let Some(inner) = t.get(k) {
                        reader.report(Diagnostic::new(inner.key_span, format!("`{k}` cannot stand in a variant")));
                    }
                }
                out.push(Variant { name: Some(&e.key), keys: Some(t) });
            }
            _ => {
                let d = reader.misplaced_key(e, entry.value.span);
                match d {
                    Some(d) => reader.report(d),
                    None => reader.report_wrong_type(&format!("variants.{}", e.key), ValueType::Table, &e.value),
                }
            }
        }
    }
    if table.entries.is_empty() {
        reader.report(Diagnostic::new(entry.value.span, "`variants` has none: the file would have no case"));
    }
    out
}

/// The file with its keys replaced by a variant's.
pub(crate) fn with_variant(top: &TomlTable, variant: &Variant<'_>) -> TomlTable {
    let mut out = top.clone();
    for e in variant.keys.iter().flat_map(|t| &t.entries) {
        out.set(e.clone());
    }
    out
}

/// Sets the key that an axis refers to.
pub(crate) fn overlay(reader: &mut PointReader<'_>, top: &mut TomlTable, axis: &Axis, value: &TomlValue) {
    let path: Vec<&str> = axis.name.split('.').collect();
    set(reader, top, &path, axis, value);
}

fn set(reader: &mut PointReader<'_>, table: &mut TomlTable, path: &[&str], axis: &Axis, value: &TomlValue) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        table.set(TomlEntry { key: (*first).into(), key_span: axis.key_span, value: value.clone() });
        return;
    }
    if table.get(first).is_none() {
        let val = TomlValue { span: axis.key_span, kind: TomlKind::Table(Arc::default()) };
        table.set(TomlEntry { key: (*first).into(), key_span: axis.key_span, value: val });
    }
    let Some(e) = table.entries.iter_mut().find(|e| &*e.key == *first) else { return };
    match &mut e.value.kind {
        TomlKind::Table(inner) => set(reader, Arc::make_mut(inner), rest, axis, value),
        _ => {
            let d = Diagnostic::new(
                axis.key_span,
                format!("the axis `{}` goes through `{first}`, which is not a table", axis.name),
            );
            reader.report(d.related(e.value.span, format!("this is {}", e.value.kind_name())));
        }
    }
}
