//! The parts of an assert that are false, with the numbers on both of their sides.
use crate::expr::{BinOp, ExprNode, Func, Scope, Value};

/// Number of parts that a message lists.
const MAX_PARTS: usize = 3;

/// The false parts of an assert with their numbers filled in, such as `0.30000001192092896 == 0.3`. Conditions that are
/// multiplied, and those in a `min`, are separate parts.
pub(crate) fn failed_parts<S: Scope>(node: &ExprNode, scope: &S) -> Vec<String> {
    let mut parts = Vec::new();
    collect(node, scope, &mut parts);
    parts.truncate(MAX_PARTS);
    parts
}

fn collect<S: Scope>(node: &ExprNode, scope: &S, parts: &mut Vec<String>) {
    let number = |node: &ExprNode| node.eval_exact(scope).map(number_text);
    match node {
        ExprNode::Binary(BinOp::Mul, a, b) if is_condition(a) || is_condition(b) => {
            collect(a, scope, parts);
            collect(b, scope, parts);
        }
        ExprNode::Call(Func::Min, args) => args.iter().for_each(|arg| collect(arg, scope, parts)),
        _ if node.eval_exact(scope).is_ok_and(|value| value.truth() && !value.as_f64().is_nan()) => {}
        ExprNode::Binary(op, a, b) if sign(*op).is_some() => {
            if let (Ok(a), Ok(b), Some(sign)) = (number(a), number(b), sign(*op)) {
                parts.push(format!("{a} {sign} {b}"));
            }
        }
        // The values that it compares are recorded as they are read.
        ExprNode::Call(Func::Same | Func::If, _) => {}
        ExprNode::Call(func, args) => {
            if let Ok(args) = args.iter().map(number).collect::<Result<Vec<_>, _>>() {
                parts.push(format!("{}({})", func.name(), args.join(", ")));
            }
        }
        _ => {
            if let Ok(value) = number(node) {
                parts.push(format!("the value is {value}"));
            }
        }
    }
}

fn is_condition(node: &ExprNode) -> bool {
    match node {
        ExprNode::Binary(BinOp::Mul, a, b) => is_condition(a) || is_condition(b),
        ExprNode::Binary(op, ..) => sign(*op).is_some(),
        ExprNode::Call(Func::Same, _) => true,
        _ => false,
    }
}

fn sign(op: BinOp) -> Option<&'static str> {
    match op {
        BinOp::Lt => Some("<"),
        BinOp::Le => Some("<="),
        BinOp::Gt => Some(">"),
        BinOp::Ge => Some(">="),
        BinOp::Eq => Some("=="),
        BinOp::Ne => Some("!="),
        BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Rem | BinOp::Pow => None,
    }
}

/// A number with enough digits to distinguish it from every other one.
pub(crate) fn number_text(value: Value) -> String {
    match value {
        Value::Int(v) => v.to_string(),
        Value::Float(v) if v.is_nan() => "nan".into(),
        Value::Float(v) if v.fract() == 0.0 && v.abs() < 1e15 && !(v == 0.0 && v.is_sign_negative()) => {
            format!("{v:.0}")
        }
        Value::Float(v) => format!("{v:?}"),
    }
}
