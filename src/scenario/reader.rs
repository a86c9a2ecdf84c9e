//! Reading of single values out of the raw tree: every fault is collected with its place, and reading goes on.
use super::case::{BufRef, Num, NumKind, Ranks, Sp};
use super::diagnostic::{Diagnostic, SourceFile, Span};
use super::keys::{self, Type};
use super::tree::{Entry, Kind, Table, Val};
use super::variables::AllowEnv;
use crate::expr::{self, Expr, NameUse, OWN_NAMES, ParseError, UseKind, Value};
use crate::suggest::nearest;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// What an axis is at this point.
#[derive(Clone, Debug)]
pub(crate) struct AxisNow {
    pub name: String,
    /// The number that expressions see, if it is one.
    pub value: Option<Value>,
}

/// What the program defines, looked up before it is read so that every use can be checked at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub buffers: BTreeMap<String, Span>,
    pub step_names: BTreeMap<String, Span>,
    pub streams: BTreeSet<String>,
    pub comms: BTreeMap<String, Span>,
    /// Communicators that steps make.
    pub new: BTreeSet<String>,
}

/// What the cases of a file have used.
#[derive(Debug, Default)]
pub(crate) struct Used {
    pub axes: HashSet<String>,
    /// Key spans of defaults that some step or buffer had a use for.
    pub defaults: HashSet<Span>,
    pub buffers: HashSet<String>,
    pub step_names: HashSet<String>,
    pub comms: HashSet<String>,
}

impl Used {
    pub fn merge(&mut self, other: Self) {
        self.axes.extend(other.axes);
        self.defaults.extend(other.defaults);
        self.buffers.extend(other.buffers);
        self.step_names.extend(other.step_names);
        self.comms.extend(other.comms);
    }
}

/// Which names mean something in an expression.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Names {
    pub i: bool,
    pub t: bool,
    pub peer: bool,
    pub buffers: bool,
    pub assert: bool,
}

impl Names {
    pub const PER_RANK: Self = Self { i: false, t: false, peer: false, buffers: false, assert: false };
    pub const ELEMENT: Self = Self { i: true, ..Self::PER_RANK };
    pub const STEP: Self = Self { t: true, ..Self::PER_RANK };
    pub const COUNTS: Self = Self { t: true, peer: true, ..Self::PER_RANK };
    pub const MAP: Self = Self { i: true, t: true, buffers: true, ..Self::PER_RANK };
    pub const ASSERT: Self = Self { i: true, buffers: true, assert: true, ..Self::PER_RANK };

    fn has(self, name: &str) -> bool {
        match name {
            "i" => self.i,
            "t" => self.t,
            "peer" => self.peer,
            _ => OWN_NAMES.contains(&name),
        }
    }
}

/// What a number must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Whole,
    /// Whole and not negative.
    Natural,
    Real,
    Bool,
}

/// For whom a list has entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Per {
    World,
    Communicator,
}

/// Most faults that are collected for one point.
const MAX_FAULTS: usize = 100;

/// The state of reading one point of a file.
pub(crate) struct Cx<'a> {
    pub file: &'a Arc<SourceFile>,
    pub axes: &'a [AxisNow],
    pub world: usize,
    /// True if the case is meant to be refused: reading what nobody has written is then for the plan to find.
    pub refused: bool,
    /// Variables beyond the usual ones that the file may set.
    pub allow_env: &'a AllowEnv,
    pub known: Known,
    pub faults: Vec<Diagnostic>,
    pub used: Used,
}

