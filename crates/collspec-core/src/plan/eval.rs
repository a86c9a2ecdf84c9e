//! Evaluates numbers of the file for one rank.
use crate::expr::{EvalError, ExprNode, Mode, Scope, Value};
use crate::scenario::{Case, Diagnostic, ElementValue, Expr, NumberByRank, NumberByRankKind, Ranks, Span};

/// The names an expression may use outside `map` and `assert`.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Rank in the communicator (or world).
    pub rank: usize,
    /// Ranks of the communicator (or world).
    pub n: usize,
    pub world_rank: usize,
    /// Ranks of the world.
    pub world_size: usize,
    /// The round of `times`.
    pub t: Option<u64>,
    /// The other rank, in `counts`.
    pub peer: Option<usize>,
    /// The element's index, in data.
    pub i: Option<u64>,
    /// The values of the case's axes.
    pub axes: &'a [(String, Value)],
}

impl<'a> Names<'a> {
    /// The names that are valid for a rank of the world.
    pub fn world(case: &'a Case, rank: usize) -> Self {
        let n = case.world_size.value;
        Self { rank, n, world_rank: rank, world_size: n, t: None, peer: None, i: None, axes: &case.axes }
    }

    /// All names as a list, for a worker.
    pub fn list(&self) -> Vec<(String, Value)> {
        let whole = |name: &str, v: usize| (name.to_owned(), Value::Int(v as i128));
        let mut list = vec![
            whole("rank", self.rank),
            whole("n", self.n),
            whole("world_rank", self.world_rank),
            whole("world_size", self.world_size),
        ];
        list.push(("t".to_owned(), Value::Int(self.t.unwrap_or(0).into())));
        list.extend(self.axes.iter().cloned());
        list
    }
}

impl Scope for Names<'_> {
    fn name(&self, name: &str) -> Result<Value, EvalError> {
        let whole = |v: usize| Ok(Value::Int(v as i128));
        match (name, self.t, self.peer, self.i) {
            ("rank", ..) => whole(self.rank),
            ("n", ..) => whole(self.n),
            ("world_rank", ..) => whole(self.world_rank),
            ("world_size", ..) => whole(self.world_size),
            ("t", Some(t), ..) => Ok(Value::Int(t.into())),
            ("t", None, ..) => Ok(Value::Int(0)),
            ("peer", _, Some(peer), _) => whole(peer),
            ("i", _, _, Some(i)) => Ok(Value::Int(i.into())),
            _ => self
                .axes
                .iter()
                .find(|(axis, _)| axis == name)
                .map(|(_, value)| *value)
                .ok_or_else(|| EvalError(format!("`{name}` has no value here"))),
        }
    }
}

/// The number a per-rank value has for one rank.
pub trait Ranked {
    /// The value, which may be fractional.
    ///
    /// # Errors
    ///
    /// A list has the wrong length, or an expression does not have a value.
    fn value(&self, names: &Names, mode: Mode) -> Result<Value, Diagnostic>;

    /// The value as a whole number.
    fn whole(&self, names: &Names) -> Result<i128, Diagnostic>;

    /// The value as a truth value.
    fn truth(&self, names: &Names) -> Result<bool, Diagnostic>;
}

impl Ranked for NumberByRank {
    fn value(&self, names: &Names, mode: Mode) -> Result<Value, Diagnostic> {
        let own = own(self, names)?;
        match &own.kind {
            NumberByRankKind::Int(v) => Ok(Value::Int(*v)),
            NumberByRankKind::Float(v) => Ok(Value::Float(*v)),
            NumberByRankKind::Expr(expr) => evaluate(expr, own.span, names, mode),
            NumberByRankKind::List(_) => Err(Diagnostic::new(own.span, "expected a number, not a list")),
        }
    }

    fn whole(&self, names: &Names) -> Result<i128, Diagnostic> {
        converted(self, names, Value::to_int)
    }

    fn truth(&self, names: &Names) -> Result<bool, Diagnostic> {
        converted(self, names, Value::to_bool)
    }
}

/// The rank's entry if this is a list, otherwise the number itself.
pub fn own<'a>(num: &'a NumberByRank, names: &Names) -> Result<&'a NumberByRank, Diagnostic> {
    let NumberByRankKind::List(list) = &num.kind else { return Ok(num) };
    if list.len() != names.n {
        let text = format!("this list has {}, but there are {}", entries(list.len()), ranks(names.n));
        return Err(
            Diagnostic::new(num.span, text).help("write one entry for each rank of the communicator, in rank order")
        );
    }
    list.get(names.rank).ok_or_else(|| Diagnostic::new(num.span, format!("no entry for rank {}", names.rank)))
}

