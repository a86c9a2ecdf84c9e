//! Typed instructions.
use crate::module::{Guard, Name, RegisterId, Space, Type};
use crate::num::Direction;

/// The width of a register's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Width {
    Predicate,
    W16,
    W32,
    W64,
    W128,
}

impl Width {
    /// The width of a register of this type. Values of 8 bits have registers of 16.
    pub fn of(ty: Type) -> Self {
        match ty.bytes() {
            _ if ty == Type::Pred => Self::Predicate,
            1 | 2 => Self::W16,
            4 => Self::W32,
            8 => Self::W64,
            _ => Self::W128,
        }
    }

    /// Bits of a value.
    pub fn bits(self) -> u32 {
        match self {
            Self::Predicate => 1,
            Self::W16 => 16,
            Self::W32 => 32,
            Self::W64 => 64,
            Self::W128 => 128,
        }
    }
}

/// The bits of a constant, in the width that its instruction requires.
pub type ConstantBits = u64;

/// An operand that an instruction reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A register's value.
    Register(RegisterId),
    /// The same bits in every lane.
    Constant(ConstantBits),
    /// The address of a variable, parameter or function, plus an offset in bytes.
    Symbol(Name, i64),
}

/// The address of a load or store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub base: AddressBase,
    /// Bytes added to the base.
    pub offset: i64,
    /// The space; `None` for a generic address.
    pub space: Option<Space>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressBase {
    /// A register's value.
    Register(RegisterId),
    /// A variable or parameter.
    Symbol(Name),
    /// No base: the offset is the address.
    Nothing,
}

/// Operations with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    Move,
    Neg,
    Not,
    Abs,
    Popc,
    Clz,
    Brev,
    /// `bfind`, with or without `shiftamt`.
    Bfind {
        shift_amount: bool,
    },
    /// `rcp`, rounded in a direction.
    Reciprocal(Direction),
    /// `sqrt`, rounded in a direction.
    SquareRoot(Direction),
    /// A function whose last bits the ISA leaves open; with `flush`, subnormal operands and results are zero.
    Approximate {
        function: Approximate,
        flush: bool,
    },
}

/// Functions with `approx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Approximate {
    Reciprocal,
    SquareRoot,
    ReciprocalSquareRoot,
    /// 2 to this power.
    Exponential,
    /// To the base of 2.
    Logarithm,
    Sine,
    Cosine,
    HyperbolicTangent,
}

/// The part of a product that an instruction gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MulPart {
    Low,
    High,
    /// All of it, in a register of twice the width.
    Wide,
}

/// Operations with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    Add,
    Sub,
    /// A product; the part applies to whole numbers only.
    Mul(MulPart),
    Div,
    Rem,
    Min,
    Max,
    /// The smaller number, or 0 if it is negative.
    MinRelu,
    /// The larger number, or 0 if it is negative.
    MaxRelu,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    /// The second number with the sign of the first.
    CopySign,
}

/// Operations with three operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TernaryOp {
    /// A product and a sum of whole numbers.
    Mad(MulPart),
    /// The same of floating-point numbers, rounded once.
    Fma,
    /// `fma` with the third operand negated: the fusion of a product and a difference.
    ProductMinus,
    /// `fma` of the first operand's negative.
    MinusProduct,
    Prmt,
    /// `prmt` with a mode: the selectors that the third operand chooses by its two low bits.
    PrmtMode([u16; 4]),
    Bfe,
    /// `shf.l`; true for `wrap`.
    FunnelLeft {
        wrap: bool,
    },
    FunnelRight {
        wrap: bool,
    },
}

/// The relation that a comparison tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// `equ` to `geu`: the relation holds, or one of both is a NaN.
    EqOrNan,
    NeOrNan,
    LtOrNan,
    LeOrNan,
    GtOrNan,
    GeOrNan,
    /// `num`: neither is a NaN.
    Numbers,
    /// `nan`: one of both is a NaN.
    Nan,
}

/// The rounding of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// It is exact, or has no rounding to say.
    None,
    /// `rn`: to nearest, ties to even.
    Nearest,
    /// `rz`, `rm` and `rp`.
    Directed(Direction),
    /// `rni`: to the nearest whole number, ties to even.
    NearestWhole,
    /// `rzi`: to a whole number, towards zero.
    TowardsZeroWhole,
    /// `rmi`: to a whole number, towards minus infinity.
    DownWhole,
    /// `rpi`: to a whole number, towards infinity.
    UpWhole,
    /// `sat`: to the nearest number from 0 to 1.
    ToUnit,
}

