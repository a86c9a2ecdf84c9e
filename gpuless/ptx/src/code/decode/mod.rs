//! Decodes instructions from text into typed operations.
mod arithmetic;
mod convert;
mod memory;
mod multimem;
mod operands;
mod sync;

use super::op::{Op, Operation};
use crate::error::Error;
use crate::module::{Function, Instruction, Type};
use crate::text::{DefinitionKind, Index, Unit};
use operands::Operands;
use std::collections::BTreeMap;

/// Gives an instruction its types.
///
/// # Errors
///
/// The instruction is not known, or its operands are not those that it takes; the error has its text.
pub fn decode(unit: &Unit, function: &Function, instruction: &Instruction) -> Result<Operation, Error> {
    decode_at_no_place(unit, function, instruction).map_err(|why| at_its_place(unit, instruction, &why))
}

fn at_its_place(unit: &Unit, instruction: &Instruction, why: &str) -> Error {
    let at = instruction.opcode.start as usize;
    unit.error(at, format!("{why}: `{}`", unit.line(at)))
}

/// The reason an instruction cannot be decoded.
type Refusal = String;

/// The same, with the reason alone: to find a place takes as long as the text before it.
pub fn decode_at_no_place(unit: &Unit, function: &Function, instruction: &Instruction) -> Result<Operation, Refusal> {
    let operands = Operands { registers: &function.registers, all: &instruction.operands };
    let op = operation(instruction.opcode(unit), &operands)?;
    Ok(Operation { guard: instruction.guard, op })
}

fn operation(opcode: &str, operands: &Operands<'_>) -> Result<Op, Refusal> {
    let mut words = opcode.split('.');
    let (name, words) = (words.next().unwrap_or(""), words.collect::<Vec<_>>());
    // Functions with `approx` have their own.
    if let Some(at) = words.iter().position(|word| *word == "ftz")
        && !arithmetic::is_approximate(name, &words)
    {
        let op = named(name, &[&words[..at], &words[at + 1..]].concat(), operands)?;
        return if is_single(&op) { Ok(Op::Flushed(Box::new(op))) } else { Err("`.ftz` is not known here".into()) };
    }
    named(name, &words, operands)
}

/// True for arithmetic on f32, or a conversion from or to it.
fn is_single(op: &Op) -> bool {
    match op {
        Op::Unary { ty, .. } | Op::Binary { ty, .. } | Op::Ternary { ty, .. } | Op::Compare { ty, .. } => {
            *ty == Type::F32
        }
        Op::ConvertFloat { from, into, .. } => [from, into].contains(&&Type::F32),
        Op::Directed(_, op) => is_single(op),
        _ => false,
    }
}

fn named(name: &str, words: &[&str], operands: &Operands<'_>) -> Result<Op, Refusal> {
    match name {
        "mov" | "neg" | "not" | "abs" | "popc" | "clz" | "brev" | "bfind" | "add" | "sub" | "mul" | "div" | "rem"
        | "copysign" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "min" | "max" | "and"
        | "or" | "xor" | "shl" | "shr" | "mad" | "fma" | "prmt" | "bfe" | "bfi" | "shf" | "selp" | "setp" => {
            arithmetic::decode(name, words, operands)
        }
        "cvt" | "cvta" | "isspacep" => convert::decode(name, words, operands),
        "ld" | "st" | "atom" | "red" | "cp" | "mbarrier" => memory::decode(name, words, operands),
        "multimem" => multimem::decode(words, operands),
        _ => sync::decode(name, words, operands),
    }
}

/// An instruction that this crate lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Its opcode, such as `multimem.ld_reduce.relaxed.sys.global.add.v4.f32`.
    pub opcode: String,
    /// Number of occurrences in the units.
    pub count: usize,
    /// The first occurrence, with the reason it cannot be decoded.
    pub first: Error,
}

