//! Evaluates an expression for blocks of elements: names are looked up and constants folded beforehand, then each node is
//! evaluated for a whole block. The values are those of [`Expr::eval`]. Where that is not certain (whole numbers beyond 64 bits,
//! an error, types that change within a block) the block has no values, and elements are evaluated one by one.
use super::eval::{binary, call, convert_to_mode, remainder};
use super::period::{self, EXACT};
use super::{BinOp, EvalError, Expr, ExprNode, Func, Mode, Scope, Value};

/// Largest number of elements of a block.
pub const BLOCK: usize = 512;

/// An expression in which only `i` has no value yet.
#[derive(Clone, Debug)]
pub struct BlockEvaluator {
    code: CompiledNode,
    mode: Mode,
}

/// The values of a block of elements.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockValues {
    /// The elements as whole numbers.
    Whole(Vec<i64>),
    /// Numbers in floating point.
    Float(Vec<f64>),
}

/// A node whose names have been looked up.
#[derive(Clone, Debug)]
pub(super) enum CompiledNode {
    Const(Value),
    /// The element's index, `i`.
    Element,
    /// Element `i` of the buffer with this number.
    Input(usize),
    Neg(Box<CompiledNode>),
    Binary(BinOp, Box<CompiledNode>, Box<CompiledNode>),
    If(Box<CompiledNode>, Box<CompiledNode>, Box<CompiledNode>),
    Call(Func, Vec<CompiledNode>),
}

impl BlockEvaluator {
    /// `None` if a name other than `i` has no value in the scope, or the expression reads buffers or steps.
    pub fn new<S: Scope + ?Sized>(expr: &Expr, scope: &S, mode: Mode) -> Option<Self> {
        Some(Self { code: compile(&expr.node, scope, mode)?, mode })
    }

    /// The number of elements after which the values of the first `count` elements repeat; `None` if it is not known.
    pub fn period(&self, count: u64) -> Option<u64> {
        period::period(&self.code, i128::from(count))
    }

    /// The values of the elements from `from` on, at most [`BLOCK`] of them.
    pub fn block(&self, from: u64, len: usize) -> Option<BlockValues> {
        self.block_of(from, len, &[])
    }

    /// Like [`BlockEvaluator::block`], for an expression that reads buffers: `inputs` has their elements of the block by number.
    pub(super) fn block_of(&self, from: u64, len: usize, inputs: &[Option<BlockValues>]) -> Option<BlockValues> {
        let len = len.min(BLOCK);
        let last = from.checked_add(len as u64)?;
        // Whole indices must fit both i64 and f64's 53 bits.
        if last >= EXACT as u64 {
            return None;
        }
        let block = Block { mode: self.mode, from: from as i64, len, inputs };
        Some(match block.run(&self.code)? {
            NodeValues::Whole(OneOrMany::One(v)) => BlockValues::Whole(vec![v; len]),
            NodeValues::Float(OneOrMany::One(v)) => BlockValues::Float(vec![v; len]),
            NodeValues::Whole(OneOrMany::Many(v)) => BlockValues::Whole(v),
            NodeValues::Float(OneOrMany::Many(v)) => BlockValues::Float(v),
        })
    }

    /// Calls `f` for every node.
    pub(super) fn visit(&self, f: &mut impl FnMut(&CompiledNode)) {
        self.code.visit(f);
    }
}

impl CompiledNode {
    fn visit(&self, f: &mut impl FnMut(&Self)) {
        f(self);
        match self {
            Self::Const(_) | Self::Element | Self::Input(_) => {}
            Self::Neg(inner) => inner.visit(f),
            Self::Binary(_, a, b) => [a, b].into_iter().for_each(|node| node.visit(f)),
            Self::If(condition, a, b) => [condition, a, b].into_iter().for_each(|node| node.visit(f)),
            Self::Call(_, args) => args.iter().for_each(|node| node.visit(f)),
        }
    }

    fn reads_buffers(&self) -> bool {
        let mut reads = false;
        self.visit(&mut |node| reads |= matches!(node, Self::Input(_)));
        reads
    }
}

/// A block that is evaluated.
struct Block<'a> {
    mode: Mode,
    from: i64,
    len: usize,
    inputs: &'a [Option<BlockValues>],
}