/// The guarantees that an access to memory gives to other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryOrder {
    /// No guarantees.
    Weak,
    /// `volatile`, `relaxed` and `mmio`: it happens, once, and is not torn.
    Relaxed,
    /// `acquire`: later accesses are seen later.
    Acquire,
    /// `release`: earlier accesses are seen earlier.
    Release,
    /// Both acquire and release, for atomics.
    AcquireRelease,
}

impl MemoryOrder {
    /// The order if it applies to the threads of the block alone, which see each other's accesses in order anyway.
    pub fn within_block(self) -> Self {
        match self {
            Self::Weak => Self::Weak,
            _ => Self::Relaxed,
        }
    }
}

/// The operation of an atomic on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
    Increment,
    Decrement,
}

/// An access to multicast memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MultimemAction {
    /// `ld_reduce`: reads the memory of all members, and reduces the values; with `wide`, in single precision (`acc::f32`).
    LoadReduce {
        /// The reduction.
        op: BinaryOp,
        /// True if half-precision numbers are added in single precision.
        wide: bool,
    },
    /// `st`: writes to the memory of all members.
    Store,
    /// `red`: changes the memory of each member.
    Reduce {
        /// The operation on the old value and the new one.
        op: BinaryOp,
    },
}

/// The result of a vote or of a barrier with a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VoteMode {
    /// True if the predicate is true in every lane.
    All,
    /// True if the predicate is true in some lane.
    Any,
    /// The same in every lane.
    Uniform,
    /// A bit for each lane in which it is true.
    Ballot,
    /// The number of threads in which it is true.
    Count,
}

/// A value that belongs to a thread, a block or a launch (PTX ISA, 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecialRegister {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    LanemaskEq,
    LanemaskLt,
    LanemaskLe,
    LanemaskGt,
    LanemaskGe,
    Clock,
    Clock64,
    ClockHigh,
    GlobalTimer,
    ClusterCtaRank,
    ClusterNctaRank,
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterId(u8),
    NclusterId(u8),
    SmId,
    GridId,
    DynamicSharedSize,
    TotalSharedSize,
}

/// An instruction with its guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The predicate before it.
    pub guard: Option<Guard>,
    /// The operation itself.
    pub op: Op,
}

