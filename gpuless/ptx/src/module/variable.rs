//! Variables: named memory and its initial contents (PTX ISA, 5.4).
use super::tokens::Tokens;
use super::types::{Space, Type};
use crate::error::Error;
use crate::num::{BF16, F16};
use crate::text::{Definition, TokenKind, Unit};

/// Most bytes of a variable.
const MOST_BYTES: u64 = 1 << 30;
/// Limit on the elements in braces, in all levels in total.
const MOST_VALUES: usize = 1 << 24;
/// Most levels of braces.
const MOST_LEVELS: usize = 8;

/// The type, alignment and number of elements of a variable or parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Type of an element.
    pub ty: Type,
    /// The address is a multiple of this number of bytes.
    pub align: u32,
    /// Elements; `None` for an array without a length, whose size is decided elsewhere.
    pub count: Option<u64>,
}

impl Shape {
    /// Bytes of all elements; 0 without a length.
    pub fn bytes(&self) -> u64 {
        self.count.unwrap_or(0).saturating_mul(u64::from(self.ty.bytes()))
    }
}

/// Memory that several names have parts of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes that are in use.
    pub bytes: u64,
    /// Its address is a multiple of this number of bytes.
    pub align: u64,
}

impl Room {
    /// Takes more bytes; gives the first of them.
    pub fn take(&mut self, bytes: u64, align: u64) -> u64 {
        let start = self.bytes.next_multiple_of(align.max(1));
        *self = Self { bytes: start + bytes, align: self.align.max(align) };
        start
    }
}

/// One element of an initial value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The bits of a number; the upper ones are cut to the element's size.
    Bits(u64),
    /// The address of a variable or function, plus an offset in bytes.
    Address(String, i64),
}

/// Memory with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The variable's name.
    pub name: String,
    /// The state space that contains it.
    pub space: Space,
    /// The type and number of its elements.
    pub shape: Shape,
    /// Initial values of the first elements; all others are zero.
    pub values: Vec<Value>,
}

impl Variable {
    /// The space of a definition's variable, without reading its value; `None` if the definition is not a variable.
    ///
    /// # Errors
    ///
    /// The declaration cannot be read.
    pub fn space_of(unit: &Unit, definition: &Definition) -> Result<Option<Space>, Error> {
        space(&mut Tokens::new(unit, definition.head.clone()))
    }

    /// Reads the variable of a definition.
    ///
    /// # Errors
    ///
    /// The declaration or the initial value cannot be read, or is too large.
    pub fn of(unit: &Unit, definition: &Definition) -> Result<Self, Error> {
        let mut tokens = Tokens::new(unit, definition.head.clone());
        let space = space(&mut tokens)?;
        let space = space.ok_or_else(|| unit.error(definition.head.start, "this variable has no state space"))?;
        let (name, mut shape) = declaration(&mut tokens)?;
        let mut values = Vec::new();
        if let Some(body) = definition.body.clone().filter(|body| !body.is_empty()) {
            initial_value(&mut Tokens::new(unit, body), shape.ty, 0, &mut values)?;
        }
        let fits = shape.count.is_none_or(|count| values.len() as u64 <= count);
        if !fits {
            let what = format!("{} values for {} elements", values.len(), shape.count.unwrap_or(0));
            return Err(unit.error(definition.head.start, what));
        }
        if definition.body.is_some() && shape.count.is_none() {
            shape.count = Some(values.len() as u64).filter(|_| !values.is_empty());
        }
        Ok(Self { name: name.to_owned(), space, shape, values })
    }
}

/// The space that a declaration names, and the directives before it.
fn space(tokens: &mut Tokens<'_>) -> Result<Option<Space>, Error> {
    loop {
        match tokens.dotted()? {
            Some(word) if Space::named(word).is_some() => return Ok(Space::named(word)),
            Some(_) => {}
            None => return Ok(None),
        }
    }
}