impl Block<'_> {
    fn run(&self, code: &CompiledNode) -> Option<NodeValues> {
        let Self { from, len, .. } = *self;
        match code {
            CompiledNode::Input(number) => Some(match self.inputs.get(*number)?.as_ref()? {
                BlockValues::Whole(v) => NodeValues::Whole(OneOrMany::Many(v.clone())),
                BlockValues::Float(v) => NodeValues::Float(OneOrMany::Many(v.clone())),
            }),
            CompiledNode::Const(Value::Int(v)) => Some(NodeValues::Whole(OneOrMany::One(i64::try_from(*v).ok()?))),
            CompiledNode::Const(Value::Float(v)) => Some(NodeValues::Float(OneOrMany::One(*v))),
            CompiledNode::Element => {
                let range = from..from + len as i64;
                Some(match self.mode {
                    Mode::Whole => NodeValues::Whole(OneOrMany::Many(range.collect())),
                    Mode::Float => NodeValues::Float(OneOrMany::Many(range.map(|i| i as f64).collect())),
                })
            }
            CompiledNode::Neg(inner) => match self.run(inner)? {
                NodeValues::Whole(v) => Some(NodeValues::Whole(v.map(i64::checked_neg)?)),
                NodeValues::Float(v) => Some(NodeValues::Float(v.map(|v| Some(-v))?)),
            },
            CompiledNode::Binary(op, a, b) => {
                let (a, b) = (self.run(a)?, self.run(b)?);
                match (&a, &b) {
                    (NodeValues::Float(x), NodeValues::Float(y)) => self.floats(*op, x, y, len),
                    (NodeValues::Whole(x), NodeValues::Whole(y)) => whole_operation(*op, x, y, len),
                    _ => None,
                }
                .or_else(|| self.lift(len, |k| binary(*op, a.get(k), b.get(k))))
            }
            CompiledNode::If(condition, yes, no) => {
                let condition = self.run(condition)?;
                match condition.all() {
                    Some(true) => return self.run(yes),
                    Some(false) => return self.run(no),
                    None => {}
                }
                match (self.run(yes)?, self.run(no)?) {
                    (NodeValues::Whole(a), NodeValues::Whole(b)) => {
                        Some(NodeValues::Whole(choose(&condition, &a, &b, len)))
                    }
                    (NodeValues::Float(a), NodeValues::Float(b)) => {
                        Some(NodeValues::Float(choose(&condition, &a, &b, len)))
                    }
                    _ => None,
                }
            }
            CompiledNode::Call(func, args) => {
                let args = args.iter().map(|a| self.run(a)).collect::<Option<Vec<_>>>()?;
                let mut values = vec![Value::Int(0); args.len()];
                self.lift(len, |k| {
                    values.iter_mut().zip(&args).for_each(|(value, arg)| *value = arg.get(k));
                    call(*func, &values, self.mode)
                })
            }
        }
    }

    // Each operation is a type, not a pointer, so that it becomes part of its loop.
    fn floats(&self, op: BinOp, x: &OneOrMany<f64>, y: &OneOrMany<f64>, len: usize) -> Option<NodeValues> {
        let float = |values| Some(NodeValues::Float(values));
        // In floating point a comparison is 1.0 or 0.0, otherwise a whole number.
        let truth = |holds: OneOrMany<bool>| {
            Some(match self.mode {
                Mode::Float => NodeValues::Float(holds.convert(f64::from)),
                Mode::Whole => NodeValues::Whole(holds.convert(i64::from)),
            })
        };
        match op {
            BinOp::Add => float(zip(x, y, len, |a, b| a + b)),
            BinOp::Sub => float(zip(x, y, len, |a, b| a - b)),
            BinOp::Mul => float(zip(x, y, len, |a, b| a * b)),
            BinOp::Div => float(zip(x, y, len, |a, b| a / b)),
            BinOp::Rem => float(remainders(x, y, len)),
            _ => truth(comparison(op, x, y, len)?),
        }
    }

    /// Evaluates element by element.
    fn lift(&self, len: usize, mut f: impl FnMut(usize) -> Result<Value, EvalError>) -> Option<NodeValues> {
        let mut value = |k| f(k).ok().map(|v| convert_to_mode(v, self.mode));
        Some(match value(0)? {
            Value::Int(_) => NodeValues::Whole(OneOrMany::Many(
                (0..len)
                    .map(|k| match value(k)? {
                        Value::Int(v) => i64::try_from(v).ok(),
                        Value::Float(_) => None,
                    })
                    .collect::<Option<_>>()?,
            )),
            Value::Float(_) => NodeValues::Float(OneOrMany::Many(
                (0..len)
                    .map(|k| match value(k)? {
                        Value::Float(v) => Some(v),
                        Value::Int(_) => None,
                    })
                    .collect::<Option<_>>()?,
            )),
        })
    }
}

/// One value for all elements, or one for each.
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

enum NodeValues {
    Whole(OneOrMany<i64>),
    Float(OneOrMany<f64>),
}

impl<T: Copy> OneOrMany<T> {
    fn get(&self, k: usize) -> T {
        match self {
            Self::One(v) => *v,
            Self::Many(v) => v[k],
        }
    }

