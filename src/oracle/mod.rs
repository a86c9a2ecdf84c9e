//! What must come out, in exact arithmetic. (To be built; the forecast walks a plan, the reductions judge elements.)

/// Families (shape, rounding, scale) that explain every telling element. (To be built.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint;
