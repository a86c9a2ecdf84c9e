//! Reads files: size and encoding, the tree, every point of the matrix, and definitions that no case uses.
use super::case::{Case, CaseContent};
use super::diagnostic::{Diagnostic, SourceFile, Span};
use super::discover::ScenarioFile;
use super::expressions::ParsedExpressions;
use super::file::{self, MatrixPoint, ReadPoint};
use super::matrix::{self, Matrix, Variant};
use super::mend;
use super::misplaced;
use super::names::case_name;
use super::prescan;
use super::reader::{self, AxisValue, DefinedNames, Mended, PointReader, UsedNames};
use super::tree::{self, TomlTable};
use super::variables::AllowEnv;
use crate::files::{self, Refused};
use rustc_hash::FxHashMap;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Default limit on a file's size in bytes.
pub const MAX_BYTES: u64 = 1 << 20;
/// Number of diagnostics shown for one file.
const MAX_DIAGNOSTICS: usize = 50;
/// Number of cases of a wrong file that are kept for planning: points of a matrix mostly have the same mistakes.
const MAX_MEANT: usize = 16;

/// A file that is not a valid scenario, with its diagnostics.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", super::render::render(.file, .diagnostics, false))]
pub struct Rejected {
    /// The parts of the file that could be read.
    pub file: Arc<SourceFile>,
    /// The diagnostics, by place.
    pub diagnostics: Vec<Diagnostic>,
    /// Cases of the file whose programs are clear in spite of the diagnostics. They are for planning only, which may find more.
    pub meant: Vec<Case>,
}

/// Reads the cases of a file. Their names start with `name`.
///
/// # Errors
///
/// The file cannot be read, has more than `max_bytes`, or is not a valid scenario.
pub fn load(path: &Path, name: &str, max_bytes: u64) -> Result<Vec<Case>, Rejected> {
    let file = read(path, max_bytes)?;
    parse(&file, name)
}

/// Reads the cases of a file that was found in a folder. It may also set the variables in `allow_env`.
///
/// # Errors
///
/// The file cannot be read, has more than `max_bytes`, or is not a valid scenario.
pub fn load_found(found: &ScenarioFile, allow_env: &AllowEnv, max_bytes: u64) -> Result<Vec<Case>, Rejected> {
    if !found.is_named {
        let message = "a scenario's path must be UTF-8 without control characters, `[`, `]` and `\\`";
        return Err(rejected(&found.path, "", Diagnostic::new(Span::default(), message)));
    }
    let file = read_target(&found.path, &found.target, max_bytes)?;
    parse_with(&file, &found.name, allow_env)
}

/// Reads a file's text.
///
/// # Errors
///
/// The file cannot be read, has more than `max_bytes`, or is not UTF-8.
pub fn read(path: &Path, max_bytes: u64) -> Result<Arc<SourceFile>, Rejected> {
    let target = path.canonicalize().map_err(|e| unreadable(path, &e))?;
    read_target(path, &target, max_bytes)
}

fn rejected(path: &Path, text: &str, d: Diagnostic) -> Rejected {
    let file = Arc::new(SourceFile { path: path.display().to_string(), text: text.into() });
    Rejected { file, diagnostics: vec![d], meant: Vec::new() }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Rejected {
    rejected(path, "", Diagnostic::new(Span::default(), format!("this file cannot be read: {error}")))
}

/// Reads `target` unless it is a link. A pipe or a device is opened without waiting, and not read.
fn read_target(path: &Path, target: &Path, max_bytes: u64) -> Result<Arc<SourceFile>, Rejected> {
    let refuse = |message: String| rejected(path, "", Diagnostic::new(Span::default(), message));
    let bytes = match files::open_no_link(target).and_then(|opened| files::read(opened, max_bytes)) {
        Ok(bytes) => bytes,
        Err(Refused::NotRegular) => return Err(refuse("this is not a regular file".into())),
        Err(Refused::TooLong(_)) => return Err(refuse(format!("this file is larger than {max_bytes} bytes"))),
        Err(Refused::Io(error)) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            return Err(refuse("this file became a link while it was read".into()));
        }
        Err(Refused::Io(error)) => return Err(unreadable(path, &error)),
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Arc::new(SourceFile { path: path.display().to_string(), text: text.into() })),
        Err(e) => {
            let at = e.utf8_error().valid_up_to();
            let byte = e.as_bytes().get(at).copied().unwrap_or(0);
            let valid = std::str::from_utf8(&e.as_bytes()[..at]).unwrap_or("");
            let text = format!("{valid}\u{fffd}");
            let span = Span { start: at, end: at + '\u{fffd}'.len_utf8() };
            let d = Diagnostic::new(span, "this file is not UTF-8").label(format!("the byte 0x{byte:02x}"));
            Err(rejected(path, &text, d.help("scenario files are UTF-8 text")))
        }
    }
}

