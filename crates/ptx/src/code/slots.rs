//! Where registers are kept: those that are never alive together share a slot.
use super::body::Body;
use super::op::{Op, Width};
use crate::module::RegisterId;

/// The slot of each register, and the size of the frame that holds them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// For each register, the offset of its slot in the frame, in bytes for one lane; `None` for one that no operation names.
    pub of_register: Vec<Option<u32>>,
    /// Bytes of the frame for one lane.
    pub bytes: u32,
}

/// The operations between which a register is alive, from the first that touches it to the last, as far as loops carry it.
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
    /// Gives every register a slot. Slots of one width follow each other, so that each is as aligned as it is wide.
    pub fn of(body: &Body) -> Self {
        let intervals = intervals(body);
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
        Self { of_register, bytes }
    }
}

/// For each register the operations from the first to the last at which it is alive.
fn intervals(body: &Body) -> Vec<Option<Interval>> {
    let blocks = body.blocks();
    let live = Liveness::of(body, &blocks);
    let mut intervals: Vec<Option<Interval>> = vec![None; body.registers.len()];
    let mut touch = |register: usize, at: usize| {
        let interval = intervals[register].get_or_insert(Interval { first: at, last: at });
        *interval = Interval { first: interval.first.min(at), last: interval.last.max(at) };
    };
    for (at, operation) in body.operations.iter().enumerate() {
        let Ok(operation) = operation else { continue };
        let mut both = |register: RegisterId| touch(register.0 as usize, at);
        operation.each_read(&mut both);
        operation.each_write(&mut both);
    }
    for (number, block) in blocks.iter().enumerate() {
        for register in live.at_start(number) {
            touch(register, block.start);
        }
        for register in live.at_end(number) {
            touch(register, block.end - 1);
        }
    }
    intervals
}

/// A bit for each register.
type Bits = Vec<u64>;

/// Which registers are alive at the beginning and the end of each block.
struct Liveness {
    start: Vec<Bits>,
    end: Vec<Bits>,
}

impl Liveness {
    fn of(body: &Body, blocks: &[std::ops::Range<usize>]) -> Self {
        let words = body.registers.len().div_ceil(64);
        let mut read_first = vec![vec![0u64; words]; blocks.len()];
        let mut written = vec![vec![0u64; words]; blocks.len()];
        for (number, block) in blocks.iter().enumerate() {
            let (reads, writes) = (&mut read_first[number], &mut written[number]);
            for operation in body.operations[block.clone()].iter().flatten() {
                operation.each_read(&mut |register| {
                    let (word, bit) = place(register);
                    reads[word] |= bit & !writes[word];
                });
                operation.each_write(&mut |register| {
                    let (word, bit) = place(register);
                    // Behind a guard the other lanes keep what they had: they read it.
                    if operation.guard.is_some() {
                        reads[word] |= bit & !writes[word];
                    } else {
                        writes[word] |= bit;
                    }
                });
            }
        }
        let mut live = Self { start: read_first.clone(), end: vec![vec![0u64; words]; blocks.len()] };
        let successors: Vec<Vec<usize>> = blocks.iter().map(|block| successors(body, blocks, block)).collect();
        let mut changed = true;
        while changed {
            changed = false;
            for number in (0..blocks.len()).rev() {
                for word in 0..words {
                    let after = successors[number].iter().fold(0, |all, next| all | live.start[*next][word]);
                    let before = read_first[number][word] | after & !written[number][word];
                    changed |= before != live.start[number][word] || after != live.end[number][word];
                    (live.start[number][word], live.end[number][word]) = (before, after);
                }
            }
        }
        live
    }

    fn at_start(&self, block: usize) -> impl Iterator<Item = usize> {
        registers(&self.start[block])
    }

    fn at_end(&self, block: usize) -> impl Iterator<Item = usize> {
        registers(&self.end[block])
    }
}

fn place(register: RegisterId) -> (usize, u64) {
    (register.0 as usize / 64, 1 << (register.0 % 64))
}

fn registers(bits: &Bits) -> impl Iterator<Item = usize> {
    bits.iter()
        .enumerate()
        .flat_map(|(word, bits)| (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| 64 * word + bit))
}

/// The blocks to which control can go at a block's end.
fn successors(body: &Body, blocks: &[std::ops::Range<usize>], block: &std::ops::Range<usize>) -> Vec<usize> {
    let starting_at = |at: usize| blocks.binary_search_by_key(&at, |block| block.start).ok();
    let next = starting_at(block.end);
    let Some(Ok(last)) = body.operations.get(block.end - 1) else { return Vec::new() };
    let branch = if let Op::Branch { target } = last.op { starting_at(target) } else { None };
    let falls = !last.op.ends_block() || last.guard.is_some();
    branch.into_iter().chain(next.filter(|_| falls)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::Function;
    use crate::text::{Index, Unit};

    fn body(registers: &str, text: &str) -> Body {
        let unit = Unit::new("t", format!(".func f() {{\n{registers}\n{text}\n}}").into()).unwrap();
        let index = Index::of(&unit).unwrap();
        let body = Body::of(&unit, &Function::of(&unit, &index.definitions[0]).unwrap());
        assert!(body.operations.iter().all(Result::is_ok), "{body:?}");
        body
    }

    #[test]
    fn registers_in_turn_share_a_slot() {
        let text =
            "mov.b32 %r1, 1;\nadd.s32 %r2, %r1, 1;\nadd.s32 %r3, %r2, 1;\nmov.b64 %d1, 2;\nmov.b32 %r4, 4;\nret;";
        let slots = Slots::of(&body(".reg .b32 %r<9>;\n.reg .b64 %d<2>;", text));
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
        let slots = Slots::of(&body(".reg .b32 %r<9>;\n.reg .pred %p<2>;", text));
        let [one, two, three, four] = [1, 2, 3, 4].map(|register: usize| slots.of_register[register].unwrap());
        assert!(one != two && one != three && one != four && two != three && two != four);
    }

    #[test]
    fn a_guarded_write_keeps_what_other_lanes_have() {
        let text = "mov.b32 %r1, 1;\nmov.b32 %r2, 2;\n@%p1 mov.b32 %r1, 3;\nst.global.b32 [%d1], %r1;\nret;";
        let slots = Slots::of(&body(".reg .pred %p<2>;\n.reg .b32 %r<9>;\n.reg .b64 %d<2>;", text));
        assert_ne!(slots.of_register[3], slots.of_register[4]);
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
            let slots = Slots::of(&body);
            for at in 0..body.operations.len() {
                let alive: Vec<usize> = (1..7).filter(|register| is_alive(&body, *register, at)).collect();
                let mut places: Vec<_> = alive.iter().map(|register| slots.of_register[*register]).collect();
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len(), alive.len(), "at {at} of\n{text}");
            }
        }
    }

    /// Whether a register's value at an operation is read by it or later.
    fn is_alive(body: &Body, register: usize, from: usize) -> bool {
        let (mut seen, mut ahead) = (vec![false; body.operations.len()], vec![from]);
        while let Some(at) = ahead.pop() {
            let Some(Ok(operation)) = body.operations.get(at) else { continue };
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
