//! Parses tokens into a syntax tree by precedence climbing, with limits on length and depth.
use super::lex::{Token, TokenKind, tokens};
use super::{BinOp, Expr, ExprNode, Func, ParseError};

/// Words that are operators in other languages, and their counterparts.
const FOREIGN_WORDS: &[(&str, &str)] = &[
    ("and", "comparisons are 1 or 0: multiply them for `and`, take their `max` for `or`"),
    ("or", "comparisons are 1 or 0: multiply them for `and`, take their `max` for `or`"),
    ("not", "write `x == 0`"),
    ("in", "compare with each: `max(x == 1, x == 2)`; a step for some ranks has `ranks = [1, 2]`"),
    ("is", "equality is `==`"),
    ("mod", "write `x % k`"),
    ("div", "write `floor(x / k)`"),
    ("xor", "of two comparisons it is `a != b`"),
];

/// Largest length of an expression in bytes.
pub const MAX_LENGTH: usize = 4096;
/// Largest depth of a syntax tree, which bounds the recursion of evaluation.
pub const MAX_DEPTH: usize = 200;

/// The way a name is used in an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseKind {
    /// As a value.
    Plain,
    /// With an index: `x[k]`.
    Indexed,
    /// The step in `step.field`.
    Step,
    /// A buffer in `same(a, b)`.
    Same,
}

/// A name in an expression, with its place in the text.
#[derive(Clone, Debug)]
pub struct NameUse {
    /// The name as written.
    pub name: String,
    /// First byte in the expression's text.
    pub start: usize,
    /// One past the last byte (for `step.field`, of the field).
    pub end: usize,
    /// The way it is used.
    pub kind: UseKind,
}

/// An expression and the names in it.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The parsed expression.
    pub expr: Expr,
    /// Its names in order of appearance.
    pub names: Vec<NameUse>,
}

/// A buffer and its slice bounds, as in `x[a:b]`.
#[derive(Clone, Debug)]
pub struct ParsedRef {
    /// The buffer's name.
    pub name: String,
    /// Place of the name.
    pub name_end: usize,
    /// The bounds in brackets, if there are any.
    pub slice: Option<(Option<Expr>, Option<Expr>)>,
    /// Names in the bounds.
    pub names: Vec<NameUse>,
}

/// Parses an expression.
///
/// # Errors
///
/// The first error of its syntax, with its place.
pub fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut p = Parser::new(text)?;
    let (node, _) = p.comparison(0)?;
    p.end()?;
    Ok(Parsed { expr: Expr { text: text.into(), node: node.into() }, names: p.names })
}

/// Parses a buffer or a part of it: `x`, `x[2:5]`, `x[:n]`.
///
/// # Errors
///
/// The first error of its syntax, with its place.
pub fn parse_ref(text: &str) -> Result<ParsedRef, ParseError> {
    let mut p = Parser::new(text)?;
    let token = p.next();
    let TokenKind::Name(name) = token.tok else {
        return Err(ParseError::new(token.start, token.end, "expected the name of a buffer"));
    };
    let mut found = ParsedRef { name: name.to_owned(), name_end: token.end, slice: None, names: Vec::new() };
    if p.eat("[") {
        let from = p.bound(":")?;
        if !p.eat(":") {
            let t = p.peek();
            let e = ParseError::new(t.start, t.end, "a slice has a start and an end with `:` between them");
            return Err(match from {
                Some(Expr { text, node }) => e.help(match &*node {
                    ExprNode::Int(k) => format!("one element is `{name}[{k}:{}]`", k.saturating_add(1)),
                    _ => format!("one element is `{name}[{text}:{text} + 1]`"),
                }),
                None => e,
            });
        }
        let to = p.bound("]")?;
        p.want("]")?;
        found.slice = Some((from, to));
    }
    p.end()?;
    found.names = p.names;
    Ok(found)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    names: Vec<NameUse>,
}

/// A subtree and its depth.
type NodeWithDepth = (ExprNode, usize);

/// The precedence of an operator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Comparison,
    Sum,
    Product,
}

fn binding(op: BinOp) -> Binding {
    match op {
        BinOp::Add | BinOp::Sub => Binding::Sum,
        BinOp::Mul | BinOp::Div | BinOp::Rem | BinOp::Pow => Binding::Product,
        _ => Binding::Comparison,
    }
}

