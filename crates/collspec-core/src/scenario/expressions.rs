//! Reads expressions and references to buffers, and checks the names in them.
use super::case::{BufferRef, Spanned};
use super::diagnostic::{Diagnostic, Span};
use super::foreign_words;
use super::keys::ValueType;
use super::reader::{AllowedNames, PointReader};
use super::tree::{TomlKind, TomlValue};
use crate::expr::{self, BUILTIN_NAMES, Expr, NameUse, ParseError, Parsed, UseKind};
use crate::suggest::nearest;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The parsed expressions of a file, by text. Most points of a matrix have the same ones, so each text is parsed once.
#[derive(Debug, Default)]
pub(crate) struct ParsedExpressions(RefCell<HashMap<String, Rc<Parsed>>>);

impl ParsedExpressions {
    fn parse(&self, text: &str) -> Result<Rc<Parsed>, ParseError> {
        if let Some(parsed) = self.0.borrow().get(text) {
            return Ok(parsed.clone());
        }
        let parsed = Rc::new(expr::parse(text)?);
        self.0.borrow_mut().insert(text.to_owned(), parsed.clone());
        Ok(parsed)
    }
}

impl PointReader<'_> {
    /// Reads an expression; the value must be text.
    pub fn expression(&mut self, val: &TomlValue, names: AllowedNames) -> Option<Spanned<Expr>> {
        let TomlKind::Str(text) = &val.kind else {
            let d = Diagnostic::new(val.span, "expected an expression in quotes");
            self.report(d.label(format!("this is {}", val.kind_name())));
            return None;
        };
        self.expression_in_text(val.span, text, 0, text, names)
    }

    /// Reads an expression that is the part of the text `whole` from byte `offset` on.
    pub fn expression_in_text(
        &mut self,
        span: Span,
        whole: &str,
        offset: usize,
        part: &str,
        names: AllowedNames,
    ) -> Option<Spanned<Expr>> {
        match self.expressions.parse(part) {
            Ok(parsed) => {
                let all = self.span_in_text(span, whole, offset, offset + part.len());
                let good = self.check_names(&parsed.names, span, whole, offset, names);
                good.then_some(Spanned { span: all, value: parsed.expr.clone() })
            }
            Err(e) => {
                self.report_parse_error(&e, span, whole, offset);
                None
            }
        }
    }

    fn report_parse_error(&mut self, e: &ParseError, span: Span, whole: &str, offset: usize) {
        let mut d =
            Diagnostic::new(self.span_in_text(span, whole, offset + e.start, offset + e.end), e.message.clone());
        d.help = e.help.clone();
        self.report(d);
    }

    fn check_names(&mut self, uses: &[NameUse], span: Span, whole: &str, offset: usize, names: AllowedNames) -> bool {
        let mut good = true;
        for u in uses {
            let place = self.span_in_text(span, whole, offset + u.start, offset + u.end);
            good &= self.is_full() || self.check_name(u, place, names);
        }
        good
    }

    fn check_name(&mut self, u: &NameUse, place: Span, names: AllowedNames) -> bool {
        let name = u.name.as_str();
        match u.kind {
            UseKind::Step if !names.assert => {
                self.report(Diagnostic::new(place, "figures of a step can be read in `assert` only"));
                false
            }
            UseKind::Step => self.use_step_name(name, place),
            UseKind::Same if !names.assert => {
                self.report(Diagnostic::new(place, "`same` can be used in `assert` only"));
                false
            }
            UseKind::Plain if names.has(name) => true,
            UseKind::Plain if self.axes.iter().any(|a| a.name == name) => {
                self.used.axes.insert(name.to_owned());
                let number = !self.axes.iter().any(|a| a.name == name && !a.is_number());
                if !number {
                    self.report(Diagnostic::new(place, format!("the axis `{name}` is not a number here")));
                }
                number
            }
            _ if names.buffers && self.known.buffers.contains_key(name) => {
                self.used.buffers.insert(name.to_owned());
                true
            }
            _ => {
                if let Some(d) = self.misused_name(u, place, names) {
                    self.report(d);
                } else if self.is_first_unknown("buffer", name) {
                    let d = self.unknown_name(u, place, names);
                    self.report(d);
                }
                false
            }
        }
    }

    /// The diagnostic for a name that exists but cannot be used here.
    fn misused_name(&self, u: &NameUse, place: Span, names: AllowedNames) -> Option<Diagnostic> {
        let name = u.name.as_str();
        if self.known.buffers.contains_key(name) && !names.buffers {
            return Some(
                Diagnostic::new(place, format!("the buffer `{name}` cannot be read here"))
                    .help("elements of buffers can be read in `expr` of a map and in `assert`"),
            );
        }
        if u.kind != UseKind::Plain && (names.has(name) || self.axes.iter().any(|a| a.name == name)) {
            return Some(Diagnostic::new(place, format!("`{name}` is a number, not a buffer")));
        }
        let cure = match name {
            "i" => "`i` is the index of an element: it has a meaning where elements are made or compared",
            "t" => "`t` is the round of `times`: it has a meaning inside steps",
            "peer" => "`peer` is the other rank in `counts` of all_to_all_v and reduce_scatter_v",
            _ => return None,
        };
        Some(Diagnostic::new(place, format!("`{name}` has no meaning here")).help(cure))
    }

    fn unknown_name(&self, u: &NameUse, place: Span, names: AllowedNames) -> Diagnostic {
        let name = u.name.as_str();
        let own = BUILTIN_NAMES.iter().chain(&["peer"]).copied().filter(|w| names.has(w));
        let axes = self.axes.iter().filter(|a| a.is_number()).map(|a| a.name.as_str());
        let buffers = self.known.buffers.keys().map(String::as_str).filter(|_| names.buffers);
        let all: Vec<&str> = own.chain(axes).chain(buffers).collect();
        let what = if u.kind == UseKind::Plain { "name" } else { "buffer" };
        let d = Diagnostic::new(place, format!("unknown {what} `{name}`"));
        if let Some(ours) = foreign_words::name_in_expression(name).filter(|ours| names.has(ours)) {
            return d.help(format!("write `{ours}`"));
        }
        match nearest(name, all.iter().copied()) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None if all.len() <= 24 => d.help(format!("known here: {}", all.join(", "))),
            None => d,
        }
    }

    fn use_step_name(&mut self, name: &str, place: Span) -> bool {
        if self.known.step_names.contains_key(name) {
            self.used.step_names.insert(name.to_owned());
            return true;
        }
        if self.is_first_unknown("step", name) {
            let d = Diagnostic::new(place, format!("no step has the name `{name}`"));
            self.report(match nearest(name, self.known.step_names.keys().map(String::as_str)) {
                Some(near) => d.help(format!("did you mean `{near}`?")),
                None => d.help(format!("write `name = \"{name}\"` on the step that is meant")),
            });
        }
        false
    }

    /// Reads a reference to a buffer or part of one from a text value.
    pub fn buffer_ref(
        &mut self,
        name: &str,
        val: &TomlValue,
        slice_names: AllowedNames,
        writes: bool,
    ) -> Option<BufferRef> {
        let TomlKind::Str(text) = &val.kind else {
            self.report_wrong_type(name, ValueType::BufferPart, val);
            return None;
        };
        self.buffer_ref_in_text(val.span, text, slice_names, writes)
    }

    pub fn buffer_ref_in_text(
        &mut self,
        span: Span,
        text: &str,
        names: AllowedNames,
        writes: bool,
    ) -> Option<BufferRef> {
        let found = match expr::parse_ref(text) {
            Ok(found) => found,
            Err(e) => {
                self.report_parse_error(&e, span, text, 0);
                return None;
            }
        };
        let place = self.span_in_text(span, text, 0, found.name_end);
        let good = self.check_names(&found.names, span, text, 0, names);
        if !writes {
            if !self.known.buffers.contains_key(&found.name) && !self.refused {
                if self.is_first_unknown("buffer", &found.name) {
                    let d = Diagnostic::new(place, format!("unknown buffer `{}`", found.name));
                    self.report(match nearest(&found.name, self.known.buffers.keys().map(String::as_str)) {
                        Some(near) => d.help(format!("did you mean `{near}`?")),
                        None => d.help(self.known_buffers()),
                    });
                }
                return None;
            }
            self.used.buffers.insert(found.name.clone());
        }
        good.then_some(BufferRef { span, name: found.name, slice: found.slice })
    }

    fn known_buffers(&self) -> String {
        let text = "no input has this name and no step writes it";
        let known: Vec<_> = self.known.buffers.keys().take(13).map(|name| format!("`{name}`")).collect();
        if (1..=12).contains(&known.len()) { format!("{text}; there is {}", known.join(", ")) } else { text.into() }
    }
}