/// Reads the cases of a text. Their names start with `name`.
///
/// # Errors
///
/// The text is not a valid scenario.
pub fn parse(file: &Arc<SourceFile>, name: &str) -> Result<Vec<Case>, Rejected> {
    parse_with(file, name, &AllowEnv::default())
}

/// Reads the cases of a text that may also set the variables in `allow_env`.
///
/// # Errors
///
/// The text is not a valid scenario.
pub fn parse_with(file: &Arc<SourceFile>, name: &str, allow_env: &AllowEnv) -> Result<Vec<Case>, Rejected> {
    let reject = |diagnostics: Vec<Diagnostic>| Rejected { file: file.clone(), diagnostics, meant: Vec::new() };
    let mut top = tree::parse(file).map_err(reject)?;
    let expressions = ParsedExpressions::default();
    let mut reader = PointReader {
        file,
        axes: &[],
        world: 0,
        refused: false,
        allow_env,
        expressions: &expressions,
        known: DefinedNames::default(),
        diagnostics: Vec::new(),
        used: UsedNames::default(),
        mended: Mended::default(),
    };
    misplaced::move_to_top(&mut reader, &mut top);
    mend::mend_case_keys(&mut reader, &mut top);
    let taken = |top: &mut TomlTable, key: &str| {
        let at = top.entries.iter().position(|e| &*e.key == key)?;
        Some(top.entries.remove(at))
    };
    let (matrix, variants) = (taken(&mut top, "matrix"), taken(&mut top, "variants"));
    let variants_list = matrix::variants(&mut reader, variants.as_ref());
    let in_matrix = |key: &str| {
        matrix.as_ref().is_some_and(|m| matches!(&m.value.kind, tree::TomlKind::Table(t) if t.get(key).is_some()))
    };
    let in_variant = |v: &Variant<'_>| v.keys.is_some_and(|t| t.get("op").is_some());
    let short = top.get("op").is_some() || in_matrix("op") || variants_list.iter().any(in_variant);
    let axes = Matrix::read(&mut reader, matrix.as_ref(), short);
    for e in variants_list.iter().filter_map(|v| v.keys).flat_map(|t| &t.entries) {
        if let Some(axis) = axes.axes.iter().find(|a| a.sets && a.name == *e.key) {
            let d = Diagnostic::new(e.key_span, format!("the axis `{}` replaces this value", axis.name));
            reader.report(d.related(axis.key_span, "the axis").help("leave one of them out"));
        }
    }
    let size = top.size() + 1;
    let largest = variants_list.iter().filter_map(|v| v.keys).map(TomlTable::size).max();
    let forms = max_forms(&top, &variants_list, &axes);
    let count = axes.product(&mut reader, variants_list.len(), size + largest.unwrap_or(0), 1 + forms);
    let swept = matrix.is_some() || variants.is_some();
    let mut all = FileCases {
        file,
        top: &top,
        name,
        swept,
        allow_env,
        expressions: &expressions,
        axes: &axes,
        contents: FxHashMap::default(),
        cases: Vec::new(),
        meant: Vec::new(),
        diagnostics: BTreeMap::new(),
        points: 0,
        known: BTreeSet::new(),
        used: UsedNames::default(),
    };
    let Some(count) = count.filter(|_| reader.diagnostics.is_empty()) else {
        if let Some((values, now)) = axes.first_sound_point() {
            for variant in &variants_list {
                all.read_point(&mut reader, &values, &now, variant);
            }
        }
        let mut diagnostics = reader.diagnostics;
        diagnostics.extend(all.diagnostics.into_values().map(|(d, _)| Diagnostic { case: None, ..d }));
        diagnostics.sort_by_key(|d| d.span.start);
        diagnostics.truncate(MAX_DIAGNOSTICS);
        return Err(reject(diagnostics));
    };
    'points: for number in 0..count / variants_list.len().max(1) {
        let Some(values) = axes.point(number) else { continue };
        let now = axes.axis_values(&values);
        for variant in &variants_list {
            all.read_point(&mut reader, &values, &now, variant);
            if all.diagnostics.len() >= MAX_DIAGNOSTICS {
                break 'points;
            }
        }
    }
    if all.points == 0 {
        let span = matrix.as_ref().map_or_else(Span::default, |m| m.key_span);
        return Err(reject(vec![Diagnostic::new(span, "`exclude` leaves no case")]));
    }
    all.finish()
}