impl Cx<'_> {
    pub fn fault(&mut self, d: Diagnostic) {
        if !self.enough() {
            self.faults.push(d);
        }
    }

    /// True if further faults would only cost time.
    pub fn enough(&self) -> bool {
        self.faults.len() >= MAX_FAULTS
    }

    /// "must be X", with what it is at the caret.
    pub fn wrong_type(&mut self, name: &str, ty: Type, val: &Val) {
        let message = format!("`{name}` must be {}", ty.describe());
        self.fault(Diagnostic::new(val.span, message).label(format!("this is {}", val.what())));
    }

    /// Reports the keys of a table that are not allowed in it.
    pub fn check_keys(&mut self, table: &Table, span: Span, allowed: &[&str], place: &str) {
        for e in &table.entries {
            if !allowed.contains(&&*e.key) && !self.enough() {
                let d = self.unknown_key(e, span, allowed, place);
                self.fault(d);
            }
        }
    }

    fn unknown_key(&self, e: &Entry, table: Span, allowed: &[&str], place: &str) -> Diagnostic {
        if let Some(d) = self.slipped(e, table) {
            return d;
        }
        let d = Diagnostic::new(e.key_span, format!("unknown key `{}` in {place}", e.key));
        match nearest(&e.key, allowed.iter().copied()) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None if allowed.is_empty() => d,
            None if allowed.len() <= 24 => d.help(format!("known here: {}", allowed.join(", "))),
            None => d,
        }
    }

    /// A key of the file that stands after a header by accident.
    pub fn slipped(&self, e: &Entry, table: Span) -> Option<Diagnostic> {
        let header = self.header(table)?;
        let top = keys::at_top(&e.key) || &*e.key == "op";
        (top && e.key_span.start > table.start).then(|| {
            Diagnostic::new(e.key_span, format!("`{}` stands under {header}", e.key))
                .help("what follows a header belongs to it: move the key above the first header")
        })
    }

    /// The header `[x]` or `[[x]]` of a table, if it has one.
    pub fn header(&self, table: Span) -> Option<&str> {
        self.file.text.get(table.start..table.end).filter(|t| t.starts_with('[') && !t.contains('\n'))
    }

    /// The place of a part of a text value: inside the quotes if the text stands there as it is.
    pub fn inside(&self, val: Span, text: &str, start: usize, end: usize) -> Span {
        let raw = self.file.text.get(val.start..val.end).unwrap_or("");
        for quotes in ["\"\"\"", "'''", "\"", "'"] {
            let body = raw.strip_prefix(quotes).and_then(|r| r.strip_suffix(quotes));
            // Every escape is longer than what it stands for: equal lengths are equal texts.
            let same = body.is_some_and(|b| b.len() == text.len() && b.get(start..end) == text.get(start..end));
            if same {
                let at = val.start + quotes.len();
                return Span { start: at + start, end: at + end };
            }
        }
        val
    }

    pub fn text(&mut self, name: &str, val: &Val) -> Option<Sp<String>> {
        match &val.kind {
            Kind::Str(s) => Some(Sp { span: val.span, v: s.to_string() }),
            _ => {
                self.wrong_type(name, Type::Text, val);
                None
            }
        }
    }

    pub fn bool(&mut self, name: &str, val: &Val) -> Option<bool> {
        if let Kind::Bool(b) = val.kind {
            return Some(b);
        }
        self.wrong_type(name, Type::Bool, val);
        None
    }

    /// A whole number in a range.
    pub fn int(&mut self, name: &str, val: &Val, range: std::ops::RangeInclusive<i128>) -> Option<i128> {
        match val.kind {
            Kind::Int(v) if range.contains(&v) => return Some(v),
            Kind::Int(v) => {
                let message = format!("`{name}` must be from {} to {}, not {v}", range.start(), range.end());
                self.fault(Diagnostic::new(val.span, message));
            }
            _ => self.wrong_type(name, Type::Int, val),
        }
        None
    }

    /// Text or a list of texts.
    pub fn texts(&mut self, name: &str, val: &Val) -> Option<Vec<Sp<String>>> {
        match &val.kind {
            Kind::Str(s) => Some(vec![Sp { span: val.span, v: s.to_string() }]),
            Kind::Array(a) => a.iter().map(|v| self.text(name, v)).collect(),
            _ => {
                self.wrong_type(name, Type::Texts, val);
                None
            }
        }
    }

    /// A number by rank (rule 2).
    pub fn num(&mut self, name: &str, val: &Val, names: Names, want: Want, per: Per) -> Option<Num> {
        let Kind::Array(entries) = &val.kind else { return self.single(name, val, names, want) };
        if per == Per::World && self.world > 0 && entries.len() != self.world {
            let message = format!("`{name}` has {} entries for {} ranks", entries.len(), self.world);
            self.fault(Diagnostic::new(val.span, message));
            return None;
        }
        if entries.is_empty() {
            self.fault(Diagnostic::new(val.span, format!("`{name}` is a list without entries")));
            return None;
        }
        let list: Vec<_> = entries.iter().map(|v| self.single(name, v, names, want)).collect();
        let list = list.into_iter().collect::<Option<_>>()?;
        Some(Num { span: val.span, kind: NumKind::List(list) })
    }

    fn single(&mut self, name: &str, val: &Val, names: Names, want: Want) -> Option<Num> {
        let ty = match want {
            Want::Whole | Want::Natural => Type::NumByRank,
            Want::Real => Type::RealByRank,
            Want::Bool => Type::BoolByRank,
        };
        let kind = match (&val.kind, want) {
            (Kind::Bool(b), Want::Bool) => NumKind::Int((*b).into()),
            (Kind::Int(v @ (0 | 1)), Want::Bool) => NumKind::Int(*v),
            (Kind::Int(v), Want::Natural) if *v < 0 => {
                self.fault(Diagnostic::new(val.span, format!("`{name}` must not be negative")));
                return None;
            }
            (Kind::Int(v), Want::Whole | Want::Natural | Want::Real) => NumKind::Int(*v),
            (Kind::Float(v), Want::Real) => NumKind::Float(*v),
            (Kind::Str(_), _) => NumKind::Expr(self.expr(val, names)?.v),
            _ => {
                self.wrong_type(name, ty, val);
                return None;
            }
        };
        Some(Num { span: val.span, kind })
    }

    /// An expression; the value must be text.
    pub fn expr(&mut self, val: &Val, names: Names) -> Option<Sp<Expr>> {
        let Kind::Str(text) = &val.kind else {
            let d = Diagnostic::new(val.span, "an expression in quotes is wanted here");
            self.fault(d.label(format!("this is {}", val.what())));
            return None;
        };
        self.expr_text(val.span, text, 0, text, names)
    }

    /// An expression that is the part of the text `whole` from byte `offset` on.
    pub fn expr_text(&mut self, span: Span, whole: &str, offset: usize, part: &str, names: Names) -> Option<Sp<Expr>> {
        match expr::parse(part) {
            Ok(parsed) => {
                let all = self.inside(span, whole, offset, offset + part.len());
                let good = self.check_names(&parsed.names, span, whole, offset, names);
                good.then_some(Sp { span: all, v: parsed.expr })
            }
            Err(e) => {
                self.parse_fault(&e, span, whole, offset);
                None
            }
        }
    }

    fn parse_fault(&mut self, e: &ParseError, span: Span, whole: &str, offset: usize) {
        let mut d = Diagnostic::new(self.inside(span, whole, offset + e.start, offset + e.end), e.message.clone());
        d.help = e.help.clone();
        self.fault(d);
    }

    fn check_names(&mut self, uses: &[NameUse], span: Span, whole: &str, offset: usize, names: Names) -> bool {
        let before = self.faults.len();
        for u in uses {
            let place = self.inside(span, whole, offset + u.start, offset + u.end);
            self.check_name(u, place, names);
        }
        self.faults.len() == before
    }

    fn check_name(&mut self, u: &NameUse, place: Span, names: Names) {
        if self.enough() {
            return;
        }
        let name = u.name.as_str();
        match u.kind {
            UseKind::Step if !names.assert => {
                self.fault(Diagnostic::new(place, "figures of a step can be read in `assert` only"));
            }
            UseKind::Step => self.need_step_name(name, place),
            UseKind::Same if !names.assert => {
                self.fault(Diagnostic::new(place, "`same` can be used in `assert` only"));
            }
            UseKind::Plain if names.has(name) => {}
            UseKind::Plain if self.axes.iter().any(|a| a.name == name) => {
                self.used.axes.insert(name.to_owned());
                if self.axes.iter().any(|a| a.name == name && a.value.is_none()) {
                    self.fault(Diagnostic::new(place, format!("the axis `{name}` is not a number here")));
                }
            }
            _ if names.buffers && self.known.buffers.contains_key(name) => {
                self.used.buffers.insert(name.to_owned());
            }
            _ => {
                let d = self.unknown_name(u, place, names);
                self.fault(d);
            }
        }
    }

    fn unknown_name(&self, u: &NameUse, place: Span, names: Names) -> Diagnostic {
        let name = u.name.as_str();
        if self.known.buffers.contains_key(name) && !names.buffers {
            return Diagnostic::new(place, format!("the buffer `{name}` cannot be read here"))
                .help("elements of buffers can be read in `expr` of a map and in `assert`");
        }
        if u.kind != UseKind::Plain && (names.has(name) || self.axes.iter().any(|a| a.name == name)) {
            return Diagnostic::new(place, format!("`{name}` is a number, not a buffer"));
        }
        if name == "i" || name == "t" || name == "peer" {
            let cure = match name {
                "i" => "`i` is the index of an element: it has a meaning where elements are made or compared",
                "t" => "`t` is the round of `times`: it has a meaning inside steps",
                _ => "`peer` is the other rank in `counts` of all_to_all_v",
            };
            return Diagnostic::new(place, format!("`{name}` has no meaning here")).help(cure);
        }
        let own = OWN_NAMES.iter().chain(&["peer"]).copied().filter(|w| names.has(w));
        let axes = self.axes.iter().filter(|a| a.value.is_some()).map(|a| a.name.as_str());
        let buffers = self.known.buffers.keys().map(String::as_str).filter(|_| names.buffers);
        let all: Vec<&str> = own.chain(axes).chain(buffers).collect();
        let what = if u.kind == UseKind::Plain { "name" } else { "buffer" };
        let d = Diagnostic::new(place, format!("unknown {what} `{name}`"));
        match nearest(name, all.iter().copied()) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None if all.len() <= 24 => d.help(format!("known here: {}", all.join(", "))),
            None => d,
        }
    }

    fn need_step_name(&mut self, name: &str, place: Span) {
        if self.known.step_names.contains_key(name) {
            self.used.step_names.insert(name.to_owned());
            return;
        }
        let d = Diagnostic::new(place, format!("no step has the name `{name}`"));
        self.fault(match nearest(name, self.known.step_names.keys().map(String::as_str)) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None => d.help(format!("write `name = \"{name}\"` on the step that is meant")),
        });
    }

    /// A buffer or part of one, in a text value.
    pub fn buf_ref(&mut self, name: &str, val: &Val, slice_names: Names, writes: bool) -> Option<BufRef> {
        let Kind::Str(text) = &val.kind else {
            self.wrong_type(name, Type::Buffer, val);
            return None;
        };
        self.buf_ref_text(val.span, text, slice_names, writes)
    }

    pub fn buf_ref_text(&mut self, span: Span, text: &str, names: Names, writes: bool) -> Option<BufRef> {
        let found = match expr::parse_ref(text) {
            Ok(found) => found,
            Err(e) => {
                self.parse_fault(&e, span, text, 0);
                return None;
            }
        };
        let place = self.inside(span, text, 0, found.name_end);
        let good = self.check_names(&found.names, span, text, 0, names);
        if !writes {
            if !self.known.buffers.contains_key(&found.name) && !self.refused {
                let d = Diagnostic::new(place, format!("unknown buffer `{}`", found.name));
                self.fault(match nearest(&found.name, self.known.buffers.keys().map(String::as_str)) {
                    Some(near) => d.help(format!("did you mean `{near}`?")),
                    None => d.help("no input has this name and no step writes it"),
                });
                return None;
            }
            self.used.buffers.insert(found.name.clone());
        }
        good.then_some(BufRef { span, name: found.name, slice: found.slice })
    }

    /// Who runs a step or has a buffer.
    pub fn ranks(&mut self, val: &Val) -> Option<Ranks> {
        match &val.kind {
            Kind::Str(_) => Some(Ranks::Expr(self.expr(val, Names::PER_RANK)?)),
            Kind::Array(a) => {
                if a.is_empty() {
                    self.fault(Diagnostic::new(val.span, "`ranks` names no rank"));
                    return None;
                }
                let list = self.world_ranks(a)?;
                self.twice(&list);
                Some(Ranks::List(list))
            }
            _ => {
                self.wrong_type("ranks", Type::Ranks, val);
                None
            }
        }
    }

    fn world_ranks(&mut self, entries: &[Val]) -> Option<Vec<Sp<i128>>> {
        let read: Vec<_> = entries
            .iter()
            .map(|v| match v.kind {
                Kind::Int(r) if self.world == 0 || (0..self.world as i128).contains(&r) => {
                    Some(Sp { span: v.span, v: r })
                }
                Kind::Int(r) => {
                    let last = self.world - 1;
                    let d = Diagnostic::new(v.span, format!("there is no rank {r}"));
                    self.fault(d.help(format!("with world_size = {} ranks are 0 to {last}", self.world)));
                    None
                }
                _ => {
                    self.fault(
                        Diagnostic::new(v.span, "a world rank is wanted here").label(format!("this is {}", v.what())),
                    );
                    None
                }
            })
            .collect();
        read.into_iter().collect()
    }

    fn twice(&mut self, list: &[Sp<i128>]) {
        let mut seen: BTreeMap<i128, Span> = BTreeMap::new();
        for r in list {
            if let Some(first) = seen.insert(r.v, r.span) {
                self.fault(
                    Diagnostic::new(r.span, format!("rank {} stands here twice", r.v)).related(first, "first here"),
                );
            }
        }
    }

    /// Lists of world ranks, no rank twice.
    pub fn groups(&mut self, val: &Val) -> Option<Sp<Vec<Vec<Sp<i128>>>>> {
        let Kind::Array(lists) = &val.kind else {
            self.wrong_type("groups", Type::Groups, val);
            return None;
        };
        if lists.is_empty() {
            self.fault(Diagnostic::new(val.span, "`groups` has no list of ranks"));
            return None;
        }
        let mut out = Vec::new();
        for list in lists.iter() {
            match &list.kind {
                Kind::Array(a) if a.is_empty() => self.fault(Diagnostic::new(list.span, "this group has no rank")),
                Kind::Array(a) => out.extend(self.world_ranks(a)),
                _ => {
                    self.wrong_type("groups", Type::Groups, val);
                    return None;
                }
            }
        }
        let all: Vec<_> = out.iter().flatten().cloned().collect();
        self.twice(&all);
        (out.len() == lists.len()).then_some(Sp { span: val.span, v: out })
    }
}
