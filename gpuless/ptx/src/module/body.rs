//! The body of a function: declarations, labels and instructions.
use super::function::{Declared, Function, Guard, Instruction, Signature};
use super::operand::{Base, Name, Operand};
use super::scope::{Named, Scopes};
use super::tokens::Tokens;
use super::types::Space;
use super::variable::{Room, declaration, offset};
use crate::error::Error;
use crate::text::{Token, TokenKind, Unit};
use std::ops::Range;

/// Most registers of a function. NCCL's largest function declares 59,000.
const MOST_REGISTERS: usize = 1 << 20;
/// Most levels of braces, and of lists and vectors in an operand.
const MOST_LEVELS: usize = 64;

/// Reads a body.
///
/// # Errors
///
/// The first thing that cannot be read.
pub fn read(unit: &Unit, signature: Signature, body: Range<usize>) -> Result<Function, Error> {
    let mut reader = Body {
        tokens: Tokens::new(unit, body),
        scopes: Scopes::new(),
        memory: Vec::new(),
        own: Room::default(),
        shared: Room::default(),
        instructions: Vec::new(),
        branches: Vec::new(),
    };
    while reader.statement()? {}
    reader.resolve()?;
    let Body { scopes, memory, own, shared, instructions, .. } = reader;
    Ok(Function { signature, registers: scopes.registers, memory, own, shared, instructions })
}

struct Body<'a> {
    tokens: Tokens<'a>,
    scopes: Scopes<'a>,
    memory: Vec<Declared>,
    own: Room,
    shared: Room,
    instructions: Vec<Instruction>,
    /// Branches whose targets are still names, and the scopes that contain them.
    branches: Vec<(usize, usize)>,
}

impl<'a> Body<'a> {
    /// Reads a statement; false at the end of the body.
    fn statement(&mut self) -> Result<bool, Error> {
        let token = self.tokens.next()?;
        match token.kind {
            TokenKind::End if self.scopes.depth() > 0 => {
                return Err(self.error(token, "a closing brace is missing here"));
            }
            TokenKind::End => return Ok(false),
            TokenKind::Mark(b';') => {}
            TokenKind::Mark(b'{') if self.scopes.depth() == MOST_LEVELS => {
                return Err(self.error(token, "these braces are too deep"));
            }
            TokenKind::Mark(b'{') => self.scopes.open(),
            TokenKind::Mark(b'}') => {
                if !self.scopes.close() {
                    return Err(self.error(token, "this brace closes nothing"));
                }
            }
            TokenKind::Dotted => self.directive(token)?,
            TokenKind::Mark(b'@') => {
                let inverted = self.tokens.takes(b'!')?;
                let at = self.tokens.peek()?;
                let name = self.tokens.name()?;
                let register = self.scopes.register(name);
                let register = register.ok_or_else(|| self.error(at, format!("`{name}` is not a register")))?;
                let opcode = self.tokens.next()?;
                if opcode.kind != TokenKind::Name {
                    return Err(self.tokens.unexpected(opcode, "an instruction"));
                }
                self.instruction(opcode, Some(Guard { register, inverted }))?;
            }
            TokenKind::Name if self.tokens.takes(b':')? => self.label(token)?,
            TokenKind::Name => self.instruction(token, None)?,
            _ => return Err(self.tokens.unexpected(token, "an instruction")),
        }
        Ok(true)
    }

    fn label(&mut self, token: Token) -> Result<(), Error> {
        // The name of a prototype or of a list of targets is not followed by an instruction.
        if matches!(self.tokens.text(self.tokens.peek()?), ".callprototype" | ".branchtargets" | ".calltargets") {
            return self.skip_statement(token);
        }
        let name = self.tokens.text(token);
        if self.scopes.label(name, self.instructions.len()) {
            Ok(())
        } else {
            Err(self.error(token, format!("the label `{name}` stands twice in its braces")))
        }
    }

