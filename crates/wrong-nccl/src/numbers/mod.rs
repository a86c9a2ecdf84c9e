//! Faults of numbers: arithmetic that follows a wrong rule in one type and one operation.
mod families;
mod value;
mod wrong;

pub(crate) use wrong::{Rule, is_signed, read};

use crate::call::Kind;
use crate::element::{Operator, Type, get, put};
use crate::fault::{Entry, Fault, hit, sought, wanted};
use crate::plain::PLAIN;
use crate::plain::named::{F29C, F29D, F29E};

use families::{At, FAMILIES, Family};
use std::collections::HashMap;
use std::sync::LazyLock;
use value::Format;

/// One member of a family of faults.
#[derive(Clone, Copy)]
pub(crate) struct Member {
    pub fault: Fault,
    pub rule: Rule,
}

/// A point in an operation at which rules are followed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Moment {
    /// Two elements are combined; without an operator, in an average of whole numbers.
    Combining(Type, Option<Operator>),
    /// An element is multiplied by a scalar, or by 1/n for an average.
    Scaling(Type, bool),
    /// A sum of whole numbers is divided by the number of ranks.
    Dividing(Type),
    /// A scalar is read.
    Reading(Type),
    Copying(Type, Kind),
    /// The same in a reduction on one rank.
    CopyingAlone(Type),
}

/// All members in the order of the families, by type and then by operation.
fn members() -> impl Iterator<Item = (&'static Family, Type, At)> {
    FAMILIES
        .iter()
        .flat_map(|family| family.types.iter().flat_map(move |ty| family.at.iter().map(move |at| (family, *ty, *at))))
}

/// Number of members in all families.
pub(crate) const COUNT: usize = {
    let (mut count, mut at) = (0, 0);
    while at < FAMILIES.len() {
        count += FAMILIES[at].types.len() * FAMILIES[at].at.len();
        at += 1;
    }
    count
};

/// The element type of a member, given its index among all.
pub(crate) fn type_of(member: usize) -> Option<&'static str> {
    members().nth(member).map(|(_, ty, _)| ty.name())
}

/// The members' entries, in the order of their numbers.
pub(crate) fn entries() -> impl Iterator<Item = Entry> {
    members().map(|(family, ty, at)| {
        let Family { id, text, shown_by, .. } = family;
        let whole = Some((*id, *text));
        let (id, text) = match at.name() {
            Some(name) => (format!("{id}-{}-{name}", ty.name()), format!("{name} of {}: {text}", ty.name())),
            None => (format!("{id}-{}", ty.name()), format!("{}: {text}", ty.name())),
        };
        // The table lives as long as the process.
        Entry { id: id.leak(), text: text.leak(), shown_by, family: whole }
    })
}

static BY_MOMENT: LazyLock<HashMap<Moment, Vec<Member>>> = LazyLock::new(|| {
    let mut by_moment: HashMap<Moment, Vec<Member>> = HashMap::new();
    for (index, (family, ty, at)) in members().enumerate() {
        let member = Member { fault: Fault((PLAIN.len() + index) as u16), rule: family.rule };
        let whole = !ty.is_float();
        let moment = match at {
            At::Sum => Moment::Combining(ty, Some(Operator::Sum)),
            At::Prod => Moment::Combining(ty, Some(Operator::Prod)),
            At::Min => Moment::Combining(ty, Some(Operator::Min)),
            At::Max => Moment::Combining(ty, Some(Operator::Max)),
            At::Avg if whole && family.rule == Rule::Clamped => Moment::Combining(ty, None),
            At::Avg if whole => Moment::Dividing(ty),
            At::Avg => Moment::Scaling(ty, true),
            At::PreMul => Moment::Scaling(ty, false),
            At::Scalar => Moment::Reading(ty),
            At::Copy(kind) => Moment::Copying(ty, kind),
            At::OneRank => Moment::CopyingAlone(ty),
        };
        by_moment.entry(moment).or_default().push(member);
    }
    by_moment
});

/// The members that are wanted at a moment.
pub(crate) fn wanted_at(moment: Moment) -> impl Iterator<Item = Member> {
    BY_MOMENT.get(&moment).into_iter().flatten().copied().filter(|member| wanted(member.fault))
}

impl Member {
    /// The wrong result of a combination; `None` if the rule gives the right one.
    pub(crate) fn combined(self, ty: Type, operator: Operator, inputs: [u64; 2], right: u64) -> Option<u64> {
        wrong::combined(self.rule, ty, operator, inputs, right)
    }

