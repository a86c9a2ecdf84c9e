//! Functions and kernels.
use super::body;
use super::operand::Operand;
use super::tokens::Tokens;
use super::types::{Space, Type};
use super::variable::{Room, Shape, declaration};
use crate::error::Error;
use crate::text::{Definition, DefinitionKind, TokenKind, Unit};
use std::ops::Range;

/// A register of a function, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegisterId(pub u32);

/// The predicate before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The predicate's register.
    pub register: RegisterId,
    /// True for `@!%p`: the instruction is executed where it is false.
    pub inverted: bool,
}

/// An instruction as written in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The bytes of its opcode in the unit, such as `ld.global.b32`.
    pub opcode: Range<u32>,
    /// The predicate before it.
    pub guard: Option<Guard>,
    /// The operands in their order in the text.
    pub operands: Vec<Operand>,
}

impl Instruction {
    /// Its opcode with all its dotted suffixes.
    pub fn opcode<'a>(&self, unit: &'a Unit) -> &'a str {
        unit.text().get(self.opcode.start as usize..self.opcode.end as usize).unwrap_or("")
    }
}

/// A parameter or result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The parameter's name.
    pub name: String,
    /// The type and number of its elements.
    pub shape: Shape,
    /// Its offset in the block of all parameters.
    pub offset: u64,
}

/// Limits that a kernel sets for its launches; `None` for those that it does not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchBounds {
    /// `.maxntid`: most threads of a block, in each dimension.
    pub most_threads: Option<[u32; 3]>,
    /// `.reqntid`: the threads that a block must have.
    pub threads: Option<[u32; 3]>,
    /// `.reqnctapercluster`: the blocks that a cluster must have.
    pub cluster: Option<[u32; 3]>,
}

/// The information in a function's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The function's name.
    pub name: String,
    pub is_kernel: bool,
    /// The parameters that it returns.
    pub results: Vec<Parameter>,
    /// The parameters that it receives.
    pub parameters: Vec<Parameter>,
    /// Limits of its launches.
    pub bounds: LaunchBounds,
}

impl Signature {
    /// Reads the head of a definition.
    ///
    /// # Errors
    ///
    /// It is not the head of a function.
    pub fn of(unit: &Unit, definition: &Definition) -> Result<Self, Error> {
        let mut tokens = Tokens::new(unit, definition.head.clone());
        while tokens.dotted()?.is_some() {}
        let results = if tokens.peek()?.is(b'(') { parameters(&mut tokens)? } else { Vec::new() };
        let name = tokens.name()?.to_owned();
        let given = if tokens.peek()?.is(b'(') { parameters(&mut tokens)? } else { Vec::new() };
        let is_kernel = definition.kind == DefinitionKind::Kernel;
        let bounds = bounds(&mut tokens)?;
        Ok(Self { name, is_kernel, results, parameters: given, bounds })
    }

    /// Bytes of the block of all parameters.
    pub fn parameter_bytes(&self) -> u64 {
        self.parameters.last().map_or(0, |last| last.offset + last.shape.bytes())
    }
}

/// `(.param .b64 a, .param .b32 b)`, each at the next multiple of its alignment.
fn parameters(tokens: &mut Tokens<'_>) -> Result<Vec<Parameter>, Error> {
    let mut all: Vec<Parameter> = Vec::new();
    tokens.expect(b'(')?;
    while !tokens.takes(b')')? {
        let token = tokens.next()?;
        if !matches!(tokens.text(token), ".param" | ".reg") {
            return Err(tokens.unexpected(token, "`.param`"));
        }
        let (name, shape) = declaration(tokens)?;
        let end = all.last().map_or(0, |last| last.offset + last.shape.bytes());
        let offset = end.next_multiple_of(u64::from(shape.align.max(1)));
        all.push(Parameter { name: name.to_owned(), shape, offset });
        if !tokens.takes(b',')? {
            tokens.expect(b')')?;
            break;
        }
    }
    Ok(all)
}

fn bounds(tokens: &mut Tokens<'_>) -> Result<LaunchBounds, Error> {
    let mut bounds = LaunchBounds::default();
    loop {
        let token = tokens.next()?;
        match tokens.text(token) {
            ".maxntid" => bounds.most_threads = Some(three(tokens)?),
            ".reqntid" => bounds.threads = Some(three(tokens)?),
            ".reqnctapercluster" => bounds.cluster = Some(three(tokens)?),
            _ if token.kind == TokenKind::End => return Ok(bounds),
            // The others say how to compile for a GPU.
            _ => {}
        }
    }
}

fn three(tokens: &mut Tokens<'_>) -> Result<[u32; 3], Error> {
    let mut sizes = [1; 3];
    for (at, size) in sizes.iter_mut().enumerate() {
        if at > 0 && !tokens.takes(b',')? {
            break;
        }
        *size = tokens.whole(u64::from(u32::MAX))? as u32;
    }
    Ok(sizes)
}

/// Memory that a function's body declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The variable's name.
    pub name: String,
    /// `.local`, `.param` or `.shared`.
    pub space: Space,
    /// The type and number of its elements.
    pub shape: Shape,
    /// Its offset in the function's memory of that kind. Scopes that follow each other use the same bytes for `.local` and `.param`.
    pub offset: u64,
}

/// A function with its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The information in its head.
    pub signature: Signature,
    pub registers: Vec<Type>,
    /// Its memory in `.local` and `.shared`, and the parameters of its calls.
    pub memory: Vec<Declared>,
    /// Memory per thread for the variables in `.local` and `.param`.
    pub own: Room,
    /// Memory per block for the variables in `.shared`.
    pub shared: Room,
    /// Its instructions. A branch to one past the last one leaves the function.
    pub instructions: Vec<Instruction>,
}

impl Function {
    /// Reads the function of a definition.
    ///
    /// # Errors
    ///
    /// The definition has no body, or its text cannot be read: the place is that of the first thing that cannot.
    pub fn of(unit: &Unit, definition: &Definition) -> Result<Self, Error> {
        let signature = Signature::of(unit, definition)?;
        let Some(body) = definition.body.clone() else {
            return Err(unit.error(definition.head.start, format!("`{}` has no body here", signature.name)));
        };
        body::read(unit, signature, body)
    }
}