/// The largest number of forms of a case.
fn max_forms(top: &TomlTable, variants: &[Variant<'_>], axes: &Matrix) -> usize {
    let tables = variants.iter().filter_map(|v| v.keys).chain([top]);
    let written = tables.filter_map(|t| t.get("forms")).map(|e| &e.value);
    let swept = axes.axes.iter().filter(|a| a.name == "forms").flat_map(|a| &a.values);
    let of = |v: &tree::TomlValue| if let tree::TomlKind::Array(list) = &v.kind { list.len() } else { 1 };
    written.chain(swept).map(of).max().unwrap_or(0).min(super::forms::FORMS.len())
}

fn point_as_text(axes: &Matrix, values: &[&tree::TomlValue], variant: &Variant<'_>) -> Vec<(String, String)> {
    let axes = axes.axes.iter().zip(values).map(|(a, v)| (a.name.clone(), v.compact()));
    axes.chain(variant.name.map(|v| ("variant".to_owned(), v.to_owned()))).collect()
}

/// Identifies the content of a case: the places of the variant's keys and of the values that the axes set, and which other axes
/// are numbers.
type ContentKey = (usize, Vec<usize>);

/// The cases and diagnostics of all points of a file.
struct FileCases<'a> {
    file: &'a Arc<SourceFile>,
    top: &'a TomlTable,
    name: &'a str,
    swept: bool,
    allow_env: &'a AllowEnv,
    expressions: &'a ParsedExpressions,
    axes: &'a Matrix,
    /// Contents of cases, by their keys.
    contents: FxHashMap<ContentKey, Arc<CaseContent>>,
    cases: Vec<Case>,
    /// The first cases of points whose mistakes leave no doubt about the program.
    meant: Vec<Case>,
    /// Diagnostics by place and message, each with the number of points affected.
    diagnostics: BTreeMap<(usize, usize, String), (Diagnostic, usize)>,
    points: usize,
    /// Every definition: its kind, its name, its place.
    known: BTreeSet<(&'static str, String, (usize, usize))>,
    used: UsedNames,
}

impl FileCases<'_> {
    /// Reads the case at one point.
    fn read_point(
        &mut self,
        reader: &mut PointReader<'_>,
        values: &[&tree::TomlValue],
        now: &[AxisValue],
        variant: &Variant<'_>,
    ) {
        let point = point_as_text(self.axes, values, variant);
        let name = case_name(self.name, &point);
        let key = self.content_key(values, now, variant);
        if let Some(content) = key.as_ref().and_then(|key| self.contents.get(key)) {
            self.points += 1;
            self.cases.push(Case { name, axes: reader::numbers(now), form: None, content: content.clone() });
            return;
        }
        let mut tree = matrix::with_variant(self.top, variant);
        let before = reader.diagnostics.len();
        for (axis, value) in self.axes.axes.iter().zip(values).filter(|(a, _)| a.sets) {
            matrix::overlay(reader, &mut tree, axis, value);
        }
        let extra = reader.diagnostics.split_off(before);
        let Self { swept, allow_env, expressions, .. } = *self;
        let point_of_file = MatrixPoint { name, axes: now, swept, allow_env, expressions };
        let found = file::read_point(self.file, &mut tree, point_of_file);
        if let (Some(key), Some(case), true) = (key, &found.case, extra.is_empty()) {
            self.contents.insert(key, case.content.clone());
        }
        self.add_point(found, extra, &case_name("", &point), &tree);
    }

    /// The key of a point's content; `None` if every axis sets a key, so that all points have different contents. An axis that is only a
    /// name in expressions gives each point a number, and does not change it otherwise.
    fn content_key(&self, values: &[&tree::TomlValue], now: &[AxisValue], variant: &Variant<'_>) -> Option<ContentKey> {
        let place = |value: &tree::TomlValue| std::ptr::from_ref(value).addr();
        let keys = variant.keys.map_or(0, |keys| std::ptr::from_ref(keys).addr());
        let axes = || self.axes.axes.iter().zip(values.iter().zip(now));
        axes().any(|(axis, _)| !axis.sets).then(|| {
            let each = axes().map(|(axis, (value, now))| if axis.sets { place(value) } else { now.is_number().into() });
            (keys, each.collect())
        })
    }

    fn add_point(&mut self, found: ReadPoint, extra: Vec<Diagnostic>, point: &str, tree: &TomlTable) {
        self.points += 1;
        let whole = extra.is_empty();
        let mut seen = BTreeSet::new();
        for mut d in found.diagnostics.into_iter().chain(extra) {
            let key = (d.span.start, d.span.end, d.message.clone());
            if !seen.insert(key.clone()) {
                continue;
            }
            d.case = Some(point.to_owned());
            self.diagnostics.entry(key).or_insert((d, 0)).1 += 1;
        }
        self.cases.extend(found.case.filter(|_| whole));
        self.meant.extend(found.meant.filter(|_| whole && self.meant.len() < MAX_MEANT));
        self.used.merge(found.used);
        let mut define = |what, name: &str, span: Span| {
            self.known.insert((what, name.to_owned(), (span.start, span.end)));
        };
        found.known.buffers.iter().for_each(|(n, s)| define("buffer", n, *s));
        found
            .known
            .comms
            .iter()
            .filter(|(n, _)| !found.known.new.contains(*n))
            .for_each(|(n, s)| define("communicator", n, *s));
        found.known.step_names.iter().for_each(|(n, s)| define("name", n, *s));
        prescan::defaults(tree).iter().for_each(|(n, s)| define("default", n, *s));
    }

    fn finish(self) -> Result<Vec<Case>, Rejected> {
        let Self { file, axes, cases, meant, diagnostics, points, known, used, .. } = self;
        let mut diagnostics: Vec<Diagnostic> = diagnostics
            .into_values()
            .map(|(mut d, count)| {
                d.case = d.case.filter(|_| count < points);
                d
            })
            .collect();
        if diagnostics.is_empty() {
            diagnostics = unused_definitions(axes, &known, &used);
            diagnostics.extend(too_many_forms(&cases));
        }
        if diagnostics.is_empty() {
            return Ok(cases);
        }
        diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
        diagnostics.truncate(MAX_DIAGNOSTICS);
        let meant = meant.into_iter().chain(cases).take(MAX_MEANT).collect();
        Err(Rejected { file: file.clone(), diagnostics, meant })
    }
}

