//! Advice for an `expect` that a legal rounding does not meet: the `assert` to write instead.
use super::assert::final_bytes;
use crate::job::Observation;
use crate::num::{DType, FloatFormat, decode_f64, element_text, get_element};
use crate::oracle::Forecast;
use crate::plan::expect::extent;
use crate::plan::expr_fill::Fraction;
use crate::plan::inputs::bytes;
use crate::plan::{BufId, Plan};
use crate::scenario::{BufferContent, Expectation, FillValues};

/// Number of written values up to which an `assert` repeats them.
const MAX_VALUES: usize = 12;

/// Advice on an expectation that is not met by right, rounded results.
pub(crate) fn advice(
    plan: &Plan,
    forecast: &Forecast,
    observation: &Observation,
    expectation: &Expectation,
    buf: BufId,
) -> String {
    let Some(rows) = Rows::of(plan, forecast, observation, expectation, buf) else {
        return "the library's result is a legal rounding; for a tolerance write `assert` in place of `expect`".into();
    };
    let Some(tolerance) = rows.tolerance() else {
        let words = "the library's result is a legal rounding of what the oracle expects";
        return format!("{words}; the expectation is probably wrong");
    };
    let name = &expectation.target.name;
    let each = |value: &str| within(name, value, tolerance);
    let whole = expectation.target.slice.is_none();
    let asserts = match &expectation.content {
        BufferContent::All(fill) if whole => match &fill.values {
            FillValues::Each(expr) => {
                Some(vec![each(&expr.value.text.split_whitespace().collect::<Vec<_>>().join(" "))])
            }
            _ => rows.uniform().map(|value| vec![each(&value)]).or_else(|| rows.one_by_one(name, tolerance)),
        },
        _ if whole => rows.uniform().map(|value| vec![each(&value)]).or_else(|| rows.one_by_one(name, tolerance)),
        _ => rows.one_by_one(name, tolerance),
    };
    let words = "the library's result is a legal rounding; for a tolerance";
    let Some(asserts) = asserts else {
        let (value, at) = rows.first();
        return format!(
            "{words} write `assert` in place of `expect`, with an expression for every element, such as `{}`",
            within(&format!("{name}[{at}]"), &value, tolerance)
        );
    };
    let list: Vec<String> = asserts.iter().map(|text| format!("\"{text}\"")).collect();
    if plan.case.asserts.is_empty() {
        format!("{words} write in place of `expect`:\n  assert = [{}]", list.join(", "))
    } else {
        format!("{words} add in place of `expect` to the list `assert`:\n  {}", list.join(", "))
    }
}

/// An expression that is true if a number is close to another one.
pub(crate) fn within(number: &str, other: &str, tolerance: f64) -> String {
    format!("close({number}, {other}, {tolerance:e})")
}

/// Distance between the two sides of an `assert` with `==`.
pub(crate) struct Nearness {
    /// Half a unit in the last place of 1, in the coarsest of the types.
    step: f64,
    most: f64,
    scale: f64,
}

impl Nearness {
    /// Nothing compared yet, between buffers of these types; `None` unless all of them are floating point.
    pub(crate) fn of_types(dtypes: impl Iterator<Item = DType>) -> Option<Self> {
        let mut step = 0.0f64;
        for dtype in dtypes {
            step = step.max(half_unit(dtype)?);
        }
        (step > 0.0).then_some(Self { step, most: 0.0, scale: 0.0 })
    }

    /// Takes one pair of values into account.
    pub(crate) fn add(&mut self, left: f64, right: f64) {
        let difference = (left - right).abs();
        // An infinity or NaN on one side is not close to anything.
        self.most = if left == right { self.most } else { self.most.max(difference) };
        if !difference.is_finite() && left != right {
            self.most = f64::INFINITY;
        }
        self.scale = self.scale.max(left.abs().min(right.abs()));
    }

    /// A description of the result and a tolerance with room for other roundings; `None` if the sides are not close.
    pub(crate) fn tolerance(&self) -> Option<(&'static str, f64)> {
        const CLOSE: f64 = 1e-6;
        let Self { step, most, scale } = *self;
        let near = most > 0.0 && scale.is_finite() && most <= scale * step.sqrt().max(CLOSE);
        // A few roundings; rounding does not explain a larger difference.
        let rounded = most <= 16.0 * step * scale;
        let words = if rounded { "a legal rounding" } else { "what the oracle expects" };
        near.then(|| (words, rounded_up(2.0 * (most + scale * step))))
    }
}

/// Half a unit in the last place of 1; `None` for whole numbers.
fn half_unit(dtype: DType) -> Option<f64> {
    Some(0.5f64.powi(FloatFormat::of(dtype)?.precision() as i32))
}