/// All instructions of a unit's functions that this crate lacks.
///
/// # Errors
///
/// A function cannot be read.
pub fn unsupported(unit: &Unit, index: &Index) -> Result<Vec<Unsupported>, Error> {
    let mut all: BTreeMap<String, Unsupported> = BTreeMap::new();
    for definition in index.definitions.iter().filter(|definition| definition.body.is_some()) {
        if definition.kind == DefinitionKind::Variable {
            continue;
        }
        let function = Function::of(unit, definition)?;
        for instruction in &function.instructions {
            if let Err(why) = decode_at_no_place(unit, &function, instruction) {
                let opcode = instruction.opcode(unit).to_owned();
                let of = all.entry(opcode.clone()).or_insert_with(|| Unsupported {
                    opcode,
                    count: 0,
                    first: at_its_place(unit, instruction, &why),
                });
                of.count += 1;
            }
        }
    }
    Ok(all.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::super::op::{
        Address, AddressBase, AtomicOp, BinaryOp, MemoryOrder, MulPart, Reduction, Rounding, ShuffleMode, Source,
        SpecialRegister, TernaryOp, UnaryOp, VoteMode, Width,
    };
    use super::*;
    use crate::module::{RegisterId, Space};
    use crate::num::Direction;

    const REGISTERS: &str =
        ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<4>;\n.reg .b64 %d<4>;\n.reg .b128 %q<2>;\n";

    /// The decoded instruction, or the first line of the error.
    fn op(text: &str) -> Result<Op, String> {
        let unit = Unit::new("t", format!(".func f() {{\n{REGISTERS}{text}\n}}").into()).unwrap();
        let index = Index::of(&unit).unwrap();
        let function = Function::of(&unit, &index.definitions[0]).unwrap_or_else(|error| panic!("{error}"));
        let operation = decode(&unit, &function, &function.instructions[0]).map_err(|error| error.to_string())?;
        Ok(operation.op)
    }

    fn p(number: u32) -> RegisterId {
        RegisterId(number)
    }

    fn h(number: u32) -> RegisterId {
        RegisterId(4 + number)
    }

    fn r(number: u32) -> RegisterId {
        RegisterId(8 + number)
    }

    fn d(number: u32) -> RegisterId {
        RegisterId(12 + number)
    }

    fn q(number: u32) -> RegisterId {
        RegisterId(16 + number)
    }

    use Source::{Constant, Register};

    #[test]
    fn arithmetic_and_moves() {
        let (a, b, c) = (Register(r(1)), Register(r(2)), Register(r(3)));
        let binary = |op, ty| Op::Binary { op, ty, says_rounding: false, to: Some(r(0)), a: a.clone(), b: b.clone() };
        assert_eq!(op("add.s32 %r0, %r1, %r2;"), Ok(binary(BinaryOp::Add, Type::S32)));
        assert_eq!(op("mul.lo.u32 %r0, %r1, %r2;"), Ok(binary(BinaryOp::Mul(MulPart::Low), Type::U32)));
        assert_eq!(op("mul.f32 %r0, %r1, %r2;"), Ok(binary(BinaryOp::Mul(MulPart::Low), Type::F32)));
        assert_eq!(op("min.bf16x2 %r0, %r1, %r2;"), Ok(binary(BinaryOp::Min, Type::Bf16x2)));
        assert_eq!(op("shr.s32 %r0, %r1, %r2;"), Ok(binary(BinaryOp::Shr, Type::S32)));
        let mul = BinaryOp::Mul(MulPart::Wide);
        let wide = Op::Binary {
            op: mul,
            ty: Type::U32,
            says_rounding: false,
            to: Some(d(0)),
            a: a.clone(),
            b: Constant(0xffff_fff8),
        };
        assert_eq!(op("mul.wide.u32 %d0, %r1, -8;"), Ok(wide));
        let fma =
            Op::Ternary { op: TernaryOp::Fma, ty: Type::F32, to: Some(r(0)), a: a.clone(), b: b.clone(), c: c.clone() };
        assert_eq!(op("fma.rn.f32 %r0, %r1, %r2, %r3;"), Ok(fma));
        let popc = Op::Unary { op: UnaryOp::Popc, ty: Type::B64, to: Some(r(0)), a: Register(d(1)) };
        assert_eq!(op("popc.b64 %r0, %d1;"), Ok(popc));
        let pack = Op::Pack { part: Width::W32, to: Some(d(0)), parts: vec![a.clone(), Constant(7)] };
        assert_eq!(op("mov.b64 %d0, {%r1, 7};"), Ok(pack));
        let unpack = Op::Unpack { part: Width::W16, to: vec![None, Some(h(1))], a: a.clone() };
        assert_eq!(op("mov.b32 {_, %h1}, %r1;"), Ok(unpack));
        let halves = Op::Pack { part: Width::W64, to: Some(q(0)), parts: vec![Register(d(0)), Register(d(1))] };
        assert_eq!(op("mov.b128 %q0, {%d0, %d1};"), Ok(halves));
        let tid = Op::ReadSpecial { register: SpecialRegister::Tid(2), width: Width::W32, to: Some(r(0)) };
        assert_eq!(op("mov.u32 %r0, %tid.z;"), Ok(tid));
        let symbol =
            Op::Unary { op: UnaryOp::Move, ty: Type::U64, to: Some(d(0)), a: Source::Symbol("table".into(), 8) };
        assert_eq!(op("mov.u64 %d0, table+8;"), Ok(symbol));
        let select = Op::Select { ty: Type::B32, to: Some(r(0)), a, b: Constant(0), predicate: Register(p(1)) };
        assert_eq!(op("selp.b32 %r0, %r1, 0, %p1;"), Ok(select));
    }

    #[test]
    fn many_instructions_that_are_lacking_are_counted_in_linear_time() {
        let unit = Unit::new("t", format!(".func f() {{ {} }}", "surprise.b32; ".repeat(100_000)).into()).unwrap();
        let start = std::time::Instant::now();
        let lacking = unsupported(&unit, &Index::of(&unit).unwrap()).unwrap();
        assert_eq!((lacking.len(), lacking[0].count), (1, 100_000));
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }

    #[test]
    fn conversions() {
        let from_register =
            |rounding, from, into, to, a| Op::ConvertFloat { rounding, from, into, to: Some(to), a: Register(a) };
        let expected = from_register(Rounding::Nearest, Type::F32, Type::Bf16, h(0), r(1));
        assert_eq!(op("cvt.rn.bf16.f32 %h0, %r1;"), Ok(expected));
        let expected = from_register(Rounding::TowardsZeroWhole, Type::F32, Type::S32, r(0), r(1));
        assert_eq!(op("cvt.rzi.s32.f32 %r0, %r1;"), Ok(expected));
        let expected = from_register(Rounding::Directed(Direction::Down), Type::U64, Type::F16, h(0), d(1));
        assert_eq!(op("cvt.rm.f16.u64 %h0, %d1;"), Ok(expected));
        let expected = from_register(Rounding::UpWhole, Type::F64, Type::U8, r(0), d(1));
        assert_eq!(op("cvt.rpi.u8.f64 %r0, %d1;"), Ok(expected));
        let expected = Op::ConvertWhole { from: Type::S8, into: Type::S16, to: Some(h(0)), a: Register(h(1)) };
        assert_eq!(op("cvt.s16.s8 %h0, %h1;"), Ok(expected));
        let expected = Op::ConvertPair { from: Type::E4m3x2, into: Type::F16x2, to: Some(r(0)), a: Register(h(1)) };
        assert_eq!(op("cvt.rn.f16x2.e4m3x2 %r0, %h1;"), Ok(expected));
        let (a, b) = (Register(r(1)), Register(r(2)));
        assert_eq!(
            op("cvt.rn.satfinite.e5m2x2.f32 %h0, %r1, %r2;"),
            Ok(Op::ConvertPairFromF32 { into: Type::E5m2x2, to: Some(h(0)), a, b })
        );
        let expected =
            Op::ConvertAddress { space: Space::Shared, from_generic: true, to: Some(d(0)), a: Register(d(1)) };
        assert_eq!(op("cvta.to.shared.u64 %d0, %d1;"), Ok(expected));
    }

    #[test]
    fn memory() {
        let at = |base, offset, space| Address { base, offset, space };
        let address = at(AddressBase::Register(d(1)), -8, Some(Space::Global));
        let load = Op::Load { ty: Type::U64, order: MemoryOrder::Relaxed, to: vec![Some(d(2)), None], address };
        assert_eq!(op("ld.volatile.global.v2.u64 {%d2, _}, [%d1+-8];"), Ok(load));
        let address = at(AddressBase::Symbol("s".into()), 16, Some(Space::Shared));
        let store = Op::Store { ty: Type::U8, order: MemoryOrder::Weak, address, values: vec![Register(r(1))] };
        assert_eq!(op("st.shared.u8 [s+16], %r1;"), Ok(store));
        let address = at(AddressBase::Register(d(1)), 0, None);
        let load =
            Op::Load { ty: Type::B32, order: MemoryOrder::Acquire, to: vec![Some(r(0))], address: address.clone() };
        assert_eq!(op("ld.acquire.sys.b32 %r0, [%d1];"), Ok(load));
        let (order, a) = (MemoryOrder::Relaxed, Register(r(1)));
        let cas = Op::Atomic {
            op: AtomicOp::CompareAndSwap,
            ty: Type::B32,
            order,
            to: Some(r(0)),
            address,
            a,
            b: Some(Constant(1)),
        };
        assert_eq!(op("atom.cas.b32 %r0, [%d1], %r1, 1;"), Ok(cas));
        let address = at(AddressBase::Register(r(2)), 0, Some(Space::Shared));
        let wait = Op::BarrierTryWait { to: Some(p(0)), address, state: Register(d(0)) };
        assert_eq!(op("mbarrier.try_wait.shared.b64 %p0, [%r2], %d0;"), Ok(wait));
    }

    #[test]
    fn what_threads_do_together() {
        let reduce = Reduction { mode: VoteMode::Any, to: Some(p(0)), predicate: Register(p(1)), inverted: false };
        let barrier = Op::Barrier { number: Constant(3), threads: Some(Register(r(1))), reduce: Some(reduce) };
        for words in ["pred", "aligned.pred", "pred.aligned"] {
            assert_eq!(op(&format!("barrier.red.or.{words} %p0, 3, %r1, %p1;")), Ok(barrier.clone()), "{words}");
        }
        assert_eq!(op("bar.sync 0;"), Ok(Op::Barrier { number: Constant(0), threads: None, reduce: None }));
        let members = Constant(0xffff_ffff);
        let vote = Op::Vote {
            mode: VoteMode::All,
            to: Some(p(0)),
            predicate: Register(p(1)),
            inverted: true,
            members: members.clone(),
        };
        assert_eq!(op("vote.sync.all.pred %p0, !%p1, -1;"), Ok(vote));
        let shuffle = Op::Shuffle {
            mode: ShuffleMode::Down,
            to: Some(r(0)),
            inside: Some(p(2)),
            a: Register(r(1)),
            by: Constant(16),
            clamp: Constant(31),
            members,
        };
        assert_eq!(op("shfl.sync.down.b32 %r0|%p2, %r1, 16, 31, -1;"), Ok(shuffle));
        let call =
            Op::Call { target: Register(d(1)), results: vec!["a".into()], arguments: vec!["b".into(), "c".into()] };
        assert_eq!(op("call.uni (a), %d1, (b, c), prototype;"), Ok(call));
        assert_eq!(op("fence.acq_rel.sys;"), Ok(Op::Fence { only_block: false }));
        assert_eq!(op("membar.cta;"), Ok(Op::Fence { only_block: true }));
        assert_eq!(op("top: bra.uni top;"), Ok(Op::Branch { target: 0 }));
    }

    #[test]
    fn what_is_not_known_is_refused_with_its_text() {
        for (text, message) in [
            ("multimem.ld_reduce.mul.f32 %r0, [%d1];", "this instruction is not known"),
            ("multimem.ld_reduce.min.f32 %r0, [%d1];", "this access is not known for f32"),
            ("multimem.st.v4.f64 [%d1], {%d0, %d0, %d0, %d0};", "this access is not known for f64"),
            ("add.b32 %r0, %r1, %r2;", "`add` is not defined for b32"),
            ("add.s32 %r0, %r1;", "3 operands are expected, not 2"),
            ("add.s32 %d0, %r1, %r2;", "a register of 64 bits stands where one of 32 is expected"),
            ("add.s32 3, %r1, %r2;", "the result needs a register"),
            ("mul.s32 %r0, %r1, %r2;", "this form of `mul` is not defined for s32"),
            ("add.ra.f32 %r0, %r1, %r2;", "this instruction is not known"),
            ("add.ftz.f64 %d0, %d1, %d2;", "`.ftz` is not known here"),
            ("setp.ltu.s32 %p0, %r1, %r2;", "this comparison is not defined for s32"),
            ("add.rz.f64 %d0, %d1, %d2;", "this form of `add` is not defined for f64"),
            ("rcp.f32 %r0, %r1;", "this instruction is not known"),
            ("ex2.approx.f64 %d0, %d1;", "`ex2` is not defined for f64"),
            ("mov.u32 %r0, %surprise;", "the special register `%surprise` is not known"),
            ("mov.b64 %d0, {%r0, %r1, %r2};", "64 bits cannot be moved as 3 parts"),
            ("ld.global.v2.u32 %r0, [%d1];", "2 registers are expected, not 1"),
            ("ld.global.u32 %r0, [%r1];", "a register of 32 bits stands where one of 64 is expected"),
            ("ld.global.u64 %r0, [%d1];", "a register of type b32 holds no u64"),
            ("atom.max.f32 %r0, [%d1], %r1;", "this atomic is not known for f32"),
            ("cvt.f16.f64 %h0, %d1;", "this conversion is not known"),
            ("cvt.rn.f64.f16 %d0, %h1;", "this conversion is not known"),
            ("cvt.rz.s32.f32 %r0, %r1;", "this conversion is not known"),
            ("cvt.rni.f32.f64 %r0, %d1;", "this conversion is not known"),
            ("bra %r1;", "a branch leads to a label"),
            ("setp.lt.b32 %p0, %r1, %r2;", "this comparison is not defined for b32"),
        ] {
            assert_eq!(op(text), Err(format!("t:7:1: {message}: `{text}`")));
        }
    }
}
