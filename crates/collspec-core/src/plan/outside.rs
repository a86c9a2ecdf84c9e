//! Messages for roots and peers outside their communicator.
use super::types::{Comm, CommId};
use crate::scenario::{Diagnostic, NumberByRankKind, Span};

/// The diagnostic; `key` is `root` or `peer`, and `of` the rank that names the peer.
pub fn outside(
    list: &[Comm],
    comm: CommId,
    (key, value, span): (&str, i128, Span),
    of: Option<usize>,
    text: Option<&str>,
) -> Diagnostic {
    let Some(found) = list.get(comm) else { return Diagnostic::new(span, format!("there is no {key} {value}")) };
    let n = found.members.len();
    let ranks = super::eval::ranks(n);
    let whose = of.map_or(String::new(), |rank| format!(" of rank {rank}"));
    let from_zero = format!("ranks count from 0 to {}", n.saturating_sub(1));
    if let Some(cure) = text.and_then(ring) {
        let message = format!("{key} {value}{whose} is not in the communicator of {ranks}");
        return Diagnostic::new(span, message).help(format!("{cure}; {from_zero}"));
    }
    let name = match found.name.as_deref() {
        Some("world") => {
            let message = format!("{key} {value}{whose} is not in the communicator of {ranks}");
            return Diagnostic::new(span, message).help(from_zero);
        }
        Some(name) => format!("`{name}`"),
        None => "its group".to_owned(),
    };
    let message = format!("{key} {value}{whose} is outside of {name}, which has {ranks}");
    let same_name = |other: &&Comm| other.name == found.name;
    let world_rank = usize::try_from(value).ok();
    let member = |comm: &Comm| comm.members.iter().position(|member| Some(*member) == world_rank);
    let known = std::iter::once(found).chain(list.iter().filter(same_name)).find_map(member);
    Diagnostic::new(span, message).help(match known {
        Some(rank) => format!("`{key}` is counted in {name}: world rank {value} is rank {rank} there"),
        None => format!("`{key}` is counted in {name}, from 0 to {}", n.saturating_sub(1)),
    })
}

/// The text of a number, if it is an expression.
pub fn expression(kind: &NumberByRankKind) -> Option<&str> {
    match kind {
        NumberByRankKind::Expr(expr) => Some(&expr.text),
        _ => None,
    }
}

/// Suggests how to write a neighbour in a ring or chain, for a peer expression that yields a rank outside.
fn ring(text: &str) -> Option<String> {
    let sign = ["+", "-"].into_iter().find(|sign| text.contains(sign))?;
    let (rank, number) = text.split_once(sign)?;
    let neighbour = rank.trim() == "rank" && number.trim().bytes().all(|b| b.is_ascii_digit());
    neighbour.then(|| {
        let ring = "for a ring write `to = \"(rank + 1) % n\"` and `from = \"(rank - 1) % n\"` (or `peer` so)";
        format!("{ring}; a chain is a `send` on all ranks but the last and a `recv` on all but the first, each with its `ranks`")
    })
}