    fn directive(&mut self, token: Token) -> Result<(), Error> {
        match self.tokens.text(token) {
            ".reg" => self.registers(),
            ".local" => self.memory_in(Space::Local),
            ".shared" => self.memory_in(Space::Shared),
            ".param" => self.memory_in(Space::Param),
            ".loc" | ".file" => self.skip_line(token),
            // How to compile for a GPU.
            ".pragma" | ".maxntid" | ".minnctapersm" | ".maxnreg" => self.skip_statement(token),
            other => Err(self.error(token, format!("the directive `{other}` is not known in a body"))),
        }
    }

    /// `.local .align 8 .b8 stack[24];`
    fn memory_in(&mut self, space: Space) -> Result<(), Error> {
        let (name, shape) = declaration(&mut self.tokens)?;
        let mut used = self.scopes.used();
        let offset = if space == Space::Shared {
            self.shared.take(shape.bytes(), shape.align.into())
        } else {
            let mut room = Room { bytes: used, ..self.own };
            let offset = room.take(shape.bytes(), shape.align.into());
            used = room.bytes;
            self.own = Room { bytes: self.own.bytes.max(used), ..room };
            offset
        };
        self.scopes.memory(name, self.memory.len(), used);
        self.memory.push(Declared { name: name.to_owned(), space, shape, offset });
        self.tokens.expect(b';')
    }

    /// `.reg .b32 %r<9>, low;`
    fn registers(&mut self) -> Result<(), Error> {
        let token = self.tokens.peek()?;
        let ty = self.tokens.ty()?;
        loop {
            let at = self.tokens.peek()?;
            let name = self.tokens.name()?;
            let numbered = self.tokens.takes(b'<')?;
            let count = if numbered { self.tokens.whole(u64::MAX)? } else { 1 };
            let room = (MOST_REGISTERS - self.scopes.registers.len()) as u64;
            let Some(count) = u32::try_from(count).ok().filter(|count| u64::from(*count) <= room) else {
                return Err(self.error(at, format!("the function has more than {MOST_REGISTERS} registers")));
            };
            if numbered {
                self.tokens.expect(b'>')?;
                self.scopes.family(name, count, ty);
            } else {
                self.scopes.single(name, ty);
            }
            let next = self.tokens.next()?;
            if next.is(b';') {
                return Ok(());
            }
            if !next.is(b',') {
                return Err(self.error(token, "a semicolon is missing after this declaration"));
            }
        }
    }

    fn instruction(&mut self, first: Token, guard: Option<Guard>) -> Result<(), Error> {
        let mut end = first.end;
        loop {
            let next = self.tokens.peek()?;
            if next.kind != TokenKind::Dotted || next.start != end {
                break;
            }
            end = self.tokens.next()?.end;
        }
        let mut operands = Vec::new();
        if !self.tokens.takes(b';')? {
            loop {
                operands.push(self.operand(0)?);
                let next = self.tokens.next()?;
                if next.is(b';') {
                    break;
                }
                if !next.is(b',') {
                    return Err(self.tokens.unexpected(next, "`,` or `;`"));
                }
            }
        }
        if matches!(self.tokens.text(first), "bra" | "brx") {
            self.branches.push((self.instructions.len(), self.scopes.current()));
        }
        self.instructions.push(Instruction { opcode: first.start as u32..end as u32, guard, operands });
        Ok(())
    }

