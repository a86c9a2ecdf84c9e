//! The rules by which ranks' operations match: which calls of a collective are equal, and which sends match their receives.
use super::super::graphs::check::check_both_captured;
use super::super::lower::{Index, LoweredProgram};
use super::super::rank_op::{Placed, RankCollective, RankOp, Route};
use super::super::ranks_hint::who_runs;
use super::super::types::{CollectiveEvent, RankCall, Reduction, StepId};
use crate::ops::{AUTOMATIC, AlgorithmChoice, NcclCall};
use crate::scenario::Diagnostic;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Checks the messages of one thread that drives all ranks: it executes one step at a time.
///
/// # Errors
///
/// A send whose receive is in another step.
pub fn check_one_thread(lowered: &LoweredProgram) -> Result<(), Vec<Diagnostic>> {
    super::one_sided::check_one_thread(lowered)?;
    let mut sends: FxHashMap<Route, VecDeque<StepId>> = FxHashMap::default();
    let mut recvs: FxHashMap<Route, VecDeque<StepId>> = FxHashMap::default();
    for (calls, ops) in lowered.programs.iter().zip(&lowered.ops) {
        for (call, op) in calls.iter().zip(ops) {
            let (Some(op), unit) = (op, lowered.unrolled.units[call.step as usize]) else { continue };
            let Some(route) = op.route() else { continue };
            let side = if matches!(op, RankOp::Send(_)) { &mut sends } else { &mut recvs };
            side.entry(route).or_default().push_back(unit);
        }
    }
    for (route, sends) in &sends {
        let recvs = recvs.get(route);
        for (i, unit) in sends.iter().enumerate() {
            if recvs.and_then(|r| r.get(i)) != Some(unit) {
                let text = "with `placement = \"one_thread\"` a send must meet its receive within one step";
                return Err(vec![
                    Diagnostic::new(lowered.unrolled.steps[*unit as usize].span, text)
                        .help("put both into one `group`, or use a `send_recv`"),
                ]);
            }
        }
    }
    Ok(())
}

/// The first message of a rank to itself without a partner in its group: NCCL returns `invalid_usage` from the call, or from the end
/// of the group.
pub fn lone_message_to_oneself(lowered: &LoweredProgram) -> Option<Diagnostic> {
    let mut lone: FxHashMap<(usize, u32, Route), Vec<Index>> = FxHashMap::default();
    let mut keys = Vec::new();
    for (rank, ops) in lowered.ops.iter().enumerate() {
        for (index, op) in ops.iter().enumerate() {
            let Some(op) = op else { continue };
            let Some(route) = op.route().filter(|route| route.from == route.to) else { continue };
            let key = (rank, lowered.ends[rank][index], route);
            let open = lone.entry(key).or_default();
            let sends = |at: &Index| matches!(lowered.op(*at), Some(RankOp::Send(_)));
            match open.iter().position(|other| sends(other) != sends(&(rank, index))) {
                Some(partner) => _ = open.remove(partner),
                None => open.push((rank, index)),
            }
            keys.push(key);
        }
    }
    let (at, (rank, _, route)) = keys.iter().find_map(|key| Some((*lone.get(key)?.first()?, *key)))?;
    let spot = |at: Index| lowered.unrolled.steps[lowered.step(at) as usize].span;
    let sends = matches!(lowered.op(at), Some(RankOp::Send(_)));
    let (does, partner) = if sends { ("sends to", "recv") } else { ("receives from", "send") };
    let text = format!("rank {rank} {does} itself, which NCCL allows only with the {partner} in the same group");
    let hint = who_runs(&lowered.unrolled.case, spot(at)).unwrap_or_else(|| {
        "put both into one `group`, or use a `send_recv`; if the error is meant, say `outcome = \"invalid_usage\"`"
            .into()
    });
    let wrong = Diagnostic::new(spot(at), text).help(hint);
    // The partner that is somewhere else.
    let others = lone.iter().filter(|((other, _, to), _)| *other == rank && *to == route).flat_map(|(_, calls)| calls);
    let other = others.filter(|other| matches!(lowered.op(**other), Some(RankOp::Send(_))) != sends).min();
    Some(match other {
        Some(other) => wrong.related(spot(*other), format!("the {partner}")),
        None => wrong,
    })
}

