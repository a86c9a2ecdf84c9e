//! Assigns registers to slots: those that are never alive at the same time share one.
use super::body::Body;
use super::flow::Flow;
use super::op::Width;
use crate::module::RegisterId;
use std::ops::Range;

/// The slot of each register, and the size of the frame that holds them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// For each register, the offset of its slot in the frame, in bytes for one lane; `None` for registers that no operation names.
    pub of_register: Vec<Option<u32>>,
    /// Bytes of the frame for one lane.
    pub bytes: u32,
}

/// The range of operations in which a register is alive, from the first that touches it to the last, extended by loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    first: usize,
    last: usize,
}

/// Bytes of a slot in one lane.
fn slot_bytes(width: Width) -> u32 {
    match width {
        Width::Predicate => 1,
        Width::W16 => 2,
        Width::W32 => 4,
        Width::W64 => 8,
        Width::W128 => 16,
    }
}

impl Slots {
    /// Gives every register a slot. Slots of one width are adjacent, so that each is aligned to its width. `None` if too many
    /// registers are alive in too many blocks.
    pub fn of(body: &Body) -> Option<Self> {
        let intervals = intervals(body)?;
        let mut order: Vec<(Interval, usize)> =
            intervals.iter().enumerate().filter_map(|(register, interval)| Some(((*interval)?, register))).collect();
        order.sort_unstable_by_key(|(interval, register)| (interval.first, *register));
        let widths = [Width::W128, Width::W64, Width::W32, Width::W16, Width::Predicate];
        let mut of_register = vec![None; body.registers.len()];
        let mut bytes = 0;
        for width in widths {
            let mut free: Vec<u32> = Vec::new();
            // Slots in use, with the last operation that needs them.
            let mut used: std::collections::BinaryHeap<std::cmp::Reverse<(usize, u32)>> = Default::default();
            let of_width = order.iter().filter(|(_, register)| Width::of(body.registers[*register]) == width);
            for (interval, register) in of_width {
                while let Some(std::cmp::Reverse((last, slot))) = used.peek().copied() {
                    if last >= interval.first {
                        break;
                    }
                    used.pop();
                    free.push(slot);
                }
                let slot = free.pop().unwrap_or_else(|| {
                    bytes += slot_bytes(width);
                    bytes - slot_bytes(width)
                });
                used.push(std::cmp::Reverse((interval.last, slot)));
                of_register[*register] = Some(slot);
            }
        }
        Some(Self { of_register, bytes })
    }
}

/// Most steps from a block to one before it that [`intervals`] takes, for all registers together. NCCL's functions need fewer than a million.
const MOST_STEPS: usize = 1 << 27;

/// For each register the range of operations in which it is alive; `None` if this takes too long to determine.
fn intervals(body: &Body) -> Option<Vec<Option<Interval>>> {
    let Flow { blocks, before, .. } = Flow::of(body);
    let mut intervals: Vec<Option<Interval>> = vec![None; body.registers.len()];
    let mut touch = |register: u32, at: usize| {
        let interval = intervals[register as usize].get_or_insert(Interval { first: at, last: at });
        *interval = Interval { first: interval.first.min(at), last: interval.last.max(at) };
    };
    for (at, operation) in body.operations.iter().enumerate() {
        let mut both = |register: RegisterId| touch(register.0, at);
        operation.each_read(&mut both);
        operation.each_write(&mut both);
    }
    let Uses { reads, writes } = Uses::of(body, &blocks);
    // For each block the register for which it was last seen, and the one that it last writes.
    let (mut alive, mut written) = (vec![u32::MAX; blocks.len()], vec![u32::MAX; blocks.len()]);
    let (mut writes, mut ahead, mut steps) = (writes.into_iter().peekable(), Vec::new(), 0);
    for of_register in reads.chunk_by(|(one, _), (other, _)| one == other) {
        let register = of_register[0].0;
        while let Some((of, block)) = writes.next_if(|(of, _)| *of <= register) {
            if of == register {
                written[block as usize] = register;
            }
        }
        ahead.extend(of_register.iter().map(|(_, block)| *block as usize));
        while let Some(block) = ahead.pop() {
            if std::mem::replace(&mut alive[block], register) == register {
                continue;
            }
            touch(register, blocks[block].start);
            steps += before[block].len();
            for before in &before[block] {
                touch(register, blocks[*before].end - 1);
                if written[*before] != register {
                    ahead.push(*before);
                }
            }
        }
        if steps > MOST_STEPS {
            return None;
        }
    }
    Some(intervals)
}

/// Registers and the blocks that use them, in the order of the registers.
struct Uses {
    /// Blocks that read one before they write it.
    reads: Vec<(u32, u32)>,
    /// Blocks that write one in all lanes.
    writes: Vec<(u32, u32)>,
}

