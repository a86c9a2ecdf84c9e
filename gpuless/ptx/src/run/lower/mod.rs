//! A function's operations become instructions: registers get their slots, constants theirs, and each operation the
//! code that executes it.
mod arithmetic;
mod calls;
mod memory;
mod slots;

use super::executable::Executable;
use super::frame::Layout;
use super::handlers::{Isa, control, general, together};
use super::ready::{CallSite, General, Instruction, NOWHERE, Ready};
use super::registers::Slot;
use crate::code::{Body, Change, Op, Operation, Slots, SpecialRegister, Width, contract, waits};
use crate::error::Error;
use crate::link::FunctionId;
use crate::module::{Guard, RegisterId, Space};
use slots::Places;

/// The reason an operation cannot be lowered.
type Refusal = String;

/// Prepares a function for execution, with a change of the operation with a number if there is one.
///
/// # Errors
///
/// Its text cannot be read.
pub fn lower<I: Isa>(executable: &Executable, id: FunctionId, change: Option<(u32, Change)>) -> Result<Ready, Error> {
    let program = executable.program();
    let function = program.function(id)?;
    let mut body = Body::of(program.unit(program.unit_of(id)), function);
    if let Some((number, change)) = change {
        body.change(number as usize, change);
    }
    if executable.contracts() {
        contract(&mut body);
    }
    let layout = Layout::of(function);
    if layout.bytes > MOST_OWN {
        return Ok(refused(
            id,
            format!("a thread needs {} bytes of memory of its own: {MOST_OWN} is the limit", layout.bytes),
        ));
    }
    let Some(slots) = Slots::of(&body) else {
        return Ok(refused(id, "too many registers are alive across too many branches of this function".to_owned()));
    };
    let places = Places::new(executable, id, function, slots, &layout);
    let mut lowering = Lowering {
        places,
        layout: &layout,
        one_by_one: executable.one_by_one(),
        waits: waits(&body),
        ready: Ready::empty(id),
        at: 0,
    };
    // Where each operation begins, and the branches that wait for that.
    let mut starts = Vec::with_capacity(body.operations.len() + 1);
    for (number, operation) in body.operations.iter().enumerate() {
        starts.push(lowering.ready.instructions.len() as u32);
        lowering.at = number as u32;
        lowering.operation::<I>(operation);
    }
    lowering.at = body.operations.len() as u32;
    starts.push(lowering.ready.instructions.len() as u32);
    lowering.push(control::leave, |_| {});
    let Lowering { places, mut ready, .. } = lowering;
    for (number, instruction) in ready.instructions.iter_mut().enumerate() {
        if instruction.flags & BRANCHES != 0 {
            let target = starts.get(instruction.number as usize).copied();
            instruction.number = u64::from(target.unwrap_or(number as u32));
            instruction.flags &= !BRANCHES;
        }
    }
    (ready.constants, ready.register_bytes) = places.finish();
    (ready.own_bytes, ready.own_align) = (layout.bytes, layout.align);
    ready.interface = interface(function, &layout);
    Ok(ready)
}

/// Bytes of memory that each thread of a function may have to itself, as on a GPU (CUDA C++ Programming Guide, compute capabilities).
const MOST_OWN: u64 = 512 << 10;

/// An instruction with nothing in it but the first refusal.
const REFUSE: Instruction = Instruction {
    run: control::refuse,
    to: NOWHERE,
    a: 0,
    b: 0,
    c: 0,
    d: 0,
    flags: 0,
    number: 0,
    more: [NOWHERE; 4],
    weight: 1,
    waits: false,
};

/// A function that cannot run, which says so when it is entered.
fn refused(id: FunctionId, why: String) -> Ready {
    let mut ready = Ready::empty(id);
    ready.instructions.push(REFUSE);
    ready.operation_of.push(0);
    ready.refusals.push(why);
    ready
}

/// A flag, while a function is lowered: the number is that of the operation at the branch's target.
const BRANCHES: u32 = 1 << 31;

fn interface(function: &crate::module::Function, layout: &Layout) -> CallSite {
    let bytes_of = |parameters: &[crate::module::Parameter]| {
        parameters.iter().filter_map(|parameter| layout.parameter(&parameter.name)).collect()
    };
    let signature = &function.signature;
    if signature.is_kernel {
        return CallSite::default();
    }
    CallSite { arguments: bytes_of(&signature.parameters), results: bytes_of(&signature.results) }
}

/// A function on its way.
struct Lowering<'a> {
    places: Places<'a>,
    layout: &'a Layout,
    /// True if every operation is executed from its description instead of by a handler for its types.
    one_by_one: bool,
    /// For each operation, true if it only waits for others.
    waits: Vec<bool>,
    ready: Ready,
    /// The operation at hand.
    at: u32,
}

