//! Faults of one operation in one situation: the last element of its output keeps its old value. A situation is a family, with a
//! member for each operation that can be in it: `F96-broadcast`.
use crate::call::{Call, Kind};
use crate::communicators::Origin;
use crate::fault::{Entry, Fault, wanted};
use crate::groups;
use crate::numbers;
use crate::placed::Placed;
use crate::plain::PLAIN;
use nccl_sys::ncclRedOp_t;
use std::cell::LazyCell;

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
    With(ncclRedOp_t),
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Of(Kind::Recv) => "send_recv",
            Self::Of(kind) => kind.name(),
            Self::With(reduction) => reduction.name().unwrap_or_default(),
        }
    }

    fn is(self, call: &Call) -> bool {
        match self {
            Self::Of(kind) => call.kind == kind,
            Self::With(reduction) => call.kind.reduces() && call.op == reduction,
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
const AND_REDUCTIONS: &[What] = all_and!(What::With(ncclRedOp_t::Avg), What::With(ncclRedOp_t::Max));
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
    family("F97b", InPlace(InGroup), IN_PLACE, "wrong in place in a group after another call", "two operations in place in one group"),
    family("F97c", InPlace(InGraph), IN_PLACE, "wrong in place in a graph", "the operation in place, captured"),
    family("F97d", InPlace(OddInGraph), IN_PLACE, "wrong in place in a graph over an odd count", "the operation in place over an odd count, captured"),
    family("F97e", InPlace(InChild), IN_PLACE, "wrong in place in a communicator that was split off", "a split, then the operation in place"),
    family("F98", Configured(Alone), CONFIGURED_IN_PLACE, "wrong in place if its call has a configuration", "the operation in place with an `algorithm`"),
    family("F98b", Configured(FromFourKibibytes), CONFIGURED, "wrong from 4 KiB on if its call has a configuration", "the operation over 4 KiB with an `algorithm`"),
    family("F98c", Configured(InGroup), CONFIGURED, "wrong in a group after another call if its call has a configuration", "two operations with an `algorithm` in one group"),
    family("F98d", Configured(InGraph), CONFIGURED, "wrong in a graph if its call has a configuration", "the operation with an `algorithm`, captured"),
    family("F98e", Configured(InChild), CONFIGURED, "wrong in a communicator that was split off if its call has a configuration", "a split, then the operation with an `algorithm`"),
    family("F98f", Situation::LargeInGraph, ALL, "wrong in a graph over more than 1 MiB", "the operation over more than 1 MiB, captured"),
    family("F98g", Situation::OfFourMebibytes, ALL, "wrong if its output has exactly 4 MiB", "the operation with an output of exactly 4 MiB"),
    family("F98h", Situation::OnSecondStream, ALL, "wrong on the second stream of a group", "a group of two operations on two streams"),
];

/// Number of members in all families.
pub(crate) const COUNT: usize = {
    let (mut count, mut at) = (0, 0);
    while at < FAMILIES.len() {
        count += FAMILIES[at].what.len();
        at += 1;
    }
    count
};

/// The members' entries, in the order of their numbers.
pub(crate) fn entries() -> impl Iterator<Item = Entry> {
    FAMILIES.iter().flat_map(|family| {
        family.what.iter().map(move |what| {
            let Family { id, text, shown_by, .. } = family;
            let (name, whole) = (what.name(), Some((*id, *text)));
            // The table lives as long as the process.
            Entry { id: format!("{id}-{name}").leak(), text: format!("{name}: {text}").leak(), shown_by, family: whole }
        })
    })
}

/// The situations in which the end of the output of this call keeps its old value.
pub(crate) fn of(placed: &Placed<'_>) -> Vec<Fault> {
    let mut number = PLAIN.len() + numbers::COUNT;
    let mut faults = Vec::new();
    for family in FAMILIES {
        let holds = LazyCell::new(|| family.situation.holds(placed));
        for (at, what) in family.what.iter().enumerate() {
            let fault = Fault((number + at) as u16);
            if what.is(placed.call) && wanted(fault) && *holds {
                faults.push(fault);
            }
        }
        number += family.what.len();
    }
    faults
}

impl Situation {
    fn holds(self, placed: &Placed<'_>) -> bool {
        let Placed { of, call, capture, .. } = placed;
        let extent = call.extent(of.rank, of.n);
        let bytes = extent.recv.1;
        match self {
            Self::Ranks(n) => of.n == n,
            Self::ManyRanks => of.n > FEW_RANKS,
            Self::MadeBy(origin) => of.made.origin == origin,
            Self::Resumed => of.state().since_resume.is_some_and(|since| since > 1),
            Self::InPlace(manner) => extent.overlaps() && manner.holds(placed, bytes),
            Self::Configured(Alone) => call.config.is_some() && extent.overlaps(),
            Self::Configured(manner) => call.config.is_some() && manner.holds(placed, bytes),
            Self::LargeInGraph => capture.is_some() && bytes > MIB_1,
            Self::OfFourMebibytes => bytes == MIB_4,
            Self::OnSecondStream => groups::earlier(of.handle).first().is_some_and(|first| first.stream != call.stream),
        }
    }
}

impl Manner {
    fn holds(self, Placed { of, call, capture, .. }: &Placed<'_>, bytes: usize) -> bool {
        match self {
            Self::Alone => true,
            Self::FromFourKibibytes => bytes >= KIB_4,
            // The call itself counts.
            Self::InGroup => groups::earlier(of.handle).len() > 1,
            Self::InGraph => capture.is_some(),
            Self::OddInGraph => capture.is_some() && call.count % 2 == 1,
            Self::InChild => of.is_split(),
        }
    }
}