    fn map(self, f: impl Fn(T) -> Option<T>) -> Option<Self> {
        Some(match self {
            Self::One(v) => Self::One(f(v)?),
            Self::Many(v) => Self::Many(v.into_iter().map(f).collect::<Option<_>>()?),
        })
    }

    fn convert<R>(self, f: impl Fn(T) -> R) -> OneOrMany<R> {
        match self {
            Self::One(v) => OneOrMany::One(f(v)),
            Self::Many(v) => OneOrMany::Many(v.into_iter().map(f).collect()),
        }
    }

    /// True if `f` holds for all elements, false if for none; `None` otherwise.
    fn all(&self, f: impl Fn(T) -> bool) -> Option<bool> {
        match self {
            Self::One(v) => Some(f(*v)),
            Self::Many(v) => {
                let first = f(*v.first()?);
                v.iter().all(|v| f(*v) == first).then_some(first)
            }
        }
    }
}

impl NodeValues {
    fn get(&self, k: usize) -> Value {
        match self {
            Self::Whole(v) => Value::Int(v.get(k).into()),
            Self::Float(v) => Value::Float(v.get(k)),
        }
    }

    fn all(&self) -> Option<bool> {
        match self {
            Self::Whole(v) => v.all(|v| v != 0),
            Self::Float(v) => v.all(|v| v != 0.0),
        }
    }
}

fn zip<T: Copy, R>(x: &OneOrMany<T>, y: &OneOrMany<T>, len: usize, f: impl Fn(T, T) -> R) -> OneOrMany<R> {
    OneOrMany::Many(match (x, y) {
        (OneOrMany::One(a), OneOrMany::One(b)) => return OneOrMany::One(f(*a, *b)),
        (OneOrMany::Many(a), OneOrMany::One(b)) => a.iter().take(len).map(|a| f(*a, *b)).collect(),
        (OneOrMany::One(a), OneOrMany::Many(b)) => b.iter().take(len).map(|b| f(*a, *b)).collect(),
        (OneOrMany::Many(a), OneOrMany::Many(b)) => a.iter().zip(b).take(len).map(|(a, b)| f(*a, *b)).collect(),
    })
}

/// For each element, true if the comparison holds; `None` for other operations.
fn comparison<T: Copy + PartialOrd>(
    op: BinOp,
    x: &OneOrMany<T>,
    y: &OneOrMany<T>,
    len: usize,
) -> Option<OneOrMany<bool>> {
    Some(match op {
        BinOp::Lt => zip(x, y, len, |a, b| a < b),
        BinOp::Le => zip(x, y, len, |a, b| a <= b),
        BinOp::Gt => zip(x, y, len, |a, b| a > b),
        BinOp::Ge => zip(x, y, len, |a, b| a >= b),
        BinOp::Eq => zip(x, y, len, |a, b| a == b),
        BinOp::Ne => zip(x, y, len, |a, b| a != b),
        BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Rem | BinOp::Pow => return None,
    })
}

/// The remainders; of small whole numbers by a constant without a division of integers for each.
fn remainders(x: &OneOrMany<f64>, y: &OneOrMany<f64>, len: usize) -> OneOrMany<f64> {
    // Below this, products and differences of whole numbers and the nearest whole number to a quotient are exact.
    const LIMIT: f64 = (1u64 << 50) as f64;
    // Adding and subtracting it rounds to a whole number.
    const ROUNDS: f64 = (3u64 << 51) as f64;
    let is_small = |v: f64| (v.abs() < LIMIT) & ((v + ROUNDS) - ROUNDS == v);
    if let (OneOrMany::Many(x), OneOrMany::One(y)) = (x, y)
        && *y >= 1.0
        && is_small(*y)
        && x.iter().take(len).fold(true, |all, x| all & is_small(*x))
    {
        let remainder = |x: &f64| {
            let nearest = (x / y + ROUNDS) - ROUNDS;
            let rest = x - nearest * y;
            // Plus zero, so that no zero is negative.
            (if rest < 0.0 { rest + y } else { rest }) + 0.0
        };
        return OneOrMany::Many(x.iter().take(len).map(remainder).collect());
    }
    zip(x, y, len, remainder)
}

fn choose<T: Copy>(condition: &NodeValues, yes: &OneOrMany<T>, no: &OneOrMany<T>, len: usize) -> OneOrMany<T> {
    OneOrMany::Many((0..len).map(|k| if condition.get(k).truth() { yes.get(k) } else { no.get(k) }).collect())
}