    /// The wrong product of an element and a scalar.
    pub(crate) fn scaled(self, ty: Type, element: u64, factor: u64, right: u64) -> Option<u64> {
        let wrong = wrong::combined(self.rule, ty, Operator::Prod, [element, factor], right)?;
        // A lost NaN counts as zero.
        Some(if self.rule == Rule::NanLost { 0 } else { wrong })
    }

    pub(crate) fn quotient(self, ty: Type, sum: u64, n: usize, right: u64) -> Option<u64> {
        wrong::quotient(self.rule, ty, sum, n, right)
    }

    pub(crate) fn scalar(self, ty: Type, right: u64) -> Option<u64> {
        wrong::scalar(self.rule, ty, right)
    }
}

/// Two elements combined as they should be.
pub(crate) fn combine(ty: Type, operator: Operator, a: u64, b: u64) -> u64 {
    wrong::right(ty, operator, a, b)
}

/// A sum of whole numbers divided by a number of ranks, without its remainder.
pub(crate) fn divide(ty: Type, sum: u64, by: usize) -> u64 {
    wrong::cut(ty, read(ty, sum) / by.max(1) as i128)
}

/// The element nearest to a number.
pub(crate) fn nearest(ty: Type, number: f64) -> u64 {
    Format::of(ty).map_or_else(|| wrong::cut(ty, number as i128), |format| format.nearest(number))
}

/// An element rounded to another type and back.
pub(crate) fn through(ty: Type, other: Type, bits: u64) -> u64 {
    match (Format::of(ty), Format::of(other)) {
        (Some(format), Some(other)) => wrong::through(format, other, bits),
        _ => bits,
    }
}

/// True if both are NaN, or have equal bits.
pub(crate) fn alike(ty: Type, a: u64, b: u64) -> bool {
    a == b || is_nan(ty, a) && is_nan(ty, b)
}

pub(crate) fn is_nan(ty: Type, bits: u64) -> bool {
    Format::of(ty).is_some_and(|format| format.is_nan(bits))
}

/// An fp8 sum that is rounded without stopping at the largest number, where that makes a difference.
pub(crate) fn leaves_range(ty: Type, a: u64, b: u64) -> Option<u64> {
    let format = Format::of(ty).filter(|_| ty.size() == 1)?;
    format.sum_beyond(a, b)
}

type Copy = fn(Format, u64) -> u64;

const COPIES: [(Fault, Copy); 3] = [
    (F29C, |format, bits| if format.is_nan(bits) { format.nan() } else { bits }),
    (F29D, |format, bits| if bits == format.sign() { 0 } else { bits }),
    (F29E, |format, bits| if format.is_subnormal(bits) { bits & format.sign() } else { bits }),
];

/// True if faults of copies are looked for.
pub(crate) fn copies_are_wanted() -> bool {
    let signalling = || {
        let copies = |moment: &&Moment| matches!(moment, Moment::Copying(..) | Moment::CopyingAlone(_));
        BY_MOMENT.keys().filter(copies).any(|moment| wanted_at(*moment).next().is_some())
    };
    COPIES.iter().any(|(fault, _)| wanted(*fault)) || signalling()
}

/// A copy that went through arithmetic, if that makes a difference.
pub(crate) fn miscopied(kind: Kind, ty: Type, rank: usize, data: &[u8]) -> Option<Vec<u8>> {
    let format = Format::of(ty)?;
    let copied = |change: &dyn Fn(u64) -> u64| {
        let mut copy = data.to_vec();
        for element in copy.chunks_exact_mut(ty.size()) {
            put(element, change(get(element)));
        }
        (copy != data).then_some(copy)
    };
    let moves = !kind.reduces();
    for (fault, change) in COPIES.iter().filter(|(fault, _)| moves && sought(*fault)) {
        if let Some(copy) = copied(&|bits| change(format, bits))
            && hit(*fault, rank)
        {
            return Some(copy);
        }
    }
    let moment = match kind {
        Kind::Send | Kind::Recv => Moment::Copying(ty, Kind::Send),
        kind if moves => Moment::Copying(ty, kind),
        _ => Moment::CopyingAlone(ty),
    };
    wanted_at(moment).filter(|member| sought(member.fault)).find_map(|member| {
        let copy = copied(&|bits| if format.is_signalling(bits) { bits | format.quiet() } else { bits })?;
        hit(member.fault, rank).then_some(copy)
    })
}
