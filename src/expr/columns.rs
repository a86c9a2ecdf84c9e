//! Values of one expression for many elements at once: names looked up and constants folded beforehand, then a block of
//! elements per node. What it gives is what [`Expr::eval`] gives for each element; where it cannot be sure of that (whole
//! numbers beyond 64 bits, an error, types that change within a block) it gives nothing and elements are evaluated one by one.
use super::eval::{binary, call, fit, remainder};
use super::period::{self, EXACT};
use super::{BinOp, EvalError, Expr, Func, Mode, Node, Scope, Value};

/// Most elements of a block.
pub const BLOCK: usize = 512;

/// An expression of which only `i` is open.
#[derive(Clone, Debug)]
pub struct Columns {
    code: Code,
    mode: Mode,
}

/// The values of a block of elements.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// All whole.
    Whole(Vec<i64>),
    /// None whole.
    Float(Vec<f64>),
}

/// A node with names looked up.
#[derive(Clone, Debug)]
pub(super) enum Code {
    Const(Value),
    /// `i`.
    Element,
    Neg(Box<Code>),
    Binary(BinOp, Box<Code>, Box<Code>),
    If(Box<Code>, Box<Code>, Box<Code>),
    Call(Func, Vec<Code>),
}

impl Columns {
    /// `None` if something other than `i` has no value in the scope, or the expression reads buffers or steps.
    pub fn new<S: Scope + ?Sized>(expr: &Expr, scope: &S, mode: Mode) -> Option<Self> {
        Some(Self { code: compile(&expr.node, scope, mode)?, mode })
    }

    /// After how many elements, at most, the values of the first `count` elements repeat; `None` if that is not known.
    pub fn period(&self, count: u64) -> Option<u64> {
        period::period(&self.code, i128::from(count))
    }

    /// The values of the elements from `from` on, at most [`BLOCK`] of them.
    pub fn block(&self, from: u64, len: usize) -> Option<Column> {
        let len = len.min(BLOCK);
        let last = from.checked_add(len as u64)?;
        // Whole indices must fit both i64 and f64's 53 bits.
        if last >= EXACT as u64 {
            return None;
        }
        Some(match self.run(&self.code, from as i64, len)? {
            Col::Whole(Side::One(v)) => Column::Whole(vec![v; len]),
            Col::Float(Side::One(v)) => Column::Float(vec![v; len]),
            Col::Whole(Side::Many(v)) => Column::Whole(v),
            Col::Float(Side::Many(v)) => Column::Float(v),
        })
    }

    fn run(&self, code: &Code, from: i64, len: usize) -> Option<Col> {
        match code {
            Code::Const(Value::Int(v)) => Some(Col::Whole(Side::One(i64::try_from(*v).ok()?))),
            Code::Const(Value::Float(v)) => Some(Col::Float(Side::One(*v))),
            Code::Element => {
                let range = from..from + len as i64;
                Some(match self.mode {
                    Mode::Whole => Col::Whole(Side::Many(range.collect())),
                    Mode::Float => Col::Float(Side::Many(range.map(|i| i as f64).collect())),
                })
            }
            Code::Neg(inner) => match self.run(inner, from, len)? {
                Col::Whole(v) => Some(Col::Whole(v.map(i64::checked_neg)?)),
                Col::Float(v) => Some(Col::Float(v.map(|v| Some(-v))?)),
            },
            Code::Binary(op, a, b) => {
                let (a, b) = (self.run(a, from, len)?, self.run(b, from, len)?);
                match (&a, &b) {
                    (Col::Float(x), Col::Float(y)) => self.floats(*op, x, y, len),
                    (Col::Whole(x), Col::Whole(y)) => wholes(*op, x, y, len),
                    _ => None,
                }
                .or_else(|| self.lift(len, |k| binary(*op, a.get(k), b.get(k))))
            }
            Code::If(condition, yes, no) => {
                let condition = self.run(condition, from, len)?;
                match condition.all() {
                    Some(true) => return self.run(yes, from, len),
                    Some(false) => return self.run(no, from, len),
                    None => {}
                }
                match (self.run(yes, from, len)?, self.run(no, from, len)?) {
                    (Col::Whole(a), Col::Whole(b)) => Some(Col::Whole(choose(&condition, &a, &b, len))),
                    (Col::Float(a), Col::Float(b)) => Some(Col::Float(choose(&condition, &a, &b, len))),
                    _ => None,
                }
            }
            Code::Call(func, args) => {
                let args = args.iter().map(|a| self.run(a, from, len)).collect::<Option<Vec<_>>>()?;
                let mut values = vec![Value::Int(0); args.len()];
                self.lift(len, |k| {
                    values.iter_mut().zip(&args).for_each(|(value, arg)| *value = arg.get(k));
                    call(*func, &values, self.mode)
                })
            }
        }
    }

    fn floats(&self, op: BinOp, x: &Side<f64>, y: &Side<f64>, len: usize) -> Option<Col> {
        let float = |f: fn(f64, f64) -> f64| Some(Col::Float(zip(x, y, len, f)));
        // In floating point a comparison is 1.0 or 0.0, otherwise a whole number.
        let truth = |f: fn(&f64, &f64) -> bool| {
            Some(match self.mode {
                Mode::Float => Col::Float(zip(x, y, len, |a, b| f64::from(f(&a, &b)))),
                Mode::Whole => Col::Whole(zip(x, y, len, |a, b| f(&a, &b).into())),
            })
        };
        match op {
            BinOp::Add => float(|a, b| a + b),
            BinOp::Sub => float(|a, b| a - b),
            BinOp::Mul => float(|a, b| a * b),
            BinOp::Div => float(|a, b| a / b),
            BinOp::Rem => float(remainder),
            BinOp::Lt => truth(f64::lt),
            BinOp::Le => truth(f64::le),
            BinOp::Gt => truth(f64::gt),
            BinOp::Ge => truth(f64::ge),
            BinOp::Eq => truth(f64::eq),
            BinOp::Ne => truth(f64::ne),
            BinOp::Pow => None,
        }
    }

