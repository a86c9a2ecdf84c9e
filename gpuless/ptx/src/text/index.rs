//! The definitions and declarations of a unit, found without reading bodies or initial values.
use super::lexer::{Lexer, Token, TokenKind};
use super::unit::Unit;
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The visibility of a name (PTX ISA, 11.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Linkage {
    /// Visible only in its unit.
    #[default]
    Private,
    /// `.extern`: defined in another unit.
    Extern,
    /// Visible in all units (`.visible`).
    Visible,
    /// `.weak`: a visible definition of the same name takes precedence.
    Weak,
    /// `.common`: like weak, and the largest one counts.
    Common,
}

/// The kind of thing that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DefinitionKind {
    /// A kernel (`.entry`), which the host can launch.
    Kernel,
    /// A device function (`.func`).
    Function,
    /// Memory in one of the spaces `.global`, `.const` and `.shared`.
    Variable,
}

/// A name of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    pub kind: DefinitionKind,
    /// The visibility of the name.
    pub linkage: Linkage,
    /// The bytes of its name.
    pub name: Range<usize>,
    /// The bytes from its first directive to its body, its initial value or its end.
    pub head: Range<usize>,
    /// The bytes inside the braces of a body, or of an initial value without the `=`; `None` for a declaration.
    pub body: Option<Range<usize>>,
    /// True if the body may declare shared memory.
    pub may_declare_shared: bool,
}

/// The names of a unit, in the order of its text.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Version of the PTX ISA, such as (8, 8).
    pub version: (u32, u32),
    /// All definitions and declarations.
    pub definitions: Vec<Definition>,
}

impl Index {
    /// Reads a unit once, from start to end.
    ///
    /// # Errors
    ///
    /// A directive at the level of the module that is not known, a name that is missing, or a brace without its partner.
    pub fn of(unit: &Unit) -> Result<Self, Error> {
        let mut scan = Scan { unit, lexer: Lexer::new(unit, 0, usize::MAX), index: Self::default() };
        while scan.directive()? {}
        Ok(scan.index)
    }
}

struct Scan<'a> {
    unit: &'a Unit,
    lexer: Lexer<'a>,
    index: Index,
}

impl<'a> Scan<'a> {
    /// Reads one directive of the module; false at the end of the text.
    fn directive(&mut self) -> Result<bool, Error> {
        let first = self.lexer.next_token()?;
        let mut word = first;
        let mut linkage = Linkage::Private;
        loop {
            linkage = match (word.kind, self.lexer.text(word)) {
                (TokenKind::End, _) if word.start == first.start => return Ok(false),
                (TokenKind::Mark(b';'), _) => return Ok(true),
                (TokenKind::Dotted, ".extern") => Linkage::Extern,
                (TokenKind::Dotted, ".visible") => Linkage::Visible,
                (TokenKind::Dotted, ".weak") => Linkage::Weak,
                (TokenKind::Dotted, ".common") => Linkage::Common,
                (TokenKind::Dotted, _) => break,
                (_, text) => {
                    let what = format!("a directive is expected at the level of the module, not `{text}`");
                    return Err(self.unit.error(word.start, what));
                }
            };
            word = self.lexer.next_token()?;
        }
        match self.lexer.text(word) {
            ".version" => self.version()?,
            ".target" => self.list()?,
            ".address_size" => self.address_size()?,
            ".pragma" | ".alias" => self.statement(word)?,
            ".file" | ".loc" => self.skip_line(),
            ".section" => self.section(word)?,
            ".entry" => self.function(first, DefinitionKind::Kernel, linkage)?,
            ".func" => self.function(first, DefinitionKind::Function, linkage)?,
            ".global" | ".const" | ".shared" => self.variable(first, linkage)?,
            other => return Err(self.unit.error(word.start, format!("the directive `{other}` is not known here"))),
        }
        Ok(true)
    }

    fn version(&mut self) -> Result<(), Error> {
        let token = self.lexer.next_token()?;
        let text = self.lexer.text(token);
        let parts = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        self.index.version = parts.ok_or_else(|| self.unit.error(token.start, format!("`{text}` is not a version")))?;
        Ok(())
    }

    fn address_size(&mut self) -> Result<(), Error> {
        let token = self.lexer.next_token()?;
        match token.kind {
            TokenKind::Whole(64) => Ok(()),
            _ => Err(self.unit.error(token.start, "only addresses of 64 bits are supported")),
        }
    }

    /// Names with commas between them.
    fn list(&mut self) -> Result<(), Error> {
        loop {
            self.lexer.next_token()?;
            if !self.lexer.peek()?.is(b',') {
                return Ok(());
            }
            self.lexer.next_token()?;
        }
    }

    /// Everything to the next semicolon.
    fn statement(&mut self, from: Token) -> Result<(), Error> {
        loop {
            let token = self.lexer.next_token()?;
            if token.is(b';') {
                return Ok(());
            }
            if token.kind == TokenKind::End {
                return Err(self.unit.error(from.start, "a semicolon is missing after this"));
            }
        }
    }