/// Reads the rest of a declaration after its state space: attributes, type, name and dimensions.
pub fn declaration<'a>(tokens: &mut Tokens<'a>) -> Result<(&'a str, Shape), Error> {
    let (mut align, mut lanes, mut of_pointer) = (0, 1u64, false);
    let ty = loop {
        let token = tokens.next()?;
        match tokens.text(token) {
            // The memory that a pointer leads to has a separate alignment.
            ".ptr" => of_pointer = true,
            ".align" => {
                let value = tokens.whole(1 << 16)?;
                if !value.is_power_of_two() {
                    return Err(tokens.unit.error(token.start, format!("{value} is not an alignment")));
                }
                if !of_pointer {
                    align = value as u32;
                }
            }
            ".v2" => lanes = 2,
            ".v4" => lanes = 4,
            ".global" | ".const" | ".shared" | ".local" | ".param" if of_pointer => {}
            ".attribute" => {
                tokens.expect(b'(')?;
                while !tokens.takes(b')')? {
                    if tokens.next()?.kind == TokenKind::End {
                        return Err(tokens.unit.error(token.start, "this attribute has no end"));
                    }
                }
            }
            text => match text.strip_prefix('.').and_then(Type::named) {
                Some(ty) => break ty,
                None => return Err(tokens.unexpected(token, "a type")),
            },
        }
    };
    while matches!(tokens.text(tokens.peek()?), ".ptr" | ".global" | ".const" | ".shared" | ".local" | ".align") {
        if tokens.dotted()? == Some("align") {
            tokens.whole(1 << 16)?;
        }
    }
    let place = tokens.peek()?;
    let name = tokens.name()?;
    let (mut count, vector) = (Some(lanes), ty.bytes() * lanes as u32);
    while tokens.takes(b'[')? {
        if tokens.takes(b']')? {
            count = None;
            continue;
        }
        let length = tokens.whole(MOST_BYTES)?;
        count = count.and_then(|count| count.checked_mul(length));
        tokens.expect(b']')?;
        if count.is_none_or(|count| count * u64::from(ty.bytes()) > MOST_BYTES) {
            return Err(tokens.unit.error(place.start, format!("`{name}` has more than {MOST_BYTES} bytes")));
        }
    }
    Ok((name, Shape { ty, align: align.max(vector), count }))
}

fn initial_value(tokens: &mut Tokens<'_>, ty: Type, level: usize, values: &mut Vec<Value>) -> Result<(), Error> {
    let token = tokens.next()?;
    if token.is(b'{') {
        if level == MOST_LEVELS {
            return Err(tokens.unit.error(token.start, "these braces are too deep"));
        }
        while !tokens.takes(b'}')? {
            initial_value(tokens, ty, level + 1, values)?;
            if !tokens.takes(b',')? {
                return tokens.expect(b'}');
            }
        }
        return Ok(());
    }
    if values.len() == MOST_VALUES {
        return Err(tokens.unit.error(token.start, format!("there are more than {MOST_VALUES} values")));
    }
    let value = match token.kind {
        TokenKind::Mark(b'-') => {
            let token = tokens.next()?;
            let bits = number(token.kind, ty, true).ok_or_else(|| tokens.unexpected(token, "a number"))?;
            Value::Bits(bits)
        }
        TokenKind::Whole(_) | TokenKind::Double(_) | TokenKind::Single(_) => {
            Value::Bits(number(token.kind, ty, false).unwrap_or(0))
        }
        TokenKind::Name if tokens.text(token) == "generic" && tokens.takes(b'(')? => {
            let name = tokens.name()?.to_owned();
            tokens.expect(b')')?;
            Value::Address(name, offset(tokens)?)
        }
        TokenKind::Name => Value::Address(tokens.text(token).to_owned(), offset(tokens)?),
        _ => return Err(tokens.unexpected(token, "a value")),
    };
    values.push(value);
    Ok(())
}

/// The bits of a number as an element of this type; `None` for a token that is not a number.
fn number(token: TokenKind, ty: Type, negative: bool) -> Option<u64> {
    let value = match token {
        TokenKind::Whole(bits) if !matches!(ty, Type::F16 | Type::Bf16 | Type::F32 | Type::F64) => {
            return Some(if negative { bits.wrapping_neg() } else { bits });
        }
        TokenKind::Whole(bits) => bits as f64,
        TokenKind::Double(bits) => f64::from_bits(bits),
        TokenKind::Single(bits) => f64::from(f32::from_bits(bits)),
        _ => return None,
    };
    let value = if negative { -value } else { value };
    Some(match (ty, token) {
        // The bits as they are written: a NaN keeps its payload.
        (Type::F32 | Type::B32, TokenKind::Single(bits)) => u64::from(bits) ^ u64::from(negative) << 31,
        (Type::F32, _) => u64::from((value as f32).to_bits()),
        (Type::F16, _) => u64::from(F16.encode(value, false)),
        (Type::Bf16, _) => u64::from(BF16.encode(value, false)),
        _ => value.to_bits(),
    })
}