impl Uses {
    fn of(body: &Body, blocks: &[Range<usize>]) -> Self {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        // For each register the block that it was last written in.
        let mut written = vec![u32::MAX; body.registers.len()];
        for (number, block) in (0..).zip(blocks) {
            for operation in &body.operations[block.clone()] {
                let mut read = |register: RegisterId, written: &[u32]| {
                    if written[register.0 as usize] != number {
                        reads.push((register.0, number));
                    }
                };
                operation.each_read(&mut |register| read(register, &written));
                operation.each_write(&mut |register| {
                    // With a guard, the other lanes keep their old value, which counts as a read.
                    if operation.guard.is_some() {
                        read(register, &written);
                    } else if std::mem::replace(&mut written[register.0 as usize], number) != number {
                        writes.push((register.0, number));
                    }
                });
            }
        }
        reads.sort_unstable();
        reads.dedup();
        writes.sort_unstable();
        Self { reads, writes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Op;
    use crate::module::Function;
    use crate::text::{Index, Unit};

    fn body(registers: &str, text: &str) -> Body {
        let unit = Unit::new("t", format!(".func f() {{\n{registers}\n{text}\n}}").into()).unwrap();
        let index = Index::of(&unit).unwrap();
        let body = Body::of(&unit, &Function::of(&unit, &index.definitions[0]).unwrap());
        assert!(!body.operations.iter().any(|operation| matches!(operation.op, Op::Unknown(_))), "{body:?}");
        body
    }

    #[test]
    fn registers_in_turn_share_a_slot() {
        let text =
            "mov.b32 %r1, 1;\nadd.s32 %r2, %r1, 1;\nadd.s32 %r3, %r2, 1;\nmov.b64 %d1, 2;\nmov.b32 %r4, 4;\nret;";
        let slots = Slots::of(&body(".reg .b32 %r<9>;\n.reg .b64 %d<2>;", text)).unwrap();
        assert_eq!(slots.of_register[0], None, "nothing names it");
        assert_eq!(slots.of_register[1], slots.of_register[3]);
        assert_ne!(slots.of_register[1], slots.of_register[2]);
        assert_eq!(slots.bytes, 16);
        assert!(slots.of_register[10].is_some_and(|slot| slot % 8 == 0));
    }

    #[test]
    fn what_a_loop_carries_lives_as_long_as_the_loop() {
        let text = "mov.b32 %r1, 0;\nmov.b32 %r2, 8;\nL:\nadd.s32 %r3, %r1, 1;\nmov.b32 %r1, %r3;\nmov.b32 %r4, 5;\n\
            setp.lt.s32 %p1, %r4, %r2;\n@%p1 bra L;\nret;";
        let slots = Slots::of(&body(".reg .b32 %r<9>;\n.reg .pred %p<2>;", text)).unwrap();
        let [one, two, three, four] = [1, 2, 3, 4].map(|register: usize| slots.of_register[register].unwrap());
        assert!(one != two && one != three && one != four && two != three && two != four);
    }

    #[test]
    fn a_guarded_write_keeps_what_other_lanes_have() {
        let text = "mov.b32 %r1, 1;\nmov.b32 %r2, 2;\n@%p1 mov.b32 %r1, 3;\nst.global.b32 [%d1], %r1;\nret;";
        let slots = Slots::of(&body(".reg .pred %p<2>;\n.reg .b32 %r<9>;\n.reg .b64 %d<2>;", text)).unwrap();
        assert_ne!(slots.of_register[3], slots.of_register[4]);
    }

    #[test]
    fn what_no_operation_names_costs_nothing_and_too_much_is_refused() {
        let branches = "@%p0 bra END;\n".repeat(30_000);
        let of = |used: usize| {
            let (mut text, mut reads) = (String::new(), String::new());
            for register in 0..used {
                text += &format!("mov.b32 %r{register}, 1;\n");
                reads += &format!("st.b32 [%d0], %r{register};\n");
            }
            text += &branches;
            text += &reads;
            Slots::of(&body(".reg .pred %p<1>;\n.reg .b64 %d<1>;\n.reg .b32 %r<1000000>;", &format!("{text}END: ret;")))
        };
        let start = std::time::Instant::now();
        assert_eq!(of(10).map(|slots| slots.bytes), Some(8 + 4 * 10 + 1));
        assert_eq!(of(6_000), None, "180 million steps");
        assert!(start.elapsed().as_secs() < 60);
    }

    /// In random programs, two registers that are live at the same operation never share a slot. A register is live where some path
    /// leads to a read of it without a write in all lanes before that read.
    #[test]
    fn registers_that_live_together_have_slots_of_their_own() {
        let mut state = 7u64;
        let mut below = move |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        for _ in 0..300 {
            let count = 4 + below(30);
            let mut text = String::new();
            for at in 0..count {
                let mut r = || below(6);
                let guard = if r() == 0 { "@%p0 " } else { "" };
                match r() {
                    0 => text += &format!("L{at}: @%p0 bra L{};\n", (at + r() * r()) % count),
                    _ => text += &format!("L{at}: {guard}add.s32 %r{}, %r{}, %r{};\n", r(), r(), r()),
                }
            }
            let body = body(".reg .pred %p<1>;\n.reg .b32 %r<6>;", &text);
            let slots = Slots::of(&body).unwrap();
            for at in 0..body.operations.len() {
                let alive: Vec<usize> = (1..7).filter(|register| is_alive(&body, *register, at)).collect();
                let mut places: Vec<_> = alive.iter().map(|register| slots.of_register[*register]).collect();
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len(), alive.len(), "at {at} of\n{text}");
            }
        }
    }

    /// True if a register's value at an operation is read there or later.
    fn is_alive(body: &Body, register: usize, from: usize) -> bool {
        let (mut seen, mut ahead) = (vec![false; body.operations.len()], vec![from]);
        while let Some(at) = ahead.pop() {
            let Some(operation) = body.operations.get(at) else { continue };
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let (mut read, mut written) = (false, false);
            operation.each_read(&mut |one| read |= one.0 as usize == register);
            operation.each_write(&mut |one| written |= one.0 as usize == register);
            if read {
                return true;
            }
            if written && operation.guard.is_none() {
                continue;
            }
            if let Op::Branch { target } = operation.op {
                ahead.push(target);
            }
            ahead.push(at + 1);
        }
        false
    }
}