    fn skip_line(&mut self) {
        let from = self.position();
        let rest = &self.unit.text().as_bytes()[from..];
        self.go_to(from + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()));
    }

    fn section(&mut self, word: Token) -> Result<(), Error> {
        loop {
            let token = self.lexer.next_token()?;
            if token.is(b'{') {
                let end = self.closing_brace(token.start)?;
                self.go_to(end + 1);
                return Ok(());
            }
            if token.kind == TokenKind::End {
                return Err(self.unit.error(word.start, "this section has no contents"));
            }
        }
    }

    fn function(&mut self, first: Token, kind: DefinitionKind, linkage: Linkage) -> Result<(), Error> {
        let mut name = None;
        let mut depth = 0usize;
        loop {
            let token = self.lexer.next_token()?;
            match token.kind {
                TokenKind::Mark(b'(') => depth += 1,
                TokenKind::Mark(b')') => depth = depth.saturating_sub(1),
                TokenKind::Name if depth == 0 && name.is_none() => name = Some(token.start..token.end),
                TokenKind::Mark(b';') => {
                    return self.define(first, kind, linkage, name, first.start..token.start, None);
                }
                TokenKind::Mark(b'{') => {
                    let end = self.closing_brace(token.start)?;
                    self.go_to(end + 1);
                    let body = Some(token.end..end);
                    return self.define(first, kind, linkage, name, first.start..token.start, body);
                }
                TokenKind::End => {
                    return Err(self.unit.error(first.start, "this function has neither a body nor an end"));
                }
                _ => {}
            }
        }
    }

    fn variable(&mut self, first: Token, linkage: Linkage) -> Result<(), Error> {
        let mut name = None;
        loop {
            let token = self.lexer.next_token()?;
            let kind = DefinitionKind::Variable;
            match token.kind {
                TokenKind::Name => name = Some(token.start..token.end),
                TokenKind::Mark(b';') => {
                    let head = first.start..token.start;
                    // Memory without an initial value is defined nevertheless.
                    let body = (linkage != Linkage::Extern).then_some(token.start..token.start);
                    return self.define(first, kind, linkage, name, head, body);
                }
                TokenKind::Mark(b',') => {
                    return Err(self.unit.error(token.start, "only one variable can be declared at a time here"));
                }
                TokenKind::Mark(b'=') => {
                    let rest = &self.unit.text().as_bytes()[token.end..];
                    let Some(length) = rest.iter().position(|byte| *byte == b';') else {
                        return Err(self.unit.error(token.start, "this initial value has no end"));
                    };
                    let end = token.end + length;
                    self.go_to(end + 1);
                    return self.define(first, kind, linkage, name, first.start..token.start, Some(token.end..end));
                }
                TokenKind::End => return Err(self.unit.error(first.start, "a semicolon is missing after this")),
                _ => {}
            }
        }
    }

    fn define(
        &mut self,
        first: Token,
        kind: DefinitionKind,
        linkage: Linkage,
        name: Option<Range<usize>>,
        head: Range<usize>,
        body: Option<Range<usize>>,
    ) -> Result<(), Error> {
        let name = name.ok_or_else(|| self.unit.error(first.start, "this declares something without a name"))?;
        let of_function = body.clone().filter(|_| kind != DefinitionKind::Variable).unwrap_or_default();
        // With the opening brace.
        let of_function = of_function.start.saturating_sub(1)..of_function.end;
        let may_declare_shared = declares_shared(&self.unit.text().as_bytes()[of_function]);
        self.index.definitions.push(Definition { kind, linkage, name, head, body, may_declare_shared });
        Ok(())
    }

    /// The place of the lexer.
    fn position(&self) -> usize {
        self.lexer.position()
    }

    fn go_to(&mut self, at: usize) {
        self.lexer = Lexer::new(self.unit, at, usize::MAX);
    }

    /// The brace that closes the one at `open`.
    fn closing_brace(&self, open: usize) -> Result<usize, Error> {
        let bytes = self.unit.text().as_bytes();
        let (mut at, mut depth) = (open, 0usize);
        while let Some(next) = bytes[at..].iter().position(|byte| TELLS[usize::from(*byte)]) {
            at += next;
            match bytes[at] {
                b'{' => depth += 1,
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(at);
                    }
                }
                b'"' => at += bytes[at + 1..].iter().position(|byte| matches!(byte, b'"' | b'\n')).map_or(0, |n| n + 1),
                _ => at += comment_length(&bytes[at..]),
            }
            at += 1;
        }
        Err(self.unit.error(open, "this brace is never closed"))
    }
}

/// True if a body contains `.shared` outside an instruction. Written so that compilers vectorise it.
fn declares_shared(body: &[u8]) -> bool {
    let [first, second, third] = [1, 2, 3].map(|from| body.get(from..).unwrap_or_default());
    let fours = body.iter().zip(first).zip(second).zip(third);
    fours.fold(false, |any, (((before, point), s), h)| {
        let is_letter = (before | 0x20).wrapping_sub(b'a') < 26;
        let is_digit = before.wrapping_sub(b'0') < 10;
        any | ((*point == b'.') & (*s == b's') & (*h == b'h') & !(is_letter | is_digit))
    })
}