/// `+8`, `-8`, `+-8` or nothing.
pub fn offset(tokens: &mut Tokens<'_>) -> Result<i64, Error> {
    let plus = tokens.takes(b'+')?;
    let minus = tokens.takes(b'-')?;
    if !plus && !minus {
        return Ok(0);
    }
    let value = tokens.whole(u64::MAX)? as i64;
    Ok(if minus { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Index;

    fn variable(text: &str) -> Result<Variable, String> {
        let unit = Unit::new("t", text.into()).unwrap();
        let index = Index::of(&unit).map_err(|error| error.to_string())?;
        Variable::of(&unit, &index.definitions[0]).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_are_written_in_the_elements_type() {
        let bits = |text: &str| variable(text).unwrap().values;
        let f32s = |values: [f32; 3]| values.map(|value| Value::Bits(value.to_bits().into())).to_vec();
        assert_eq!(bits(".global .f32 x[3] = {1.5, -2.5, 0f3f800000};"), f32s([1.5, -2.5, 1.0]));
        let f64s = [1.5f64, -3.0].map(|value| Value::Bits(value.to_bits())).to_vec();
        assert_eq!(bits(".global .f64 x[2] = {1.5, -3};"), f64s);
        assert_eq!(bits(".global .f16 x = 1.0;"), [Value::Bits(0x3c00)]);
        assert_eq!(bits(".global .b32 x[2] = {0f3f800000, -1};"), [Value::Bits(0x3f80_0000), Value::Bits(u64::MAX)]);
        assert!(variable(".global .f32 x = -y;").is_err());
    }

    #[test]
    fn shapes_and_values() {
        let read = variable(".visible .global .align 16 .b8 t[2][3] = {{1, 0x2, -1}, {4}};").unwrap();
        assert_eq!(read.shape, Shape { ty: Type::B8, align: 16, count: Some(6) });
        assert_eq!(read.values, [1, 2, u64::MAX, 4].map(Value::Bits));
        let read = variable(".global .align 8 .u64 f[2] = {kernel, generic(table)+8};").unwrap();
        assert_eq!(read.values, [Value::Address("kernel".into(), 0), Value::Address("table".into(), 8)]);
        let read = variable(".const .f32 x = 0f3F800000;").unwrap();
        assert_eq!((read.space, read.values), (Space::Const, vec![Value::Bits(0x3f80_0000)]));
        assert_eq!(variable(".extern .shared .align 16 .b8 s[];").unwrap().shape.count, None);
        let vector = variable(".global .v4 .f32 v[2];").unwrap().shape;
        assert_eq!((vector.bytes(), vector.align), (32, 16), "aligned to the vector (5.4.5)");
        assert_eq!(variable(".global .u32 open[] = {1, 2, 3};").unwrap().shape.count, Some(3));
        assert_eq!(variable(".global .align 4 .u32 zero;").unwrap().values, []);
    }

    #[test]
    fn what_is_no_variable_is_refused_with_its_place() {
        for (text, message) in [
            (".global .b8 t[2] = {1, 2, 3};", "t:1:1: 3 values for 2 elements"),
            (".global .align 3 .b8 t;", "t:1:9: 3 is not an alignment"),
            (".global .b31 t;", "t:1:9: a type is expected here, not `.b31`"),
            (".global .b64 t[99999999999];", "t:1:16: 99999999999 is more than 1073741824"),
            (".global .b64 t[1073741824];", "t:1:14: `t` has more than 1073741824 bytes"),
            (".global .b8 t[65536][65536];", "t:1:13: `t` has more than 1073741824 bytes"),
            (".global .b8 t = {{{{{{{{{1}}}}}}}}};", "t:1:25: these braces are too deep"),
            (".global .b8 t = \"x\";", "t:1:17: a value is expected here, not `\"x\"`"),
        ] {
            assert_eq!(variable(text).unwrap_err(), message);
        }
    }
}