/// The event of a collective that all ranks have called. The results of calls that `is_unknown` names are left out: who judges the
/// event must not look at them.
///
/// # Errors
///
/// A description of how the ranks' calls differ.
pub fn collective_event(
    lowered: &LoweredProgram,
    calls: &[Index],
    is_unknown: impl Fn(Index) -> bool,
) -> Result<CollectiveEvent, Diagnostic> {
    let rank_call = |at: &Index| match lowered.op(*at) {
        Some(RankOp::Collective(op)) if is_unknown(*at) => {
            Some(lowered.rank_call(*at, Arc::new(RankCollective { recv: None, ..(**op).clone() })))
        }
        Some(RankOp::Collective(op)) => Some(lowered.rank_call(*at, op.clone())),
        _ => None,
    };
    for other in calls.iter().skip(1) {
        check_both_captured(lowered, calls[0], *other)?;
    }
    let mut rank_calls: Vec<RankCall<Arc<RankCollective<Placed>>>> = calls.iter().filter_map(rank_call).collect();
    let Some(first) = rank_calls.first().cloned() else {
        return Err(Diagnostic::new(lowered.unrolled.case.span, "a collective that no rank calls"));
    };
    for other in &rank_calls {
        if !is_same_call(&first.op, &other.op) {
            let text = format!(
                "rank {} calls {}, but rank {} calls {}: every rank of a communicator must make the same call",
                first.op.rank,
                describe(&first.op),
                other.op.rank,
                describe(&other.op)
            );
            let span = |step: StepId| lowered.unrolled.steps[step as usize].span;
            let d = Diagnostic::new(span(other.step), text);
            let d = if other.step == first.step { d } else { d.related(span(first.step), "the other call") };
            return Err(
                match only_counts_differ(&first.op, &other.op).then(|| pieces_of_unlike_length(first.op.op.call)) {
                    Some(help) => d.help(help),
                    None => d,
                },
            );
        }
    }
    rank_calls.sort_by_key(|call| call.op.rank);
    let factor = |call: &RankCall<Arc<RankCollective<Placed>>>| match call.op.reduction {
        Some(Reduction::PreMulSum(bits)) => bits,
        _ => 0,
    };
    let reduction = first.op.reduction.as_ref().map(|reduction| match reduction {
        Reduction::Builtin(op) => Reduction::Builtin(*op),
        Reduction::PreMulSum(_) => Reduction::PreMulSum(rank_calls.iter().map(factor).collect()),
    });
    Ok(CollectiveEvent { first, calls: rank_calls, reduction })
}

/// True if two ranks' calls agree in everything that must be the same on all ranks; [`describe`] puts the same into words.
fn is_same_call(a: &RankCollective<Placed>, b: &RankCollective<Placed>) -> bool {
    let reductions = match (&a.reduction, &b.reduction) {
        (None, None) | (Some(Reduction::PreMulSum(_)), Some(Reduction::PreMulSum(_))) => true,
        (Some(Reduction::Builtin(a)), Some(Reduction::Builtin(b))) => a == b,
        _ => false,
    };
    reductions
        && a.op.call == b.op.call
        && (!a.op.rooted || a.root == b.root)
        && (a.size.count, a.size.dtype) == (b.size.count, b.size.dtype)
        && algorithm_choice(a) == algorithm_choice(b)
}

/// The call's choice of algorithm, if it makes one; `Some(None)` if it leaves the choice to the library.
fn algorithm_choice(call: &RankCollective<Placed>) -> Option<Option<&AlgorithmChoice>> {
    let choice = call.algorithm.as_deref().map(|algorithm| &algorithm.choice);
    choice.map(|choice| Some(choice).filter(|choice| !choice.is_automatic()))
}

/// Describes a call: everything that must be the same on all ranks.
fn describe(c: &RankCollective<Placed>) -> String {
    let red = match &c.reduction {
        None => String::new(),
        Some(Reduction::Builtin(op)) => format!(" {}", op.name().unwrap_or("?")),
        Some(Reduction::PreMulSum(_)) => " premul_sum".to_owned(),
    };
    let root = if c.op.rooted { format!(" with root {}", c.root) } else { String::new() };
    let algorithm = match c.algorithm.as_deref().map(|algorithm| &algorithm.choice) {
        None => String::new(),
        Some(choice) if choice.is_automatic() => format!(" with the algorithm {AUTOMATIC}"),
        Some(AlgorithmChoice { selection, force: true }) => format!(" with the algorithm {selection}"),
        Some(AlgorithmChoice { selection, force: false }) => format!(" with the algorithm {selection} if it can be"),
    };
    format!("{:?}{red} of {} {}{root}{algorithm}", c.op.call, c.size.count, c.size.dtype.name())
}

/// True if two calls that are not the same differ only in their counts.
fn only_counts_differ(a: &RankCollective<Placed>, b: &RankCollective<Placed>) -> bool {
    let mut b = b.clone();
    b.size.count = a.size.count;
    is_same_call(a, &b)
}

/// The alternative to a collective whose pieces are meant to differ in length.
fn pieces_of_unlike_length(call: NcclCall) -> &'static str {
    match call {
        NcclCall::AllGather => "pieces of different length are gathered by `op = \"all_gather_v\"`",
        NcclCall::AlltoAll => {
            "pieces of different length are sent by `op = \"all_to_all_v\"` with `counts`: row r, column j is what rank r sends to rank j"
        }
        _ => "give every rank the same number of elements",
    }
}

/// Checks that a send and its receive agree.
///
/// # Errors
///
/// Different counts or types.
pub fn check_message(lowered: &LoweredProgram, from: Index, to: Index) -> Result<(), Diagnostic> {
    let size = |at: Index| lowered.op(at).map(|op| (op.size().count, op.size().dtype));
    let (Some((sent, a)), Some((wanted, b))) = (size(from), size(to)) else { return Ok(()) };
    let spot = |at: Index| lowered.unrolled.steps[lowered.step(at) as usize].span;
    if (sent, a) == (wanted, b) {
        return check_both_captured(lowered, from, to);
    }
    let text = format!("rank {} sends {sent} {}, but rank {} receives {wanted} {}", from.0, a.name(), to.0, b.name());
    Err(Diagnostic::new(spot(to), text).related(spot(from), "the send"))
}