/// One less than the length of a comment, or 0 if none begins here.
fn comment_length(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        Some(b'/') => bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len() - 1),
        Some(b'*') => bytes[2..].windows(2).position(|two| two == b"*/").map_or(bytes.len() - 1, |n| n + 3),
        _ => 0,
    }
}

/// Bytes that matter where a closing brace is looked for.
const TELLS: [bool; 256] = {
    let mut tells = [false; 256];
    tells[b'{' as usize] = true;
    tells[b'}' as usize] = true;
    tells[b'"' as usize] = true;
    tells[b'/' as usize] = true;
    tells
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, linkage, name, head and body of each definition.
    fn index(text: &str) -> Vec<(DefinitionKind, Linkage, String, String, Option<String>)> {
        let unit = Unit::new("t", text.into()).unwrap();
        let of = |range: &Range<usize>| unit.text()[range.clone()].trim().to_owned();
        let index = Index::of(&unit).unwrap_or_else(|error| panic!("{error}"));
        let row = |d: &Definition| (d.kind, d.linkage, of(&d.name), of(&d.head), d.body.as_ref().map(of));
        index.definitions.iter().map(row).collect()
    }

    #[test]
    fn every_kind_of_definition_is_found() {
        use DefinitionKind::{Function, Kernel, Variable};
        let text = "// a unit\n.version 8.8\n.target sm_90, debug\n.address_size 64\n.pragma \"a { b\";\n\
            .extern .func f ;\n.extern .func (.param .b32 r) g(.param .b64 a);\n.extern .shared .align 16 .b8 s[];\n\
            .global .align 8 .b8 t[2] = {1, 2};\n.weak .global .u32 w;\n\
            .visible .entry k(\n.param .u64 k_p\n)\n.maxntid 640, 1, 1\n{ // } {\n{ .reg .b32 a; }\n/* } */ .pragma \"}\"; ret;\n}\n\
            .section .debug { .b8 { 1 } }\n.func p() { ret; }";
        let all = index(text);
        let names: Vec<_> = all.iter().map(|(kind, linkage, name, ..)| (*kind, *linkage, name.as_str())).collect();
        let expected = [
            (Function, Linkage::Extern, "f"),
            (Function, Linkage::Extern, "g"),
            (Variable, Linkage::Extern, "s"),
            (Variable, Linkage::Private, "t"),
            (Variable, Linkage::Weak, "w"),
            (Kernel, Linkage::Visible, "k"),
            (Function, Linkage::Private, "p"),
        ];
        assert_eq!(names, expected);
        let bodies: Vec<Option<&str>> = all.iter().map(|(.., body)| body.as_deref()).collect();
        assert_eq!(bodies[..5], [None, None, None, Some("{1, 2}"), Some("")]);
        assert!(bodies[5].is_some_and(|body| body.starts_with("// } {") && body.ends_with("ret;")));
        assert_eq!(all[5].3, ".visible .entry k(\n.param .u64 k_p\n)\n.maxntid 640, 1, 1");
    }

    #[test]
    fn bodies_that_declare_shared_memory_are_marked() {
        for (body, may) in [
            ("{.shared .b32 x;}", true),
            ("{ret;.shared .b32 x;}", true),
            ("{ { /* */.shared .align 4 .b32 x; } }", true),
            ("{ st.shared.b32 [x], 1; ld.volatile.shared::cta.u8 %r1, [x]; cvta.to.shared.u64 %d1, %d2; }", false),
            ("{}", false),
        ] {
            let unit = Unit::new("t", format!(".func f(){body}").into()).unwrap();
            assert_eq!(Index::of(&unit).unwrap().definitions[0].may_declare_shared, may, "{body}");
        }
    }

    #[test]
    fn the_version_is_read() {
        let unit = Unit::new("t", b".version 6.3\n.target sm_50".to_vec()).unwrap();
        assert_eq!(Index::of(&unit).unwrap().version, (6, 3));
    }

    #[test]
    fn what_is_no_module_is_refused_with_its_place() {
        for (text, message) in [
            ("ret;", "t:1:1: a directive is expected at the level of the module, not `ret`"),
            (".version eight", "t:1:10: `eight` is not a version"),
            (".address_size 32", "t:1:15: only addresses of 64 bits are supported"),
            ("\n.func f() { ret;", "t:2:11: this brace is never closed"),
            (".func f() ret", "t:1:1: this function has neither a body nor an end"),
            (".global .b8 = 3;", "t:1:1: this declares something without a name"),
            (".global .b8 a, b;", "t:1:14: only one variable can be declared at a time here"),
            (".global .b8 a = {1", "t:1:15: this initial value has no end"),
            (".surprise x;", "t:1:1: the directive `.surprise` is not known here"),
            (".visible", "t:1:9: a directive is expected at the level of the module, not ``"),
        ] {
            let unit = Unit::new("t", text.into()).unwrap();
            assert_eq!(Index::of(&unit).unwrap_err().to_string(), message);
        }
    }
}