    /// Element by element, through the functions that evaluate one.
    fn lift(&self, len: usize, mut f: impl FnMut(usize) -> Result<Value, EvalError>) -> Option<Col> {
        let mut value = |k| f(k).ok().map(|v| fit(v, self.mode));
        Some(match value(0)? {
            Value::Int(_) => Col::Whole(Side::Many(
                (0..len)
                    .map(|k| match value(k)? {
                        Value::Int(v) => i64::try_from(v).ok(),
                        Value::Float(_) => None,
                    })
                    .collect::<Option<_>>()?,
            )),
            Value::Float(_) => Col::Float(Side::Many(
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

/// The same for all elements, or one for each.
enum Side<T> {
    One(T),
    Many(Vec<T>),
}

enum Col {
    Whole(Side<i64>),
    Float(Side<f64>),
}

impl<T: Copy> Side<T> {
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

    /// Whether `f` holds for all elements or for none.
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

impl Col {
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

fn zip<T: Copy, R>(x: &Side<T>, y: &Side<T>, len: usize, f: impl Fn(T, T) -> R) -> Side<R> {
    Side::Many(match (x, y) {
        (Side::One(a), Side::One(b)) => return Side::One(f(*a, *b)),
        (Side::Many(a), Side::One(b)) => a.iter().take(len).map(|a| f(*a, *b)).collect(),
        (Side::One(a), Side::Many(b)) => b.iter().take(len).map(|b| f(*a, *b)).collect(),
        (Side::Many(a), Side::Many(b)) => a.iter().zip(b).take(len).map(|(a, b)| f(*a, *b)).collect(),
    })
}

fn choose<T: Copy>(condition: &Col, yes: &Side<T>, no: &Side<T>, len: usize) -> Side<T> {
    Side::Many((0..len).map(|k| if condition.get(k).truth() { yes.get(k) } else { no.get(k) }).collect())
}

/// Operations that mostly stay within 64 bits; `None` for others and where they do not.
fn wholes(op: BinOp, x: &Side<i64>, y: &Side<i64>, len: usize) -> Option<Col> {
    let checked = |f: fn(i64, i64) -> Option<i64>| {
        let out = zip(x, y, len, f);
        Some(Col::Whole(match out {
            Side::One(v) => Side::One(v?),
            Side::Many(v) => Side::Many(v.into_iter().collect::<Option<_>>()?),
        }))
    };
    let truth = |f: fn(&i64, &i64) -> bool| Some(Col::Whole(zip(x, y, len, |a, b| f(&a, &b).into())));
    match op {
        BinOp::Add => checked(i64::checked_add),
        BinOp::Sub => checked(i64::checked_sub),
        BinOp::Mul => checked(i64::checked_mul),
        BinOp::Div => checked(i64::checked_div),
        BinOp::Rem => checked(|a, b| {
            let r = a.checked_rem(b)?;
            Some(if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
        }),
        BinOp::Lt => truth(i64::lt),
        BinOp::Le => truth(i64::le),
        BinOp::Gt => truth(i64::gt),
        BinOp::Ge => truth(i64::ge),
        BinOp::Eq => truth(i64::eq),
        BinOp::Ne => truth(i64::ne),
        BinOp::Pow => None,
    }
}

fn compile<S: Scope + ?Sized>(node: &Node, scope: &S, mode: Mode) -> Option<Code> {
    let constant = |value: Result<Value, EvalError>| Some(Code::Const(fit(value.ok()?, mode)));
    match node {
        Node::Int(v) => constant(Ok(Value::Int(*v))),
        Node::Float(v) => constant(Ok(Value::Float(*v))),
        Node::Name(name) if name == "i" => Some(Code::Element),
        Node::Name(name) => constant(scope.name(name)),
        Node::Index(..) | Node::Field(..) | Node::Call(Func::Same, _) => None,
        Node::Neg(inner) => Some(match compile(inner, scope, mode)? {
            Code::Const(Value::Int(v)) => Code::Const(Value::Int(v.checked_neg()?)),
            Code::Const(Value::Float(v)) => Code::Const(Value::Float(-v)),
            other => Code::Neg(Box::new(other)),
        }),
        Node::Binary(op, a, b) => match (compile(a, scope, mode)?, compile(b, scope, mode)?) {
            (Code::Const(a), Code::Const(b)) => constant(binary(*op, a, b)),
            (a, b) => Some(Code::Binary(*op, Box::new(a), Box::new(b))),
        },
        Node::Call(Func::If, args) => {
            let [condition, yes, no] = args.as_slice() else { return None };
            match compile(condition, scope, mode)? {
                Code::Const(value) => compile(if value.truth() { yes } else { no }, scope, mode),
                condition => Some(Code::If(
                    Box::new(condition),
                    Box::new(compile(yes, scope, mode)?),
                    Box::new(compile(no, scope, mode)?),
                )),
            }
        }
        Node::Call(func, args) => {
            let args = args.iter().map(|a| compile(a, scope, mode)).collect::<Option<Vec<_>>>()?;
            let values = args.iter().map(|a| if let Code::Const(v) = a { Some(*v) } else { None });
            match values.collect::<Option<Vec<_>>>() {
                Some(values) => constant(call(*func, &values, mode)),
                None => Some(Code::Call(*func, args)),
            }
        }
    }
}