/// The expected and the observed values of all ranks that have the buffer.
struct Rows {
    dtype: DType,
    start: u64,
    /// World rank, expected bits and observed value of each element.
    ranks: Vec<(usize, Vec<(u64, f64)>)>,
}

impl Rows {
    /// `None` if a rank that has the buffer has no expected values, or some are not finite.
    fn of(
        plan: &Plan,
        forecast: &Forecast,
        observation: &Observation,
        expectation: &Expectation,
        buf: BufId,
    ) -> Option<Self> {
        let buffer = plan.buffers.get(buf)?;
        let dtype = buffer.dtype;
        let mut rows = Self { dtype, start: 0, ranks: Vec::new() };
        for rank in 0..plan.n {
            let Some((start, end)) = extent(plan, expectation, buffer, rank).ok()? else { continue };
            let expected =
                bytes(&plan.case, dtype, &expectation.content, rank, end - start, Fraction::Refused).ok()??;
            let (_, observed) = final_bytes(plan, forecast, observation, buf, rank)?;
            let observed = observed.get(start as usize * dtype.size()..end as usize * dtype.size())?;
            if expected.len() != observed.len() {
                return None;
            }
            let pair =
                |i: usize| (get_element(dtype, &expected, i), decode_f64(dtype, get_element(dtype, observed, i)));
            let row: Vec<(u64, f64)> = (0..(end - start) as usize).map(pair).collect();
            let finite = |(bits, value): &(u64, f64)| decode_f64(dtype, *bits).is_finite() && value.is_finite();
            if !row.iter().all(finite) || (!rows.ranks.is_empty() && rows.start != start) {
                return None;
            }
            rows.start = start;
            rows.ranks.push((rank, row));
        }
        rows.ranks.iter().any(|(_, row)| !row.is_empty()).then_some(rows)
    }

    fn pairs(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        self.ranks.iter().flat_map(|(_, row)| row.iter().copied())
    }

    /// A tolerance with room for other roundings; `None` if rounding does not explain the differences.
    fn tolerance(&self) -> Option<f64> {
        let step = half_unit(self.dtype)?;
        let difference = |(bits, value): (u64, f64)| {
            let expected = decode_f64(self.dtype, bits);
            // The expected value was rounded to the type; in an assert it is not.
            (expected - value).abs() + expected.abs() * step
        };
        let most = self.pairs().map(difference).fold(0.0, f64::max);
        let scale = self.pairs().map(|(_, value)| value.abs()).fold(0.0, f64::max);
        (most <= step.sqrt() * scale).then(|| rounded_up(2.0 * most))
    }

    /// The expected value, if it is the same everywhere.
    fn uniform(&self) -> Option<String> {
        let (first, _) = self.pairs().next()?;
        self.pairs().all(|(bits, _)| bits == first).then(|| element_text(self.dtype, first))
    }

    /// An assert for each element, if there are only a few.
    fn one_by_one(&self, name: &str, tolerance: f64) -> Option<Vec<String>> {
        let count = self.ranks.first()?.1.len();
        if self.pairs().count() > MAX_VALUES || self.ranks.iter().any(|(_, row)| row.len() != count) {
            return None;
        }
        let value = |i: usize| {
            let text = |(_, row): &(usize, Vec<(u64, f64)>)| element_text(self.dtype, row[i].0);
            let (last, others) = self.ranks.split_last()?;
            let same = others.iter().all(|other| other.1[i].0 == last.1[i].0);
            let cases = if same { &[] } else { others };
            Some(
                cases
                    .iter()
                    .rev()
                    .fold(text(last), |rest, other| format!("if(rank == {}, {}, {rest})", other.0, text(other))),
            )
        };
        let at = |i: usize| i as u64 + self.start;
        (0..count).map(|i| Some(within(&format!("{name}[{}]", at(i)), &value(i)?, tolerance))).collect()
    }

    /// An expected value, and its element.
    fn first(&self) -> (String, u64) {
        let bits = self.pairs().next().map_or(0, |(bits, _)| bits);
        (element_text(self.dtype, bits), self.start)
    }
}

/// The next number of the form 1, 2 or 5 times a power of ten.
fn rounded_up(value: f64) -> f64 {
    let exponent = value.log10().floor() as i32;
    let read = |digit: u32, exponent: i32| format!("{digit}e{exponent}").parse().unwrap_or(value);
    [read(1, exponent), read(2, exponent), read(5, exponent)]
        .into_iter()
        .find(|round| *round >= value)
        .unwrap_or_else(|| read(1, exponent + 1))
}

#[cfg(test)]
mod tests {
    use super::rounded_up;

    #[test]
    fn tolerances_have_one_digit() {
        assert_eq!([1.0, 1.1e-6, 3e-6, 6e-6, 9.9].map(rounded_up), [1.0, 2e-6, 5e-6, 1e-5, 10.0]);
    }
}