    fn operand(&mut self, level: usize) -> Result<Operand, Error> {
        let token = self.tokens.next()?;
        if level == MOST_LEVELS {
            return Err(self.error(token, "this operand is too deep"));
        }
        let operand = match token.kind {
            TokenKind::Whole(bits) => Operand::Whole(bits),
            TokenKind::Single(bits) => Operand::Single(bits),
            TokenKind::Double(bits) => Operand::Double(bits),
            TokenKind::Mark(b'-') => self.negative()?,
            TokenKind::Mark(b'!') => {
                let name = self.tokens.name()?;
                let register = self.scopes.register(name);
                Operand::Inverted(register.ok_or_else(|| self.error(token, format!("`{name}` is not a register")))?)
            }
            TokenKind::Mark(b'{') => Operand::Vector(self.operands(b'}', level)?),
            TokenKind::Mark(b'(') => Operand::List(self.operands(b')', level)?),
            TokenKind::Mark(b'[') => self.memory()?,
            TokenKind::Name => self.named(token)?,
            _ => return Err(self.tokens.unexpected(token, "an operand")),
        };
        if self.tokens.takes(b'|')? {
            return Ok(Operand::Pair(Box::new((operand, self.operand(level + 1)?))));
        }
        Ok(operand)
    }

    fn negative(&mut self) -> Result<Operand, Error> {
        let token = self.tokens.next()?;
        Ok(match token.kind {
            TokenKind::Whole(bits) => Operand::Whole(bits.wrapping_neg()),
            TokenKind::Double(bits) => Operand::Double(bits ^ 1 << 63),
            _ => return Err(self.tokens.unexpected(token, "a number")),
        })
    }

    /// A register, a special register, `_`, or the name of something with an address.
    fn named(&mut self, token: Token) -> Result<Operand, Error> {
        let name = self.tokens.text(token);
        if name == "_" {
            return Ok(Operand::Unused);
        }
        match self.scopes.find(name) {
            Some(Named::Register(register)) => return Ok(Operand::Register(register)),
            Some(Named::Memory(number)) => {
                return Ok(Operand::Symbol(Name::Own(number), offset(&mut self.tokens)?));
            }
            None => {}
        }
        if name.starts_with('%') {
            let next = self.tokens.peek()?;
            let part =
                if next.kind == TokenKind::Dotted && next.start == token.end { self.tokens.dotted()? } else { None };
            return Ok(Operand::Special(part.map_or_else(|| name.to_owned(), |part| format!("{name}.{part}"))));
        }
        Ok(Operand::Symbol(name.into(), offset(&mut self.tokens)?))
    }

    /// Reads a memory operand, after its opening bracket.
    fn memory(&mut self) -> Result<Operand, Error> {
        let token = self.tokens.next()?;
        let (base, bytes) = match token.kind {
            TokenKind::Whole(address) => (Base::Nothing, address as i64),
            TokenKind::Mark(b'-') => (Base::Nothing, (self.tokens.whole(u64::MAX)? as i64).wrapping_neg()),
            TokenKind::Name => {
                let name = self.tokens.text(token);
                let base = match self.scopes.find(name) {
                    Some(Named::Register(register)) => Base::Register(register),
                    Some(Named::Memory(number)) => Base::Symbol(Name::Own(number)),
                    None if name.starts_with('%') => {
                        return Err(self.error(token, format!("`{name}` is not a register")));
                    }
                    None => Base::Symbol(name.into()),
                };
                (base, offset(&mut self.tokens)?)
            }
            _ => return Err(self.tokens.unexpected(token, "an address")),
        };
        self.tokens.expect(b']')?;
        Ok(Operand::Memory(base, bytes))
    }

    fn operands(&mut self, end: u8, level: usize) -> Result<Vec<Operand>, Error> {
        let mut all = Vec::new();
        while !self.tokens.takes(end)? {
            all.push(self.operand(level + 1)?);
            if !self.tokens.takes(b',')? {
                self.tokens.expect(end)?;
                break;
            }
        }
        Ok(all)
    }

    /// Finds the instructions to which branches lead.
    fn resolve(&mut self) -> Result<(), Error> {
        for (at, scope) in std::mem::take(&mut self.branches) {
            let Some(instruction) = self.instructions.get_mut(at) else { continue };
            let start = instruction.opcode.start as usize;
            if let Some(Operand::Symbol(name, 0)) = instruction.operands.last() {
                let name = match name {
                    Name::Own(number) => self.memory.get(*number).map_or("", |declared| declared.name.as_str()),
                    Name::Outer(name) => name.as_str(),
                };
                let target = self.scopes.target(scope, name);
                let target =
                    target.ok_or_else(|| self.tokens.unit.error(start, format!("there is no label `{name}`")))?;
                instruction.operands.pop();
                instruction.operands.push(Operand::Label(target));
            }
        }
        Ok(())
    }