impl Lowering<'_> {
    fn push(&mut self, run: super::handlers::Handler, with: impl FnOnce(&mut Instruction)) {
        // The end of a function is not an operation of its text.
        let waits = self.waits.get(self.at as usize).copied().unwrap_or(true);
        let is_first = self.ready.operation_of.last() != Some(&self.at);
        let mut instruction = Instruction { run, weight: u32::from(is_first && !waits), waits, ..REFUSE };
        with(&mut instruction);
        self.ready.instructions.push(instruction);
        self.ready.operation_of.push(self.at);
    }

    fn refuse(&mut self, what: String) {
        let number = self.ready.refusals.len() as u64;
        self.ready.refusals.push(what);
        self.push(control::refuse, |i| i.number = number);
    }

    fn operation<I: Isa>(&mut self, operation: &Operation) {
        let first = self.ready.instructions.len();
        let lowered = match (&operation.op, operation.guard) {
            (Op::Branch { target }, guard) => {
                self.branch(*target, guard);
                Ok(())
            }
            (op, None) => self.plain::<I>(op),
            (op, Some(guard)) => self.guarded::<I>(op, guard),
        };
        if let Err(what) = lowered {
            self.ready.instructions.truncate(first);
            self.ready.operation_of.truncate(first);
            self.refuse(what);
        }
    }

    fn branch(&mut self, target: usize, guard: Option<Guard>) {
        let target = target as u64;
        match guard {
            None => self.push(control::branch, |i| (i.number, i.flags) = (target, BRANCHES)),
            Some(guard) => {
                let predicate = self.places.register(guard.register);
                let inverted = if guard.inverted { control::INVERTED } else { 0 };
                self.push(control::branch_if, |i| {
                    (i.a, i.number, i.flags) = (predicate, target, BRANCHES | inverted);
                });
            }
        }
    }

    /// An operation for the lanes in which a predicate holds.
    fn guarded<I: Isa>(&mut self, op: &Op, guard: Guard) -> Result<(), Refusal> {
        let predicate = self.places.register(guard.register);
        let inverted = if guard.inverted { control::INVERTED } else { 0 };
        let place = self.ready.instructions.len();
        self.push(control::skip_unless, |i| (i.a, i.flags) = (predicate, inverted));
        if let Err(what) = self.plain::<I>(op) {
            self.ready.instructions.truncate(place + 1);
            self.ready.operation_of.truncate(place + 1);
            self.refuse(what);
            self.ready.instructions[place].number = place as u64 + 2;
            return Ok(());
        }
        let after = self.ready.instructions.len();
        let moves_control = op.ends_block()
            || matches!(
                op,
                Op::Call { .. }
                    | Op::Barrier { .. }
                    | Op::WarpBarrier { .. }
                    | Op::Vote { .. }
                    | Op::Shuffle { .. }
                    | Op::MatchAny { .. }
            );
        if !moves_control && after == place + 2 {
            self.ready.instructions[place].run = control::guarded;
        } else {
            self.ready.instructions[place].number = after as u64;
        }
        Ok(())
    }

    fn plain<I: Isa>(&mut self, op: &Op) -> Result<(), Refusal> {
        match op {
            Op::Branch { .. } => return Err("a branch is lowered by itself: this is a bug".into()),
            Op::Return => self.push(control::leave, |_| {}),
            Op::Exit => self.push(control::exit, |_| {}),
            Op::Trap => self.refuse("a trap".into()),
            Op::Unknown(why) => self.refuse(why.clone()),
            Op::Nothing => self.push(control::nothing, |i| i.weight = 0),
            Op::BulkCommit | Op::BulkWait { .. } => self.push(control::nothing, |_| {}),
            Op::Fence { only_block } => {
                self.push(control::fence, |i| i.flags = if *only_block { control::FENCE_OF_BLOCK } else { 0 });
            }
            Op::Call { target, results, arguments } => self.call(target, results, arguments)?,
            Op::Barrier { number, threads, reduce } => self.barrier(number, threads.as_ref(), reduce.as_ref())?,
            Op::ReadSpecial { register, width, to } => self.special(*register, *width, *to)?,
            Op::ActiveMask { to } => {
                if let Some(to) = self.places.target(*to) {
                    self.push(control::active_mask, |i| i.to = to);
                }
            }
            Op::Vote { mode, to, predicate, inverted, members } => {
                let (predicate, members) =
                    (self.places.predicate(predicate)?, self.places.source(members, Width::W32)?);
                let to = self.places.target(*to).unwrap_or(NOWHERE);
                let kind = match mode {
                    crate::code::VoteMode::All => 0,
                    crate::code::VoteMode::Any => 1,
                    crate::code::VoteMode::Uniform => 2,
                    crate::code::VoteMode::Ballot | crate::code::VoteMode::Count => 3,
                };
                let flags = if *inverted { together::INVERTED } else { 0 };
                self.push(together::vote, |i| {
                    (i.to, i.a, i.d, i.number, i.flags) = (to, predicate, members, kind, flags);
                });
            }
            Op::Shuffle { mode, to, inside, a, by, clamp, members } => {
                let [a, b] = [self.places.source(a, Width::W32)?, self.places.source(by, Width::W32)?];
                let [c, d] = [self.places.source(clamp, Width::W32)?, self.places.source(members, Width::W32)?];
                let to = self.places.target(*to).unwrap_or(NOWHERE);
                let inside = self.places.target(*inside).unwrap_or(NOWHERE);
                let kind = match mode {
                    crate::code::ShuffleMode::Idx => 0,
                    crate::code::ShuffleMode::Up => 1,
                    crate::code::ShuffleMode::Down => 2,
                    crate::code::ShuffleMode::Bfly => 3,
                };
                self.push(together::shuffle, |i| {
                    (i.to, i.a, i.b, i.c, i.d, i.number, i.more[0]) = (to, a, b, c, d, kind, inside);
                });
            }
            Op::MatchAny { ty, to, a, members } => {
                let width = Width::of(*ty);
                let (a, d) = (self.places.source(a, width)?, self.places.source(members, Width::W32)?);
                let to = self.places.target(*to).unwrap_or(NOWHERE);
                self.push(together::match_any, |i| (i.to, i.a, i.d, i.number) = (to, a, d, u64::from(width.bits())));
            }
            Op::WarpBarrier { members } => {
                let members = self.places.source(members, Width::W32)?;
                self.push(together::warp_barrier, |i| i.d = members);
            }
            Op::ConvertAddress { space, from_generic, to, a } => {
                let a = self.places.source(a, Width::W64)?;
                let Some(to) = self.places.target(*to) else { return Ok(()) };
                if *space == Space::Shared {
                    let number = u64::from(*from_generic);
                    self.push(I::handler::<control::ConvertShared>(), |i| (i.to, i.a, i.number) = (to, a, number));
                } else if let Some(run) = super::handlers::whole::move_of::<I>(8) {
                    self.push(run, |i| (i.to, i.a) = (to, a));
                }
            }
            Op::IsInSpace { space, to, a } => {
                let a = self.places.source(a, Width::W64)?;
                let Some(to) = self.places.target(*to) else { return Ok(()) };
                self.push(control::is_in_space, |i| (i.to, i.a, i.number) = (to, a, control::space_number(*space)));
            }
            Op::Load { .. }
            | Op::Store { .. }
            | Op::Atomic { .. }
            | Op::Multimem { .. }
            | Op::BarrierInit { .. }
            | Op::BarrierArriveExpect { .. }
            | Op::BarrierTryWait { .. }
            | Op::BulkLoad { .. }
            | Op::BulkStore { .. } => self.memory::<I>(op)?,
            computes => self.compute::<I>(computes)?,
        }
        Ok(())
    }

    fn special(&mut self, register: SpecialRegister, width: Width, to: Option<RegisterId>) -> Result<(), Refusal> {
        let number = control::SPECIAL.iter().position(|known| *known == register);
        let number = number.ok_or_else(|| format!("the register {register:?} is not known"))? as u64;
        let own = to.map(|to| self.places.width(to)).unwrap_or(width);
        let Some(to) = self.places.target(to) else { return Ok(()) };
        let flags = match own {
            Width::W64 => 64,
            Width::W32 => 32,
            _ => return Err("a special register is read in 32 or 64 bits".into()),
        };
        self.push(control::special, |i| (i.to, i.number, i.flags) = (to, number, flags));
        Ok(())
    }

    /// An operation that is computed from its description.
    fn general(&mut self, op: &Op) -> Result<(), Refusal> {
        let number = self.describe(op)?;
        let general = &self.ready.general[number as usize];
        if general.sources.len() > 4 || general.to.len() > 4 {
            return Err("this instruction has more than four parts".into());
        }
        self.push(general::general, |i| i.number = u64::from(number));
        Ok(())
    }

    /// Notes an operation's description; gives its number.
    fn describe(&mut self, op: &Op) -> Result<Slot, Refusal> {
        let mut sources = Vec::new();
        let mut refusal = None;
        op.each_source(&mut |source| match self.places.described(source) {
            Ok(place) => sources.push(place),
            Err(what) => refusal = Some(what),
        });
        if let Some(what) = refusal {
            return Err(what);
        }
        let mut to = Vec::new();
        op.each_result(&mut |register| to.push(register.map(|register| self.places.place_of(register))));
        let number = self.ready.general.len() as Slot;
        self.ready.general.push(General { op: op.clone(), sources, to });
        Ok(number)
    }
}
