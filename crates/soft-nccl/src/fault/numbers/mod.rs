//! Faults of numbers: arithmetic that follows a wrong rule in one type and one operation.
mod families;
mod value;
mod wrong;

use super::site::Site;
use super::table::PLAIN;
use super::values::{get, is_signalling, put, quieted};
use super::{Entry, Fault, wanted};
use crate::arith::{self, Combine, Scalar, Type};
use crate::op::{Kind, Reduction};
use families::{At, FAMILIES, Family};
use std::collections::HashMap;
use std::sync::LazyLock;
use wrong::Rule;

/// Limit on the elements that go wrong in one step. No rule needs more to be noticed, and looking for them in megabytes takes
/// long.
const ELEMENTS: usize = 512;
/// [`Rule::Coarse`] is followed only with more ranks than this.
const FEW_RANKS: usize = 8;

/// One member of a family of faults.
#[derive(Clone, Copy)]
struct Member {
    fault: Fault,
    rule: Rule,
}

/// A point in an operation at which rules are followed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Moment {
    Combining(Type, Option<Combine>),
    Scaling(Type, bool),
    Dividing(Type),
    Reading(Type),
    Copying(Type, Kind),
    CopyingAlone(Type),
}

/// All members in the order of the families, by type and then by operation.
fn members() -> impl Iterator<Item = (&'static Family, Type, At)> {
    FAMILIES
        .iter()
        .flat_map(|family| family.types.iter().flat_map(move |ty| family.at.iter().map(move |at| (family, *ty, *at))))
}

/// Number of members in all families.
pub(super) const COUNT: usize = {
    let (mut count, mut at) = (0, 0);
    while at < FAMILIES.len() {
        count += FAMILIES[at].types.len() * FAMILIES[at].at.len();
        at += 1;
    }
    count
};

/// The element type of a member, given its index among all.
pub(super) fn type_of(member: usize) -> Option<&'static str> {
    members().nth(member).map(|(_, ty, _)| ty.name())
}

/// The members' entries, in the order of their numbers.
pub(super) fn entries() -> impl Iterator<Item = Entry> {
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
        let whole = ty.reciprocal(1).is_none();
        let moment = match at {
            At::Sum => Moment::Combining(ty, Some(Combine::Sum)),
            At::Prod => Moment::Combining(ty, Some(Combine::Prod)),
            At::Min => Moment::Combining(ty, Some(Combine::Min)),
            At::Max => Moment::Combining(ty, Some(Combine::Max)),
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

impl Site {
    /// Changes elements like the first wanted member that changes any element and strikes. `change` gets the rule and the
    /// number of an element.
    fn follow(&self, moment: Moment, value: &mut [u8], change: impl Fn(Rule, usize) -> Option<u64>) {
        let size = self.size();
        let elements = (value.len() / size).min(ELEMENTS);
        for member in BY_MOMENT.get(&moment).into_iter().flatten().filter(|member| wanted(member.fault)) {
            if member.rule == Rule::Coarse && self.context.n <= FEW_RANKS {
                continue;
            }
            let changed: Vec<(usize, u64)> =
                (0..elements).filter_map(|at| Some((at, change(member.rule, at)?))).collect();
            if !changed.is_empty() && self.hit(member.fault) {
                for (at, bits) in changed {
                    put(&mut value[at * size..][..size], bits);
                }
                return;
            }
        }
    }

    /// Replaces `value`, the combination of a message and another value, by a wrong one.
    pub(super) fn miscalculated(&self, operator: Combine, message: &[u8], other: &[u8], value: &mut [u8]) {
        let ty = self.spec.ty;
        let plain = match self.spec.reduction {
            Some(Reduction::Plain(_)) => Some(operator),
            Some(Reduction::Average) => None,
            _ => return,
        };
        let right = value.to_vec();
        self.follow(Moment::Combining(ty, plain), value, |rule, at| {
            let [a, b, right] = [message, other, &right].map(|data| self.element(data, at));
            wrong::combined(rule, ty, operator, [a, b], right)
        });
    }

    /// Multiplies by a scalar, wrongly where a rule says so.
    pub(super) fn scaled(&self, data: &mut [u8], scalar: &Scalar) {
        let ty = self.spec.ty;
        let before = data.to_vec();
        arith::scale(ty, data, scalar);
        let average = self.spec.reduction == Some(Reduction::Average);
        let (right, factor) = (data.to_vec(), self.element(scalar, 0));
        self.follow(Moment::Scaling(ty, average), data, |rule, at| {
            let [x, right] = [&before, &right].map(|data| self.element(data, at));
            match rule {
                // A lost NaN counts as zero.
                Rule::NanLost => (wrong::combined(rule, ty, Combine::Prod, [x, factor], right).is_some()).then_some(0),
                _ => wrong::combined(rule, ty, Combine::Prod, [x, factor], right),
            }
        });
    }

    /// Replaces `value`, a sum of whole numbers divided by the number of ranks, by a wrong one.
    pub(super) fn misdivided(&self, n: usize, sum: &[u8], value: &mut [u8]) {
        let ty = self.spec.ty;
        let right = value.to_vec();
        self.follow(Moment::Dividing(ty), value, |rule, at| {
            wrong::quotient(rule, ty, self.element(sum, at), n, self.element(&right, at))
        });
    }

    /// The wrong scalar that is used in place of the right one.
    pub(super) fn mistaken(&self, right: Scalar) -> Scalar {
        let (ty, size) = (self.spec.ty, self.size());
        let mut scalar = right;
        self.follow(Moment::Reading(ty), &mut scalar[..size], |rule, _| {
            wrong::scalar(rule, ty, self.element(&right, 0))
        });
        scalar
    }

    /// A wrong copy of the data; `None` if the copy is right.
    pub(super) fn miscopied(&self, data: &[u8]) -> Option<Vec<u8>> {
        let ty = self.spec.ty;
        let moment = match (self.spec.kind, self.spec.reduction) {
            (Kind::Send | Kind::Recv, _) => Moment::Copying(ty, Kind::Send),
            (kind, None) => Moment::Copying(ty, kind),
            (_, Some(Reduction::Plain(_))) if self.context.n == 1 => Moment::CopyingAlone(ty),
            _ => return None,
        };
        let mut copy = data.to_vec();
        self.follow(moment, &mut copy, |rule, at| {
            let bits = self.element(data, at);
            (rule == Rule::Quiet && is_signalling(ty, bits)).then(|| quieted(ty, bits))
        });
        (copy != data).then_some(copy)
    }

    fn element(&self, data: &[u8], at: usize) -> u64 {
        let size = self.size();
        data.get(at * size..(at + 1) * size).map_or(0, get)
    }
}