    fn skip_statement(&mut self, from: Token) -> Result<(), Error> {
        loop {
            let token = self.tokens.next()?;
            if token.is(b';') {
                return Ok(());
            }
            if token.kind == TokenKind::End {
                return Err(self.error(from, "a semicolon is missing after this"));
            }
        }
    }

    /// Debugging directives have no semicolon: they end with their line.
    fn skip_line(&mut self, from: Token) -> Result<(), Error> {
        let line = self.tokens.unit.text()[from.start..].find('\n').map_or(usize::MAX, |length| from.start + length);
        loop {
            let token = self.tokens.peek()?;
            if token.start >= line || token.kind == TokenKind::End {
                return Ok(());
            }
            self.tokens.next()?;
        }
    }

    fn error(&self, token: Token, what: impl Into<String>) -> Error {
        self.tokens.unit.error(token.start, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::{RegisterId, Type};
    use crate::text::Index;

    fn function(body: &str) -> Result<(Unit, Function), String> {
        let unit = Unit::new("t", format!(".func f() {{\n{body}\n}}").into()).unwrap();
        let index = Index::of(&unit).map_err(|error| error.to_string())?;
        let function = Function::of(&unit, &index.definitions[0]).map_err(|error| error.to_string())?;
        Ok((unit, function))
    }

    /// Opcodes and operands of all instructions.
    fn instructions(body: &str) -> Vec<(String, Vec<Operand>)> {
        let (unit, function) = function(body).unwrap();
        let row = |i: &Instruction| (i.opcode(&unit).to_owned(), i.operands.clone());
        function.instructions.iter().map(row).collect()
    }

    #[test]
    fn every_kind_of_operand() {
        use Operand::*;
        let register = |number| Register(RegisterId(number));
        let all = instructions(
            ".reg .b32 %r<4>;\n.reg .pred %p<2>;\nmov.u32 %r1, %tid.x;\nadd.s32 %r1, %r2, -7;\n\
             ld.param.v2.u32 {%r0, _}, [f_param_0+8];\nst.shared.b32 [%r3+-4], 0f3F800000;\nshfl.sync.up.b32 %r0|%p1, %r1, 1, 0, -1;\n\
             vote.sync.any.pred %p1, !%p0, -1;\nmov.u64 %r2, table+16;\nld.global.b32 %r0, [4096];\n\
             call.uni (%r0), g, (%r1, 3);\nret;",
        );
        let operands: Vec<&[Operand]> = all.iter().map(|(_, operands)| operands.as_slice()).collect();
        assert_eq!(operands[0], [register(1), Special("%tid.x".into())]);
        assert_eq!(operands[1], [register(1), register(2), Whole(7u64.wrapping_neg())]);
        assert_eq!(operands[2], [Vector(vec![register(0), Unused]), Memory(Base::Symbol("f_param_0".into()), 8)]);
        assert_eq!(operands[3], [Memory(Base::Register(RegisterId(3)), -4), Single(0x3f80_0000)]);
        assert_eq!(operands[4][0], Pair(Box::new((register(0), register(5)))));
        assert_eq!(operands[5][1], Inverted(RegisterId(4)));
        assert_eq!(operands[6][1], Symbol("table".into(), 16));
        assert_eq!(operands[7][1], Memory(Base::Nothing, 4096));
        assert_eq!(operands[8], [List(vec![register(0)]), Symbol("g".into(), 0), List(vec![register(1), Whole(3)])]);
        assert_eq!((all[9].0.as_str(), operands[9]), ("ret", &[][..]));
    }

    #[test]
    fn scopes_guards_and_labels() {
        let (unit, function) = function(
            ".reg .pred %p<2>;\nL:\n@!%p1 bra.uni L;\n{ .reg .b32 tmp; L: mov.b32 tmp, 1; @%p0 bra L; }\n\
             bra END;\n.loc 1 2 3\n.pragma \"nounroll\";\nx: .callprototype ()_ ();\nEND:",
        )
        .unwrap();
        let targets: Vec<_> = function.instructions.iter().filter_map(|i| i.operands.last()).collect();
        assert_eq!(targets, [&Operand::Label(0), &Operand::Whole(1), &Operand::Label(1), &Operand::Label(4)]);
        let guards: Vec<_> =
            function.instructions.iter().map(|i| i.guard.map(|g| (g.register.0, g.inverted))).collect();
        assert_eq!(guards, [Some((1, true)), None, Some((0, false)), None]);
        assert_eq!(function.instructions[0].opcode(&unit), "bra.uni");
        assert_eq!(function.registers, [Type::Pred, Type::Pred, Type::B32]);
    }

    #[test]
    fn memory_of_a_function() {
        let (_, function) = function(".local .align 8 .b8 stack[24];\n.shared .b32 x;\n.param .b64 given;").unwrap();
        let memory: Vec<_> = function.memory.iter().map(|v| (v.name.as_str(), v.space, v.shape.bytes())).collect();
        assert_eq!(memory, [("stack", Space::Local, 24), ("x", Space::Shared, 4), ("given", Space::Param, 8)]);
    }

    #[test]
    fn a_name_means_the_nearest_declaration_and_inner_scopes_in_turn_have_the_same_bytes() {
        let (_, function) = function(
            ".local .b64 x;\n.shared .b32 s;\n{ .local .b32 x; .shared .align 32 .b32 s; st.local.b32 [x], 1; st.shared.b32 [s], 1; }\n\
             { .param .align 64 .b32 y; st.param.b32 [y], 1; { .reg .b32 x; mov.b32 x, 1; } }\nst.local.b64 [x], 1; st.shared.b32 [s], 1;",
        )
        .unwrap();
        let first = |i: &Instruction| i.operands[0].clone();
        let all: Vec<Operand> = function.instructions.iter().map(first).collect();
        let own = |number| Operand::Memory(Base::Symbol(Name::Own(number)), 0);
        assert_eq!(all, [own(2), own(3), own(4), Operand::Register(RegisterId(0)), own(0), own(1)]);
        let offsets: Vec<u64> = function.memory.iter().map(|declared| declared.offset).collect();
        assert_eq!(offsets, [0, 0, 8, 32, 64]);
        assert_eq!((function.own, function.shared), (Room { bytes: 68, align: 64 }, Room { bytes: 36, align: 32 }));
    }

    #[test]
    fn what_is_no_body_is_refused_with_its_place() {
        for (body, message) in [
            ("add %r1;", "t:3:1: "),
            ("@%p1 ret;", "t:2:2: `%p1` is not a register"),
            ("bra NOWHERE;", "t:2:1: there is no label `NOWHERE`"),
            ("L: L: ret;", "t:2:4: the label `L` stands twice in its braces"),
            (".reg .b32 %r<4294967296>;", "t:2:11: the function has more than 1048576 registers"),
            (".reg .b32 %r<1048576>, a;", "t:2:24: the function has more than 1048576 registers"),
            ("ld.b32 1, [%r1];", "t:2:12: `%r1` is not a register"),
            ("mov.b32 1 2;", "t:2:11: `,` or `;` is expected here, not `2`"),
            ("ret", "t:3:1: an operand is missing here"),
            (".surprise;", "t:2:1: the directive `.surprise` is not known in a body"),
            (
                "mov.b32 ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1",
                "t:2:73: this operand is too deep",
            ),
        ] {
            let Err(error) = function(body) else {
                // The name of a register that is not declared may be a special one.
                assert_eq!(body, "add %r1;");
                continue;
            };
            assert_eq!(error, message);
        }
    }
}
