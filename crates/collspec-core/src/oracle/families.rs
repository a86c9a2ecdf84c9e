//! Families of reductions: the shape of the order, the place of the rounding, and the place of the scalar. They are shapes
//! rather than algorithms: on one node NCCL's ring and tree are both chains.
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The order of the additions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// One rank after the other is added to a partial result, in any order of ranks.
    Chain,
    /// Any binary tree; every chain is one.
    Tree,
}

/// The place where results are rounded to the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rounding {
    /// Rounded after every operation.
    EachStep,
    /// Rounded once at the end, from an accumulator wider than the type (f64 for f32; f32 for f16 and bf16; f16 or f32 for 8 bits).
    Once,
    /// Rounded after some operations; the others keep the wide result. Contains the other two.
    Mixed,
}

/// The place where the scalar of avg and premul_sum is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// No scaling.
    None,
    /// Each input is multiplied and the product rounded, then added.
    Before,
    /// Each input is multiplied; the product may be added to a partial result unrounded. Contains `Before`.
    BeforeFused,
    /// The sum is multiplied by 1/n (avg only).
    After,
    /// The sum is divided by n (avg only).
    AfterDivided,
    /// Each input is divided by n, or multiplied by 1/n in a wider type, then added (avg only).
    BeforeDivided,
}

const SHAPES: [(Shape, &str); 2] = [(Shape::Chain, "chain"), (Shape::Tree, "tree")];
const ROUNDINGS: [(Rounding, &str); 3] =
    [(Rounding::EachStep, "each-step"), (Rounding::Once, "once"), (Rounding::Mixed, "mixed")];
const SCALES: [(Scale, &str); 6] = [
    (Scale::None, "none"),
    (Scale::Before, "before"),
    (Scale::BeforeFused, "before-fused"),
    (Scale::After, "after"),
    (Scale::AfterDivided, "after-divided"),
    (Scale::BeforeDivided, "before-divided"),
];
const FAMILIES_PER_ROUNDING: u32 = SCALES.len() as u32;
const FAMILIES_PER_SHAPE: u32 = ROUNDINGS.len() as u32 * FAMILIES_PER_ROUNDING;
const FAMILIES: u32 = SHAPES.len() as u32 * FAMILIES_PER_SHAPE;

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FamilySet(u64);

impl FamilySet {
    /// The set without any family.
    pub const EMPTY: Self = Self(0);
    /// The set of every family.
    pub const ALL: Self = Self((1 << FAMILIES) - 1);

    /// The set of one family.
    pub const fn single(shape: Shape, rounding: Rounding, scale: Scale) -> Self {
        Self(1 << (shape as u32 * FAMILIES_PER_SHAPE + rounding as u32 * FAMILIES_PER_ROUNDING + scale as u32))
    }

    /// The family and those that contain it: every chain is a tree; mixed contains the other roundings (if `has_wide`: the
    /// type has a wider accumulator); fused contains unfused.
    pub fn with_wider(shape: Shape, rounding: Rounding, scale: Scale, has_wide: bool) -> Self {
        let mut set = Self::EMPTY;
        for (s, _) in SHAPES.into_iter().filter(|(s, _)| *s >= shape) {
            for (r, _) in ROUNDINGS.into_iter().filter(|(r, _)| *r == rounding || (has_wide && *r == Rounding::Mixed)) {
                set = set.union(Self::single(s, r, scale));
                if scale == Scale::Before {
                    set = set.union(Self::single(s, r, Scale::BeforeFused));
                }
            }
        }
        set
    }

    /// The families in either set.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The families in both sets.
    pub const fn intersect(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// True if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if all families of `other` are in the set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Number of families in the set.
    #[cfg(test)]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The names, `chain/each-step` or with a scalar `chain/each-step/before`, in a fixed order.
    pub fn names(self) -> Vec<String> {
        let mut names = Vec::new();
        for (shape, s) in SHAPES {
            for (rounding, r) in ROUNDINGS {
                for (scale, c) in SCALES {
                    if self.contains(Self::single(shape, rounding, scale)) {
                        names.push(if scale == Scale::None { format!("{s}/{r}") } else { format!("{s}/{r}/{c}") });
                    }
                }
            }
        }
        names
    }

    /// The set of such names; `None` if one is unknown.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let by_name = |table: &[(u32, &str)], name: &str| table.iter().find(|(_, n)| *n == name).map(|(v, _)| *v);
        let shapes = SHAPES.map(|(v, n)| (v as u32, n));
        let roundings = ROUNDINGS.map(|(v, n)| (v as u32, n));
        let scales = SCALES.map(|(v, n)| (v as u32, n));
        names.into_iter().try_fold(Self::EMPTY, |set, name| {
            let mut parts = name.split('/');
            let shape = by_name(&shapes, parts.next()?)?;
            let rounding = by_name(&roundings, parts.next()?)?;
            let scale = by_name(&scales, parts.next().unwrap_or("none"))?;
            parts
                .next()
                .is_none()
                .then_some(Self(set.0 | 1 << (shape * FAMILIES_PER_SHAPE + rounding * FAMILIES_PER_ROUNDING + scale)))
        })
    }
}

impl fmt::Display for FamilySet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() { out.write_str("no single family") } else { out.write_str(&self.names().join(", ")) }
    }
}

impl fmt::Debug for FamilySet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.names()).finish()
    }
}

impl Serialize for FamilySet {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.names().serialize(to)
    }
}

impl<'de> Deserialize<'de> for FamilySet {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(from)?;
        Self::from_names(names.iter().map(String::as_str)).ok_or_else(|| serde::de::Error::custom("unknown family"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        assert_eq!(FamilySet::ALL.len(), 36);
        let names = FamilySet::ALL.names();
        assert_eq!(FamilySet::from_names(names.iter().map(String::as_str)), Some(FamilySet::ALL));
        assert_eq!(FamilySet::from_names(["ring/each-step"]), None);
        let one = FamilySet::single(Shape::Tree, Rounding::Once, Scale::After);
        assert_eq!(serde_json::to_string(&one).unwrap(), r#"["tree/once/after"]"#);
        assert_eq!(serde_json::from_str::<FamilySet>(r#"["tree/once/after"]"#).unwrap(), one);
    }

    #[test]
    fn wider_families_hold_narrower_ones() {
        let set = FamilySet::with_wider(Shape::Chain, Rounding::EachStep, Scale::None, true);
        assert_eq!(set.names(), ["chain/each-step", "chain/mixed", "tree/each-step", "tree/mixed"]);
        let set = FamilySet::with_wider(Shape::Tree, Rounding::EachStep, Scale::Before, false);
        assert_eq!(set.names(), ["tree/each-step/before", "tree/each-step/before-fused"]);
    }
}