/// An operation on whole numbers of 64 bits; `None` for other operations, and if a result does not fit.
fn whole_operation(op: BinOp, x: &OneOrMany<i64>, y: &OneOrMany<i64>, len: usize) -> Option<NodeValues> {
    let checked = |out| {
        Some(NodeValues::Whole(match out {
            OneOrMany::One(v) => OneOrMany::One(v?),
            OneOrMany::Many(v) => OneOrMany::Many(v.into_iter().collect::<Option<_>>()?),
        }))
    };
    match op {
        BinOp::Add => checked(zip(x, y, len, i64::checked_add)),
        BinOp::Sub => checked(zip(x, y, len, i64::checked_sub)),
        BinOp::Mul => checked(zip(x, y, len, i64::checked_mul)),
        BinOp::Div => checked(zip(x, y, len, i64::checked_div)),
        BinOp::Rem => checked(zip(x, y, len, |a: i64, b: i64| {
            let r = a.checked_rem(b)?;
            Some(if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
        })),
        _ => Some(NodeValues::Whole(comparison(op, x, y, len)?.convert(i64::from))),
    }
}

fn compile<S: Scope + ?Sized>(node: &ExprNode, scope: &S, mode: Mode) -> Option<CompiledNode> {
    let constant = |value: Result<Value, EvalError>| Some(CompiledNode::Const(convert_to_mode(value.ok()?, mode)));
    match node {
        ExprNode::Int(v) => constant(Ok(Value::Int(*v))),
        ExprNode::Float(v) => constant(Ok(Value::Float(*v))),
        ExprNode::Name(name) if name == "i" => Some(CompiledNode::Element),
        ExprNode::Name(name) => match scope.buffer(name) {
            Some(number) => Some(CompiledNode::Input(number)),
            None => constant(scope.name(name)),
        },
        ExprNode::Index(..) | ExprNode::Field(..) | ExprNode::Call(Func::Same, _) => None,
        ExprNode::Neg(inner) => Some(match compile(inner, scope, mode)? {
            CompiledNode::Const(Value::Int(v)) => CompiledNode::Const(Value::Int(v.checked_neg()?)),
            CompiledNode::Const(Value::Float(v)) => CompiledNode::Const(Value::Float(-v)),
            other => CompiledNode::Neg(Box::new(other)),
        }),
        ExprNode::Binary(op, a, b) => match (compile(a, scope, mode)?, compile(b, scope, mode)?) {
            (CompiledNode::Const(a), CompiledNode::Const(b)) => constant(binary(*op, a, b)),
            (a, b) => Some(CompiledNode::Binary(*op, Box::new(a), Box::new(b))),
        },
        ExprNode::Call(Func::If, args) => {
            let [condition, yes, no] = args.as_slice() else { return None };
            match compile(condition, scope, mode)? {
                CompiledNode::Const(value) => compile(if value.truth() { yes } else { no }, scope, mode),
                condition => {
                    let [yes, no] = [compile(yes, scope, mode)?, compile(no, scope, mode)?];
                    // Of a buffer only those elements are read whose branch is taken.
                    if yes.reads_buffers() || no.reads_buffers() {
                        return None;
                    }
                    Some(CompiledNode::If(Box::new(condition), Box::new(yes), Box::new(no)))
                }
            }
        }
        ExprNode::Call(func, args) => {
            let args = args.iter().map(|a| compile(a, scope, mode)).collect::<Option<Vec<_>>>()?;
            let values = args.iter().map(|a| if let CompiledNode::Const(v) = a { Some(*v) } else { None });
            match values.collect::<Option<Vec<_>>>() {
                Some(values) => constant(call(*func, &values, mode)),
                None => Some(CompiledNode::Call(*func, args)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_of_many_are_those_of_each() {
        let edge = (1u64 << 50) as f64;
        let values = [0.0, -0.0, 1.0, -1.0, 0.5, 250.0, 251.0, -251.0, edge - 1.0, 1.0 - edge, edge, 1e19, f64::NAN];
        for y in [1.0, 2.0, 3.0, 251.0, 65536.0, 12_345_678_901.0, edge - 1.0, edge, -7.0, 0.5, 0.0, f64::INFINITY] {
            let mut lists: Vec<Vec<f64>> = values.iter().map(|x| vec![*x]).collect();
            let near = (0..2000).map(|k| f64::from(k) * y - f64::from(k % 3));
            lists.push(near.filter(|x| x.abs() < edge).map(f64::floor).collect());
            for x in lists {
                let right: Vec<u64> = x.iter().map(|x| remainder(*x, y).to_bits()).collect();
                let len = x.len();
                let OneOrMany::Many(got) = remainders(&OneOrMany::Many(x.clone()), &OneOrMany::One(y), len) else {
                    panic!("one value for many")
                };
                assert_eq!(got.iter().map(|r| r.to_bits()).collect::<Vec<_>>(), right, "{x:?} % {y}");
            }
        }
    }
}
