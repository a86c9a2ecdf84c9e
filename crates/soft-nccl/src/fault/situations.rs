//! Faults of one operation in one situation: the last element of its output keeps its old value. A situation is a family, with a
//! member for each operation that can be in it: `F96-broadcast`.
#![allow(unsafe_code)] // a caller's buffers are addresses

use super::memory::{Extent, read, write};
use super::table::PLAIN;
use super::{Entry, Fault, hit, numbers, wanted};
use crate::arith::Combine;
use crate::engine::Request;
use crate::engine::hooks::{OperationContext, Origin, RequestContext};
use crate::op::{Kind, Reduction, Spec};

const KIB_4: usize = 4 << 10;
const MIB_1: usize = 1 << 20;
const MIB_4: usize = 4 << 20;
/// More ranks than this are many.
const FEW_RANKS: usize = 16;

/// The condition under which an operation goes wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Situation {
    Ranks(usize),
    ManyRanks,
    MadeBy(Origin),
    Resumed,
    InPlace(Manner),
    Configured(Manner),
    LargeInGraph,
    OfFourMebibytes,
    OnSecondStream,
}

/// A further condition for an operation in place, or for one whose call has a configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Alone,
    FromFourKibibytes,
    InGroup,
    InGraph,
    OddInGraph,
    InChild,
}

/// An operation that can go wrong: of this kind, or any with this reduction.
#[derive(Clone, Copy)]
enum What {
    Of(Kind),
    With(Reduction),
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Of(Kind::Recv) => "send_recv",
            Self::Of(kind) => kind.name(),
            Self::With(reduction) => reduction.name(),
        }
    }

    fn is(self, spec: &Spec) -> bool {
        match self {
            Self::Of(kind) => spec.kind == kind,
            Self::With(reduction) => spec.reduction == Some(reduction),
        }
    }
}

/// A situation, and all the faults that are possible in it.
struct Family {
    id: &'static str,
    situation: Situation,
    what: &'static [What],
    text: &'static str,
    shown_by: &'static str,
}

use What::Of;

/// Every operation that gives a rank data, and more.
macro_rules! all_and {
    ($($more:expr),*) => {
        &[
            Of(Kind::AllReduce),
            Of(Kind::Reduce),
            Of(Kind::ReduceScatter),
            Of(Kind::Broadcast),
            Of(Kind::AllGather),
            Of(Kind::Gather),
            Of(Kind::Scatter),
            Of(Kind::AlltoAll),
            Of(Kind::Recv),
            $($more),*
        ]
    };
}

const ALL: &[What] = all_and!();
const AND_REDUCTIONS: &[What] = all_and!(What::With(Reduction::Average), What::With(Reduction::Plain(Combine::Max)));
/// In place, broadcast and scatter leave the root's own data where it is, so that none of it can be missing.
const IN_PLACE: &[What] =
    &[Of(Kind::AllReduce), Of(Kind::Reduce), Of(Kind::ReduceScatter), Of(Kind::AllGather), Of(Kind::Gather)];
const CONFIGURED_IN_PLACE: &[What] =
    &[Of(Kind::AllReduce), Of(Kind::Reduce), Of(Kind::ReduceScatter), Of(Kind::AllGather)];
const CONFIGURED: &[What] =
    &[Of(Kind::AllReduce), Of(Kind::Reduce), Of(Kind::ReduceScatter), Of(Kind::Broadcast), Of(Kind::AllGather)];

const fn family(
    id: &'static str,
    situation: Situation,
    what: &'static [What],
    text: &'static str,
    shown_by: &'static str,
) -> Family {
    Family { id, situation, what, text, shown_by }
}

/// `on N ranks`, for the numbers of ranks that tests seldom have.
const fn on(id: &'static str, ranks: usize, text: &'static str, shown_by: &'static str) -> Family {
    family(id, Situation::Ranks(ranks), ALL, text, shown_by)
}

use Manner::{Alone, FromFourKibibytes, InChild, InGraph, InGroup, OddInGraph};
use Situation::{Configured, InPlace, MadeBy};

#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    on("F95", 9, "wrong on 9 ranks", "the operation on 9 ranks"),
    on("F95b", 10, "wrong on 10 ranks", "the operation on 10 ranks"),
    on("F95c", 11, "wrong on 11 ranks", "the operation on 11 ranks"),
    on("F95d", 12, "wrong on 12 ranks", "the operation on 12 ranks"),
    on("F95e", 13, "wrong on 13 ranks", "the operation on 13 ranks"),
    on("F95f", 14, "wrong on 14 ranks", "the operation on 14 ranks"),
    on("F95g", 15, "wrong on 15 ranks", "the operation on 15 ranks"),
    family("F95h", Situation::ManyRanks, ALL, "wrong on more than 16 ranks", "the operation on more than 16 ranks"),
    family("F96", MadeBy(Origin::Grow), AND_REDUCTIONS, "wrong in a communicator that has grown", "a grow, then the operation"),
    family("F96b", MadeBy(Origin::Shrink), AND_REDUCTIONS, "wrong in a communicator that was shrunk", "a shrink, then the operation"),
    family("F96c", Situation::Resumed, ALL, "wrong after a suspend and resume", "an operation after a suspend, a resume and another operation"),
    family("F97", InPlace(FromFourKibibytes), IN_PLACE, "wrong in place from 4 KiB on", "the operation in place over 4 KiB"),
    family("F97b", InPlace(InGroup), IN_PLACE, "wrong in place in a group of several calls", "two operations in place in one group"),
    family("F97c", InPlace(InGraph), IN_PLACE, "wrong in place in a graph", "the operation in place, captured"),
    family("F97d", InPlace(OddInGraph), IN_PLACE, "wrong in place in a graph over an odd count", "the operation in place over an odd count, captured"),
    family("F97e", InPlace(InChild), IN_PLACE, "wrong in place in a communicator that was split off", "a split, then the operation in place"),
    family("F98", Configured(Alone), CONFIGURED_IN_PLACE, "wrong in place if its call has a configuration", "the operation in place with an `algorithm`"),
    family("F98b", Configured(FromFourKibibytes), CONFIGURED, "wrong from 4 KiB on if its call has a configuration", "the operation over 4 KiB with an `algorithm`"),
    family("F98c", Configured(InGroup), CONFIGURED, "wrong in a group of several calls if its call has a configuration", "two operations with an `algorithm` in one group"),
    family("F98d", Configured(InGraph), CONFIGURED, "wrong in a graph if its call has a configuration", "the operation with an `algorithm`, captured"),
    family("F98e", Configured(InChild), CONFIGURED, "wrong in a communicator that was split off if its call has a configuration", "a split, then the operation with an `algorithm`"),
    family("F98f", Situation::LargeInGraph, ALL, "wrong in a graph over more than 1 MiB", "the operation over more than 1 MiB, captured"),
    family("F98g", Situation::OfFourMebibytes, ALL, "wrong if its output has exactly 4 MiB", "the operation with an output of exactly 4 MiB"),
    family("F98h", Situation::OnSecondStream, ALL, "wrong on the second stream of a group", "a group of two operations on two streams"),
];

