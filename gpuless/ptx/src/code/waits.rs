//! Finds the operations that only wait for other threads. How often they are executed depends on timing, so they do not count as work.
//!
//! These are the operations of polling loops, and those that a thread skips when it does not have to poll: between a branch whose condition
//! depends on a polled value and the place where both of its paths meet again.
use super::body::Body;
use super::flow::Flow;
use super::op::{Address, AddressBase, MemoryOrder, MultimemAction, Op, Operation};
use crate::module::{RegisterId, Space};

/// Functions with more blocks are not searched for loops, because the search may visit every block for each loop. NCCL's functions
/// are far smaller.
const MOST_BLOCKS: usize = 20_000;

/// For each operation, true if it only waits. In a function with more than `MOST_BLOCKS` blocks, none counts as waiting.
pub fn waits(body: &Body) -> Vec<bool> {
    let flow = Flow::of(body);
    if flow.blocks.len() > MOST_BLOCKS {
        return vec![false; body.operations.len()];
    }
    let mut waiting = vec![false; flow.blocks.len()];
    let mut headers = vec![false; flow.blocks.len()];
    for (end, next) in flow.after.iter().enumerate() {
        for header in next.iter().copied().filter(|header| *header <= end) {
            let Some(own) = flow.natural_loop(header, end, |block| !has(body, &flow, block, acts)) else { continue };
            if own.iter().any(|block| has(body, &flow, *block, looks)) {
                headers[header] = true;
                own.into_iter().for_each(|block| waiting[block] = true);
            }
        }
    }
    if headers.contains(&true) {
        let polled = polled(body, &flow, &waiting);
        for region in skipped(body, &flow, &polled) {
            if region.iter().any(|block| headers[*block]) && !region.iter().any(|block| has(body, &flow, *block, works))
            {
                region.into_iter().for_each(|block| waiting[block] = true);
            }
        }
    }
    let mut waits = vec![false; body.operations.len()];
    for (block, _) in flow.blocks.iter().zip(waiting).filter(|(_, waiting)| *waiting) {
        waits[block.clone()].fill(true);
    }
    waits
}

fn has(body: &Body, flow: &Flow, block: usize, what: fn(&Op) -> bool) -> bool {
    body.operations[flow.blocks[block].clone()].iter().any(|operation| what(&operation.op))
}

/// True if the operation reads memory that another thread may write at the same time.
fn looks(op: &Op) -> bool {
    match op {
        Op::BarrierTryWait { .. } => true,
        Op::Load { order, .. } => *order != MemoryOrder::Weak,
        // One that is relaxed is data: flags are acquired.
        Op::Multimem { action: MultimemAction::LoadReduce { .. }, order, .. } => *order == MemoryOrder::Acquire,
        _ => false,
    }
}

/// The address that an operation accesses, if it does.
fn place(op: &Op) -> Option<&Address> {
    match op {
        Op::Load { address, .. } | Op::BarrierTryWait { address, .. } | Op::Multimem { address, .. } if looks(op) => {
            Some(address)
        }
        _ => None,
    }
}

/// Does something that others can see, or meets them. A loop may note in a variable of the block that the operation was aborted.
fn acts(op: &Op) -> bool {
    match op {
        Op::Store { address, .. } => {
            !(address.space == Some(Space::Shared) && matches!(address.base, AddressBase::Symbol(_)))
        }
        other => works(other),
    }
}

/// The same, but for all stores to memory of the block or the thread.
fn works(op: &Op) -> bool {
    match op {
        Op::Store { address, .. } => !matches!(address.space, Some(Space::Shared | Space::Local)),
        Op::Multimem { .. } => !looks(op),
        Op::Atomic { .. }
        | Op::Call { .. }
        | Op::Barrier { .. }
        | Op::BarrierInit { .. }
        | Op::BarrierArriveExpect { .. }
        | Op::BulkLoad { .. }
        | Op::BulkStore { .. } => true,
        _ => false,
    }
}

/// The registers whose values come from loads in polling loops, or from others of the same memory: a first load may be before its loop.
fn polled(body: &Body, flow: &Flow, waiting: &[bool]) -> Vec<bool> {
    let mut polled = vec![false; body.registers.len()];
    let of_loops = flow.blocks.iter().zip(waiting).filter(|(_, waiting)| **waiting);
    let looks = of_loops.flat_map(|(block, _)| &body.operations[block.clone()]).filter(|of| looks(&of.op));
    let places: Vec<&Address> = looks.filter_map(|operation| place(&operation.op)).collect();
    let is_polled = |operation: &&Operation| place(&operation.op).is_some_and(|place| places.contains(&place));
    for operation in body.operations.iter().filter(is_polled) {
        operation.each_write(&mut |register| polled[register.0 as usize] = true);
    }
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for operation in
            body.operations.iter().filter(|operation| !matches!(operation.op, Op::Load { .. } | Op::Multimem { .. }))
        {
            let mut reads = false;
            operation.each_read(&mut |register| reads |= polled[register.0 as usize]);
            if reads {
                operation
                    .each_write(&mut |register| changed |= !std::mem::replace(&mut polled[register.0 as usize], true));
            }
        }
    }
    polled
}