fn converted<T>(num: &NumberByRank, names: &Names, to: fn(Value) -> Result<T, EvalError>) -> Result<T, Diagnostic> {
    let value = num.value(names, Mode::Whole)?;
    to(value).map_err(|e| {
        let own = own(num, names).unwrap_or(num);
        match &own.kind {
            NumberByRankKind::Expr(expr) => no_value(expr, own.span, names, &e),
            _ => Diagnostic::new(own.span, e.to_string()),
        }
    })
}

/// An expression's value, with its place in the error.
pub fn evaluate(expr: &Expr, span: Span, names: &Names, mode: Mode) -> Result<Value, Diagnostic> {
    expr.eval(names, mode).map_err(|e| no_value(expr, span, names, &e))
}

/// The whole-number value of an expression, with its place in the error.
pub fn evaluate_whole(expr: &Expr, span: Span, names: &Names) -> Result<i128, Diagnostic> {
    expr.eval_int(names).map_err(|e| no_value(expr, span, names, &e))
}

/// The error for an expression that does not have a value on a rank.
pub fn no_value(expr: &Expr, span: Span, names: &Names, error: &EvalError) -> Diagnostic {
    Diagnostic::new(span, format!("`{}` has no value on rank {}: {error}", expr.text, names.rank))
}

/// The literal number that an expression consists of: a number alone in quotes, or an axis alone. The element's type must be
/// able to hold it.
pub fn written(expr: &Expr, axes: &[(String, Value)]) -> Option<ElementValue> {
    fn number(node: &ExprNode, axes: &[(String, Value)]) -> Option<Value> {
        match node {
            ExprNode::Int(v) => Some(Value::Int(*v)),
            ExprNode::Float(v) => Some(Value::Float(*v)),
            ExprNode::Name(name) => axes.iter().find(|(axis, _)| axis == name).map(|(_, value)| *value),
            ExprNode::Neg(inner) => match number(inner, axes)? {
                Value::Int(v) => v.checked_neg().map(Value::Int),
                Value::Float(v) => Some(Value::Float(-v)),
            },
            ExprNode::Index(..) | ExprNode::Field(..) | ExprNode::Binary(..) | ExprNode::Call(..) => None,
        }
    }
    Some(match number(&expr.node, axes)? {
        Value::Int(v) => ElementValue::Int(v),
        Value::Float(v) => ElementValue::Float(v),
    })
}

/// True if `ranks` includes a rank; lists and expressions mean world ranks.
///
/// # Errors
///
/// An expression does not have a value, or its value is not a truth value.
pub fn among(ranks: &Ranks, case: &Case, world_rank: usize) -> Result<bool, Diagnostic> {
    match ranks {
        Ranks::All => Ok(true),
        Ranks::List(list) => Ok(list.iter().any(|r| r.value == world_rank as i128)),
        Ranks::Expr(expr) => {
            let names = Names::world(case, world_rank);
            let value = evaluate(&expr.value, expr.span, &names, Mode::Whole)?;
            value.to_bool().map_err(|e| no_value(&expr.value, expr.span, &names, &e))
        }
    }
}

/// `1 entry`, `3 entries`.
pub fn entries(n: usize) -> String {
    if n == 1 { "1 entry".to_owned() } else { format!("{n} entries") }
}
/// `1 rank`, `3 ranks`.
pub fn ranks(n: usize) -> String {
    if n == 1 { "1 rank".to_owned() } else { format!("{n} ranks") }
}
/// `1 element`, `3 elements`.
pub fn elements(n: u64) -> String {
    if n == 1 { "1 element".to_owned() } else { format!("{n} elements") }
}

/// The names an expression uses that are not the language's own, in order of appearance: buffers, axes, steps.
pub fn named(expr: &Expr) -> Vec<String> {
    const OWN: [&str; 7] = ["rank", "n", "world_rank", "world_size", "i", "t", "peer"];
    let mut out = Vec::new();
    expr.node.visit(&mut |node| {
        if let ExprNode::Name(name) | ExprNode::Index(name, _) | ExprNode::Field(name, _) = node
            && !OWN.contains(&name.as_str())
            && !out.contains(name)
        {
            out.push(name.clone());
        }
    });
    out
}