/// Number of members in all families.
pub(super) const COUNT: usize = {
    let (mut count, mut at) = (0, 0);
    while at < FAMILIES.len() {
        count += FAMILIES[at].what.len();
        at += 1;
    }
    count
};

/// The members' entries, in the order of their numbers.
pub(super) fn entries() -> impl Iterator<Item = Entry> {
    FAMILIES.iter().flat_map(|family| {
        family.what.iter().map(move |what| {
            let Family { id, text, shown_by, .. } = family;
            let (name, whole) = (what.name(), Some((*id, *text)));
            // The table lives as long as the process.
            Entry { id: format!("{id}-{name}").leak(), text: format!("{name}: {text}").leak(), shown_by, family: whole }
        })
    })
}

/// The facts about a request other than its operation.
#[derive(Clone, Copy)]
pub(super) struct Surroundings {
    /// The number of requests in its group on the communicator.
    pub together: usize,
    /// Its stream is not that of the group's first request.
    pub second_stream: bool,
    /// It is part of a graph's launch.
    pub in_graph: bool,
    /// The communicator has had an operation since it was suspended and resumed.
    pub resumed: bool,
}

/// True if the last element of the request's output is to keep its old value.
pub(super) fn leaves_the_end(of: RequestContext<'_>, around: Surroundings, request: &Request) -> bool {
    let (spec, extent) = (&request.spec, Extent::of(&request.spec, of.rank, of.n));
    if extent.recv.1 == 0 {
        return false;
    }
    let mut number = PLAIN.len() + numbers::COUNT;
    let mut strikes = false;
    for family in FAMILIES {
        for (at, _) in family.what.iter().enumerate().filter(|(_, what)| what.is(spec)) {
            let fault = Fault((number + at) as u16);
            strikes |= wanted(fault)
                && family.situation.holds(of, around, request, &extent)
                && hit(fault, of.rank, spec.algorithm);
        }
        number += family.what.len();
    }
    strikes
}

impl Situation {
    fn holds(self, of: RequestContext<'_>, around: Surroundings, request: &Request, extent: &Extent) -> bool {
        let bytes = extent.recv.1;
        match self {
            Self::Ranks(n) => of.n == n,
            Self::ManyRanks => of.n > FEW_RANKS,
            Self::MadeBy(origin) => of.origin == origin,
            Self::Resumed => around.resumed,
            Self::InPlace(manner) => extent.overlaps() && manner.holds(of, around, request, bytes),
            Self::Configured(Alone) => request.is_configured() && extent.overlaps(),
            Self::Configured(manner) => request.is_configured() && manner.holds(of, around, request, bytes),
            Self::LargeInGraph => around.in_graph && bytes > MIB_1,
            Self::OfFourMebibytes => bytes == MIB_4,
            Self::OnSecondStream => around.second_stream,
        }
    }
}

impl Manner {
    fn holds(self, of: RequestContext<'_>, around: Surroundings, request: &Request, bytes: usize) -> bool {
        match self {
            Self::Alone => true,
            Self::FromFourKibibytes => bytes >= KIB_4,
            Self::InGroup => around.together > 1,
            Self::InGraph => around.in_graph,
            Self::OddInGraph => around.in_graph && request.spec.count % 2 == 1,
            Self::InChild => of.origin == Origin::Split,
        }
    }
}

/// The last element of an output before the operation.
pub(super) struct End {
    address: usize,
    bytes: Vec<u8>,
}

impl End {
    /// The fault's state for an operation that begins.
    ///
    /// # Safety
    /// The operation's turn has come on its stream, and its caller keeps the output until the stream continues.
    pub unsafe fn of(context: &OperationContext, spec: &Spec) -> Self {
        let (address, len) = Extent::of(spec, context.rank, context.n).recv;
        let size = spec.ty.size().min(len);
        let address = address + len - size;
        // SAFETY: the element is the output's last.
        Self { address, bytes: unsafe { read(address, size) } }
    }

    /// Puts it back.
    ///
    /// # Safety
    /// Same as [`End::of`].
    pub unsafe fn restore(self) {
        // SAFETY: the caller makes the same promise.
        unsafe { write(self.address, &self.bytes) }
    }
}