/// For each branch on such a register, the blocks from there to the point where both of its ways meet again.
fn skipped<'a>(body: &'a Body, flow: &'a Flow, polled: &'a [bool]) -> impl Iterator<Item = Vec<usize>> + 'a {
    let meets = flow.meeting_places();
    let on_polled = |operation: &Operation| {
        let decides = |register: RegisterId| polled[register.0 as usize];
        matches!(operation.op, Op::Branch { .. }) && operation.guard.is_some_and(|guard| decides(guard.register))
    };
    flow.blocks.iter().enumerate().filter_map(move |(block, operations)| {
        let last = body.operations.get(operations.end.checked_sub(1)?)?;
        let meeting = meets[block].filter(|_| on_polled(last))?;
        Some(flow.between(block, meeting))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::Function;
    use crate::text::{Index, Unit};

    fn body(text: &str) -> Body {
        let registers = ".reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %d<4>;\n.shared .b32 s;\n";
        let unit = Unit::new("t", format!(".func f() {{\n{registers}{text}\n}}").into()).unwrap();
        let index = Index::of(&unit).unwrap();
        Body::of(&unit, &Function::of(&unit, &index.definitions[0]).unwrap())
    }

    /// The numbers of the operations that wait.
    fn waiting(text: &str) -> Vec<usize> {
        waits(&body(text)).iter().enumerate().filter(|(_, waits)| **waits).map(|(at, _)| at).collect()
    }

    #[test]
    fn a_loop_that_only_looks_waits() {
        let text = "mov.b32 %r2, 0;\nL:\nld.volatile.global.u32 %r1, [%d1];\nadd.s32 %r2, %r2, 1;\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 bra L;\nst.global.u32 [%d1], %r1;\nret;";
        assert_eq!(waiting(text), [1, 2, 3, 4]);
        assert_eq!(waiting(&text.replace("volatile.", "")), [0; 0], "nobody else writes it");
        assert_eq!(waiting(&text.replace("mov.b32 %r2, 0;\nL:", "L:\nst.global.u32 [%d2], %r2;")), [0; 0], "it stores");
        let store =
            |to: &str| waiting(&text.replace("mov.b32 %r2, 0;\nL:", &format!("L:\nst.shared.u32 [{to}], %r2;")));
        assert_eq!((store("s"), store("%r8")), (vec![0, 1, 2, 3, 4], vec![]), "only a note of the block's");
    }

    /// As in NCCL: it polls again only if the last value was too small.
    #[test]
    fn what_is_passed_over_without_need_to_poll_waits_too() {
        let text = "AGAIN:\nadd.s32 %r2, %r1, 8;\nsetp.ge.s32 %p1, %r2, %r3;\n@%p1 bra GO;\n\
            mov.b32 %r4, 0;\n\
            L:\nld.volatile.global.u32 %r1, [%d1];\nld.volatile.global.u32 %r5, [%d2];\nsetp.eq.s32 %p2, %r5, 0;\n@%p2 bra ON;\n\
            st.shared.u32 [%r8], %r5;\nbra GO;\n\
            ON:\nadd.s32 %r2, %r1, 8;\nsetp.lt.s32 %p1, %r2, %r3;\n@%p1 bra L;\n\
            GO:\nst.global.u32 [%d3], %r3;\nadd.s32 %r3, %r3, 1;\nsetp.lt.s32 %p3, %r3, 100;\n@%p3 bra AGAIN;\nret;";
        assert_eq!(waiting(text), (3..13).collect::<Vec<_>>());
        let unlike = "add.s32 %r7, %r6, 8;\nsetp.ge.s32 %p0, %r7, %r3;\n@%p0 bra GO;";
        let other = text.replace("add.s32 %r2, %r1, 8;\nsetp.ge.s32 %p1, %r2, %r3;\n@%p1 bra GO;", unlike);
        assert_eq!(waiting(&other), (4..13).collect::<Vec<_>>(), "the first branch has nothing to do with it");
    }

    /// NCCL polls once before it begins to count polls. Some paths end in a trap, or in an unknown instruction.
    #[test]
    fn a_look_before_the_loop_decides_as_those_in_it() {
        let text = "ld.volatile.global.u32 %r1, [%d1];\nsetp.eq.s32 %p0, %r1, 0;\n@%p0 bra GO;\nmov.b32 %r4, 0;\n\
            L:\nadd.s32 %r4, %r4, 1;\nsetp.lt.s32 %p2, %r4, 99;\n@%p2 bra ON;\ntrap;\n\
            ON:\n@!%p3 bra OLD;\nbrkpt;\nbra NEXT;\n\
            OLD:\nld.volatile.global.u32 %r5, [%d1];\nNEXT:\nsetp.ne.s32 %p1, %r5, 0;\n@%p1 bra L;\n\
            GO:\nst.global.u32 [%d3], %r3;\nret;";
        let unknown = |body: &Body| body.operations.iter().filter(|of| matches!(of.op, Op::Unknown(_))).count();
        assert_eq!(unknown(&body(text)), 1);
        assert_eq!(waiting(text), (3..14).collect::<Vec<_>>());
        assert_eq!(waiting(&text.replacen("[%d1]", "[%d2]", 1)), (4..14).collect::<Vec<_>>(), "another place");
    }

    #[test]
    fn loops_that_are_entered_in_their_middle_are_left_alone() {
        let text = "@%p2 bra M;\nL:\nadd.s32 %r2, %r2, 1;\nM:\nld.volatile.global.u32 %r1, [%d1];\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 bra L;\nret;";
        assert_eq!(waiting(text), [0; 0]);
    }
}