/// The operation of an instruction. `to` are registers that it writes; `None` where the result is discarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Unary {
        op: UnaryOp,
        ty: Type,
        to: Option<RegisterId>,
        a: Source,
    },
    /// `says_rounding`: the rounding is written, so that a product and a sum stay apart.
    Binary {
        op: BinaryOp,
        ty: Type,
        says_rounding: bool,
        to: Option<RegisterId>,
        a: Source,
        b: Source,
    },
    Ternary {
        op: TernaryOp,
        ty: Type,
        to: Option<RegisterId>,
        a: Source,
        b: Source,
        c: Source,
    },
    /// `bfi`.
    BitFieldInsert {
        ty: Type,
        to: Option<RegisterId>,
        field: Source,
        into: Source,
        start: Source,
        length: Source,
    },
    /// `selp`: `a` where the predicate is true.
    Select {
        ty: Type,
        to: Option<RegisterId>,
        a: Source,
        b: Source,
        predicate: Source,
    },
    /// `setp`.
    Compare {
        comparison: Comparison,
        ty: Type,
        to: Option<RegisterId>,
        a: Source,
        b: Source,
    },
    /// `mov` of a special register.
    ReadSpecial {
        register: SpecialRegister,
        width: Width,
        to: Option<RegisterId>,
    },
    /// `mov` that combines parts into a wide register, lowest part first.
    Pack {
        part: Width,
        to: Option<RegisterId>,
        parts: Vec<Source>,
    },
    /// `mov` that takes a wide register apart.
    Unpack {
        part: Width,
        to: Vec<Option<RegisterId>>,
        a: Source,
    },
    /// `cvt` between whole numbers.
    ConvertWhole {
        from: Type,
        into: Type,
        to: Option<RegisterId>,
        a: Source,
    },
    /// `cvt` of one number from or to floating point.
    ConvertFloat {
        rounding: Rounding,
        from: Type,
        into: Type,
        to: Option<RegisterId>,
        a: Source,
    },
    /// `cvt` of two f32 to a pair; `a` is the upper one.
    ConvertPairFromF32 {
        into: Type,
        to: Option<RegisterId>,
        a: Source,
        b: Source,
    },
    /// `cvt` of a pair.
    ConvertPair {
        from: Type,
        into: Type,
        to: Option<RegisterId>,
        a: Source,
    },
    /// `cvta`: from a space to a generic address, or the other way with `from_generic`.
    ConvertAddress {
        space: Space,
        from_generic: bool,
        to: Option<RegisterId>,
        a: Source,
    },
    /// `isspacep`.
    IsInSpace {
        space: Space,
        to: Option<RegisterId>,
        a: Source,
    },
    Load {
        ty: Type,
        order: MemoryOrder,
        to: Vec<Option<RegisterId>>,
        address: Address,
    },
    Store {
        ty: Type,
        order: MemoryOrder,
        address: Address,
        values: Vec<Source>,
    },
    /// `atom`, and `red` without `to`.
    Atomic {
        op: AtomicOp,
        ty: Type,
        order: MemoryOrder,
        to: Option<RegisterId>,
        address: Address,
        a: Source,
        b: Option<Source>,
    },
    /// `multimem`: `to` are the results of a load, and `values` what others write.
    Multimem {
        action: MultimemAction,
        ty: Type,
        order: MemoryOrder,
        to: Vec<Option<RegisterId>>,
        address: Address,
        values: Vec<Source>,
    },
    /// `vote.sync`.
    Vote {
        mode: VoteMode,
        to: Option<RegisterId>,
        predicate: Source,
        inverted: bool,
        members: Source,
    },
    /// `shfl.sync.idx`, `.up`, `.down` and `.bfly`.
    Shuffle {
        mode: ShuffleMode,
        to: Option<RegisterId>,
        inside: Option<RegisterId>,
        a: Source,
        by: Source,
        clamp: Source,
        members: Source,
    },
    /// `match.any.sync`.
    MatchAny {
        ty: Type,
        to: Option<RegisterId>,
        a: Source,
        members: Source,
    },
    /// `activemask`.
    ActiveMask {
        to: Option<RegisterId>,
    },
    /// `bar.warp.sync`.
    WarpBarrier {
        members: Source,
    },
    /// `bar.sync` and `barrier.sync`, and with `reduce` `bar.red`; without `threads` all of the block.
    Barrier {
        number: Source,
        threads: Option<Source>,
        reduce: Option<Reduction>,
    },
    /// `fence` and `membar`.
    Fence {
        /// True if it orders accesses for the threads of its block alone, or orders nothing but accesses by different proxies.
        only_block: bool,
    },
    /// A `bra`; with a guard, for the threads in which it holds.
    Branch {
        target: usize,
    },
    Call {
        target: Source,
        results: Vec<Name>,
        arguments: Vec<Name>,
    },
    /// Returns from the function.
    Return,
    /// Ends the thread.
    Exit,
    Trap,
    /// An instruction that cannot be decoded, with the reason.
    Unknown(String),
    /// An operation that rounds to nearest, rounded in another direction instead: `rz`, `rm` or `rp`, or a [`Change`](super::Change).
    Directed(Direction, Box<Self>),
    /// `ftz`: an operation on f32 whose subnormal operands and results are zeros.
    Flushed(Box<Self>),
    /// Instructions that matter only to a GPU and do nothing here: `nanosleep`, `griddepcontrol`, `prefetch`.
    Nothing,
    /// `mbarrier.init`.
    BarrierInit {
        address: Address,
        count: Source,
    },
    /// `mbarrier.arrive.expect_tx`.
    BarrierArriveExpect {
        to: Option<RegisterId>,
        address: Address,
        bytes: Source,
    },
    /// `mbarrier.try_wait`.
    BarrierTryWait {
        to: Option<RegisterId>,
        address: Address,
        state: Source,
    },
    /// `cp.async.bulk` from global to shared memory, which completes on a barrier.
    BulkLoad {
        to: Address,
        from: Address,
        bytes: Source,
        barrier: Address,
    },
    /// `cp.async.bulk` from shared to global memory, which is part of a group.
    BulkStore {
        to: Address,
        from: Address,
        bytes: Source,
    },
    /// `cp.async.bulk.commit_group`.
    BulkCommit,
    /// `cp.async.bulk.wait_group`.
    BulkWait {
        groups: u64,
    },
}

/// The way a shuffle selects the lane that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShuffleMode {
    Idx,
    Up,
    Down,
    Bfly,
}

/// The reduction of a `bar.red`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// The way all threads' predicates are combined.
    pub mode: VoteMode,
    /// The register for the result.
    pub to: Option<RegisterId>,
    /// The predicate of each thread.
    pub predicate: Source,
    /// True if the predicate is inverted.
    pub inverted: bool,
}