/// The diagnostic for too many cases, counting forms as cases.
fn too_many_forms(cases: &[Case]) -> Option<Diagnostic> {
    let all: usize = cases.iter().map(|case| 1 + case.forms.len()).sum();
    let last = cases.iter().find_map(|case| case.forms.last())?;
    let text = format!("with their forms the file's cases are {all}, more than {}", matrix::MAX_CASES);
    (all > matrix::MAX_CASES).then(|| Diagnostic::new(last.span, text).help("use fewer axes, values or forms"))
}

/// Diagnostics for definitions that no case uses (rule 9 of the language).
fn unused_definitions(
    axes: &Matrix,
    known: &BTreeSet<(&'static str, String, (usize, usize))>,
    used: &UsedNames,
) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    for a in axes.axes.iter().filter(|a| !a.sets && !used.axes.contains(&a.name)) {
        let d = Diagnostic::new(a.key_span, format!("the axis `{}` is used nowhere", a.name));
        out.push(d.help("it is not a key of the file, and no expression names it"));
    }
    for (what, name, (start, end)) in known {
        let span = Span { start: *start, end: *end };
        let (found, message) = match *what {
            "buffer" => (used.buffers.contains(name), format!("the buffer `{name}` is used nowhere")),
            "communicator" => (used.comms.contains(name), format!("the communicator `{name}` is used nowhere")),
            "name" => (used.step_names.contains(name), format!("the name `{name}` is used nowhere")),
            _ => (
                used.defaults.contains(&span)
                    || axes.axes.iter().any(|a| a.key_span == span && used.axes.contains(&a.name)),
                format!("nothing here uses `{name}`"),
            ),
        };
        if !found {
            let d = Diagnostic::new(span, message);
            out.push(match (*what, used.replaced_defaults.get(&span)) {
                ("name", _) => d.help("a step's `name` is for `assert`; a case is called after its file"),
                ("default", Some(by)) => d
                    .related(*by, "has its own value")
                    .help(format!("all that `{name}` could be for has its own value: leave one of them out")),
                _ => d,
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of a file with these axes, without the file's text.
    fn cases(axes: &str) -> Vec<Case> {
        let text = format!(
            "world_size = 2\nop = \"reduce\"\ninputs = {{ each = \"k * h + i\", count = 3 }}\nassert = [\"k < 9\"]\n\
             matrix.h = [1, 0.5]\nvariants.a.root = \"k - k\"\nvariants.b.repeat = 2\n{axes}\n"
        );
        let file = Arc::new(SourceFile { path: "a.toml".into(), text: text.into() });
        let mut cases = parse(&file, "a").unwrap_or_else(|rejected| panic!("{rejected}"));
        let without_text = Arc::new(SourceFile { path: "a.toml".into(), text: "".into() });
        cases.iter_mut().for_each(|case| case.file = without_text.clone());
        cases
    }

    #[test]
    fn points_that_share_their_content_are_as_if_each_was_read() {
        // The values of an axis are in another order, so that other points are read first, and the rest share their contents.
        let [one, other] = ["3, 7", "7, 3"].map(|k| {
            let cases = cases(&format!("matrix.k = [{k}]\nmatrix.dtype = [\"f32\", \"f64\"]"));
            let mut texts: Vec<String> = cases.iter().map(|case| format!("{case:?}")).collect();
            texts.sort();
            texts
        });
        assert_eq!(one.len(), 16);
        assert_eq!(one, other);
    }

    #[test]
    fn contents_are_shared_where_no_axis_sets_a_key_to_another_value() {
        let text = "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"k + i\", count = 3 }\n\
                    matrix.dtype = [\"f32\", \"f64\"]\nmatrix.k = [1, 2, 3]\n";
        let file = Arc::new(SourceFile { path: "a.toml".into(), text: text.into() });
        let cases = parse(&file, "a").unwrap_or_else(|rejected| panic!("{rejected}"));
        let shares = |a: usize, b: usize| Arc::ptr_eq(&cases[a].content, &cases[b].content);
        assert!(shares(0, 1) && shares(0, 2) && shares(3, 5));
        assert!(!shares(2, 3), "the types differ");
        let mut changed = cases[1].clone();
        changed.repeat = 5;
        assert_eq!((cases[0].repeat, changed.repeat), (1, 5), "a case that is changed leaves the others as they are");
    }
}