/// An operator that has its left operand.
struct WaitingOperator {
    op: BinOp,
    binding: Binding,
    left: NodeWithDepth,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, ParseError> {
        if text.len() > MAX_LENGTH {
            let message = format!("this expression is longer than {MAX_LENGTH} bytes");
            return Err(ParseError::new(0, text.len().min(1), message));
        }
        Ok(Self { text, tokens: tokens(text)?, at: 0, names: Vec::new() })
    }

    fn peek(&self) -> Token<'a> {
        let end = Token { tok: TokenKind::End, start: self.text.len(), end: self.text.len() };
        self.tokens.get(self.at).cloned().unwrap_or(end)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek().tok, TokenKind::Sign(s) if s == sign);
        self.at += usize::from(found);
        found
    }

    fn want(&mut self, sign: &str) -> Result<(), ParseError> {
        if self.eat(sign) {
            return Ok(());
        }
        let t = self.peek();
        let message = match t.tok {
            TokenKind::End => format!("the expression ends where `{sign}` is expected"),
            _ => format!("expected `{sign}` before `{}`", &self.text[t.start..t.end]),
        };
        Err(ParseError::new(t.start, t.end, message))
    }

    fn end(&mut self) -> Result<(), ParseError> {
        let t = self.peek();
        // `not x`: the word was mistaken for the name of a value.
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).cloned();
        let not = before.filter(|before| {
            matches!((&before.tok, &t.tok), (TokenKind::Name("not"), TokenKind::Name(_) | TokenKind::Int(_)))
        });
        let word = not.unwrap_or_else(|| t.clone());
        if let TokenKind::Name(name) = word.tok
            && let Some((_, cure)) = FOREIGN_WORDS.iter().find(|(foreign, _)| *foreign == name)
        {
            let message = format!("`{name}` is not an operator here");
            return Err(ParseError::new(word.start, word.end, message).help(*cure));
        }
        match t.tok {
            TokenKind::End => Ok(()),
            TokenKind::Sign(s @ (")" | "]")) => Err(ParseError::new(t.start, t.end, format!("`{s}` closes nothing"))),
            TokenKind::Sign(":") => Err(ParseError::new(t.start, t.end, "`:` stands in slices only")),
            TokenKind::Name("if") => {
                Err(ParseError::new(t.start, t.end, "expected an operator before `if`")
                    .help("write `if(condition, a, b)`"))
            }
            _ => {
                let message = format!("expected an operator before `{}`", &self.text[t.start..t.end]);
                Err(ParseError::new(t.start, t.end, message))
            }
        }
    }

    /// Parses an expression that may be missing before `stop`.
    fn bound(&mut self, stop: &str) -> Result<Option<Expr>, ParseError> {
        if matches!(self.peek().tok, TokenKind::Sign(s) if s == stop) {
            return Ok(None);
        }
        let start = self.peek().start;
        let (node, _) = self.comparison(0)?;
        let end = self.at.checked_sub(1).and_then(|k| self.tokens.get(k)).map_or(start, |t| t.end);
        Ok(Some(Expr { text: self.text[start..end].into(), node: node.into() }))
    }

    fn deeper(&self, depth: usize) -> Result<usize, ParseError> {
        if depth < MAX_DEPTH {
            return Ok(depth + 1);
        }
        let t = self.peek();
        Err(ParseError::new(t.start, t.end, format!("this expression is more than {MAX_DEPTH} levels deep")))
    }

    /// An expression: operands, and the operators between them. Operators wait for their right operand in a list and not in a
    /// recursion, which needs little stack.
    fn comparison(&mut self, depth: usize) -> Result<NodeWithDepth, ParseError> {
        let depth = self.deeper(depth)?;
        let mut waiting: Vec<WaitingOperator> = Vec::new();
        loop {
            let value = self.unary(depth)?;
            let next = self.operator();
            let binding = next.map_or(Binding::Comparison, binding);
            if next.is_some()
                && waiting.first().is_some_and(|first| first.binding == binding && binding == Binding::Comparison)
            {
                return Err(self.chained());
            }
            let value = self.joined(&mut waiting, value, binding);
            let Some(op) = next else { return value };
            self.at += 1;
            waiting.push(WaitingOperator { op, binding, left: value? });
        }
    }

    /// A value with the operators before it that bind at least as tightly as the next one.
    fn joined(
        &self,
        waiting: &mut Vec<WaitingOperator>,
        mut value: NodeWithDepth,
        binding: Binding,
    ) -> Result<NodeWithDepth, ParseError> {
        while let Some(last) = waiting.pop_if(|last| last.binding >= binding) {
            value = self.join(last.op, last.left, value)?;
        }
        Ok(value)
    }

    /// The operator at hand, if it has two operands and is not `^`.
    fn operator(&self) -> Option<BinOp> {
        let TokenKind::Sign(sign) = self.peek().tok else { return None };
        Some(match sign {
            "<" => BinOp::Lt,
            "<=" => BinOp::Le,
            ">" => BinOp::Gt,
            ">=" => BinOp::Ge,
            "==" => BinOp::Eq,
            "!=" => BinOp::Ne,
            "+" => BinOp::Add,
            "-" => BinOp::Sub,
            "*" => BinOp::Mul,
            "/" => BinOp::Div,
            "%" => BinOp::Rem,
            _ => return None,
        })
    }

    fn chained(&self) -> ParseError {
        let t = self.peek();
        ParseError::new(t.start, t.end, "comparisons cannot be chained")
            .help("write `(a < b) * (b < c)` instead of `a < b < c`")
    }

    /// Unary signs bind weaker than `^` on their right and stronger than `*`, as in Python.
    fn unary(&mut self, depth: usize) -> Result<NodeWithDepth, ParseError> {
        let depth = self.deeper(depth)?;
        if self.eat("-") {
            return self.negated(depth);
        }
        if self.eat("+") {
            return self.unary(depth);
        }
        let base = self.primary(depth)?;
        if self.eat("^") { self.power(base, depth) } else { Ok(base) }
    }

    // Kept outside the recursion of nested parentheses, so that each of their levels needs little stack.
    fn negated(&mut self, depth: usize) -> Result<NodeWithDepth, ParseError> {
        let (node, d) = self.unary(depth)?;
        Ok((ExprNode::Neg(Box::new(node)), self.deeper(d)?))
    }

    fn power(&mut self, base: NodeWithDepth, depth: usize) -> Result<NodeWithDepth, ParseError> {
        let exponent = self.unary(depth)?;
        self.join(BinOp::Pow, base, exponent)
    }

    fn primary(&mut self, depth: usize) -> Result<NodeWithDepth, ParseError> {
        let t = self.next();
        match t.tok {
            TokenKind::Int(v) => Ok((ExprNode::Int(v), 1)),
            TokenKind::Float(v) => Ok((ExprNode::Float(v), 1)),
            TokenKind::Sign("(") => {
                let inner = self.comparison(depth);
                self.closed(inner)
            }
            TokenKind::Name(name) => self.named(name, &t, depth),
            TokenKind::End | TokenKind::Sign(_) => Err(self.no_value(&t)),
        }
    }

    /// The node in parentheses, once they are closed.
    fn closed(&mut self, inner: Result<NodeWithDepth, ParseError>) -> Result<NodeWithDepth, ParseError> {
        let inner = inner?;
        self.want(")")?;
        Ok(inner)
    }

    fn no_value(&self, t: &Token<'a>) -> ParseError {
        let message = match t.tok {
            TokenKind::Sign(s) => format!("expected a value before `{s}`"),
            _ if self.text.trim().is_empty() => "this expression is empty".to_owned(),
            _ => "the expression ends where a value is expected".to_owned(),
        };
        ParseError::new(t.start, t.end, message)
    }

    fn named(&mut self, name: &'a str, t: &Token<'a>, depth: usize) -> Result<NodeWithDepth, ParseError> {
        if self.eat("(") {
            return self.call(name, t, depth);
        }
        if self.eat("[") {
            return self.indexed(name, t, depth);
        }
        self.plain(name, t)
    }

    fn indexed(&mut self, name: &'a str, t: &Token<'a>, depth: usize) -> Result<NodeWithDepth, ParseError> {
        refuse_function(name, t)?;
        self.names.push(NameUse { name: name.to_owned(), start: t.start, end: t.end, kind: UseKind::Indexed });
        let (index, d) = self.comparison(depth)?;
        self.end_of_index(name)?;
        Ok((ExprNode::Index(name.to_owned(), Box::new(index)), self.deeper(d)?))
    }

    fn end_of_index(&mut self, name: &str) -> Result<(), ParseError> {
        let next = self.peek();
        if next.tok == TokenKind::Sign(":") {
            return Err(ParseError::new(next.start, next.end, "an expression reads one element, not a slice")
                .help(format!("`{name}[k]` is element k, `{name}` is element i")));
        }
        self.want("]")
    }

    /// A name, or a field of a step.
    fn plain(&mut self, name: &'a str, t: &Token<'a>) -> Result<NodeWithDepth, ParseError> {
        refuse_function(name, t)?;
        let own = |start, end, kind| NameUse { name: name.to_owned(), start, end, kind };
        if self.eat(".") {
            let field = self.next();
            let TokenKind::Name(f) = field.tok else {
                return Err(ParseError::new(field.start, field.end, format!("expected a field of `{name}`")));
            };
            if !super::FIELDS.contains(&f)
                && let (Some(cure), TokenKind::Sign("(")) = (super::foreign_functions::cure(f), self.peek().tok)
            {
                let message = match super::foreign_functions::over_elements(f) {
                    Some(message) => message,
                    None => format!("there is no `{name}.{f}`"),
                };
                return Err(ParseError::new(t.start, field.end, message).help(cure));
            }
            if !super::FIELDS.contains(&f) {
                let help = format!("a step has {}", super::FIELDS.map(|f| format!("`{name}.{f}`")).join(", "));
                return Err(ParseError::new(field.start, field.end, format!("there is no field `{f}`")).help(help));
            }
            self.names.push(own(t.start, t.end, UseKind::Step));
            return Ok((ExprNode::Field(name.to_owned(), f.to_owned()), 1));
        }
        self.names.push(own(t.start, t.end, UseKind::Plain));
        Ok((ExprNode::Name(name.to_owned()), 1))
    }

    fn call(&mut self, name: &str, t: &Token<'a>, depth: usize) -> Result<NodeWithDepth, ParseError> {
        let Some(func) = Func::parse(name) else { return Err(no_function(name, t)) };
        let first = self.names.len();
        let mut args = Vec::new();
        let mut deepest = 0;
        let mut more = !self.eat(")");
        while more {
            let argument = self.comparison(depth);
            more = self.add_argument(argument, &mut args, &mut deepest)?;
        }
        self.check_arguments(func, (name, t), &args)?;
        if func == Func::Same {
            self.names[first..].iter_mut().for_each(|n| n.kind = UseKind::Same);
        }
        Ok((ExprNode::Call(func, args), self.deeper(deepest)?))
    }

    /// Takes an argument, and says whether another one follows.
    fn add_argument(
        &mut self,
        argument: Result<NodeWithDepth, ParseError>,
        args: &mut Vec<ExprNode>,
        deepest: &mut usize,
    ) -> Result<bool, ParseError> {
        let (arg, depth) = argument?;
        *deepest = (*deepest).max(depth);
        args.push(arg);
        if self.eat(",") {
            return Ok(true);
        }
        self.want(")").map(|()| false)
    }

    fn check_arguments(&self, func: Func, (name, t): (&str, &Token<'a>), args: &[ExprNode]) -> Result<(), ParseError> {
        let (wanted, right) = match func {
            Func::Min | Func::Max => ("at least two arguments", args.len() >= 2),
            Func::If => ("three arguments: a condition, a value, another value", args.len() == 3),
            Func::Close => ("three arguments: a value, another value, the largest difference", args.len() == 3),
            Func::Same => ("two buffers", args.len() == 2 && args.iter().all(|a| matches!(a, ExprNode::Name(_)))),
            _ => ("one argument", args.len() == 1),
        };
        if right {
            return Ok(());
        }
        let end = self.at.checked_sub(1).and_then(|k| self.tokens.get(k)).map_or(t.end, |t| t.end);
        Err(ParseError::new(t.start, end, format!("`{name}` takes {wanted}")))
    }

    fn join(&self, op: BinOp, left: NodeWithDepth, right: NodeWithDepth) -> Result<NodeWithDepth, ParseError> {
        let depth = self.deeper(left.1.max(right.1))?;
        Ok((ExprNode::Binary(op, Box::new(left.0), Box::new(right.0)), depth))
    }
}

fn refuse_function(name: &str, t: &Token<'_>) -> Result<(), ParseError> {
    if Func::parse(name).is_none() {
        return Ok(());
    }
    Err(ParseError::new(t.start, t.end, format!("`{name}` is a function: write `{name}(...)`")))
}

fn no_function(name: &str, t: &Token<'_>) -> ParseError {
    let message = super::foreign_functions::over_elements(name);
    let message = message.unwrap_or_else(|| format!("there is no function `{name}`"));
    let e = ParseError::new(t.start, t.end, message);
    if let Some(cure) = super::foreign_functions::cure(name) {
        return e.help(cure);
    }
    let words = Func::ALL.iter().map(|f| f.name());
    match crate::suggest::nearest(name, words.clone()) {
        Some(near) => e.help(format!("did you mean `{near}`?")),
        None => e.help(format!("the functions are {}", words.collect::<Vec<_>>().join(", "))),
    }
}
