//! A logarithmic axis with its tick marks and their texts.

/// Maps values to positions along a line.
pub(super) struct Axis {
    /// Logarithms of the ends.
    low: f64,
    high: f64,
    base: f64,
    from: f64,
    to: f64,
}

/// Number of tick marks up to which an axis is readable.
const MOST_TICKS: usize = 9;

impl Axis {
    /// An axis from the smallest positive value to the largest, at whole powers of `base`; the first is at position `from`, the last
    /// at `to`.
    pub(super) fn new(values: impl Iterator<Item = f64>, base: f64, from: f64, to: f64) -> Self {
        let logarithms = values.filter(|value| *value > 0.0 && value.is_finite()).map(|value| value.log(base));
        let (low, high) = logarithms.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = if low <= high { ((low + 1e-9).floor(), (high - 1e-9).ceil()) } else { (0.0, 1.0) };
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, base, from, to }
    }

    /// The position of a positive value.
    pub(super) fn place(&self, value: f64) -> f64 {
        self.from + (value.log(self.base) - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// The values of the tick marks: powers of the base; if there are many, every second one, every third one, and so on.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let (low, high) = (self.low as i32, self.high as i32);
        let every = (high - low + 1).unsigned_abs() as usize;
        let step = every.div_ceil(MOST_TICKS).max(1);
        (low..=high).step_by(step).map(|power| self.base.powi(power)).collect()
    }
}

/// A number of bytes: `8`, `32K`, `128M`.
pub(super) fn size_text(bytes: f64) -> String {
    let units = ["", "K", "M", "G", "T"];
    let power = (bytes.log2() / 10.0).floor().clamp(0.0, 4.0);
    let unit = units.get(power as usize).copied().unwrap_or_default();
    format!("{}{unit}", bytes / 1024f64.powf(power))
}

/// A power of ten: `0.01`, `1`, `1000`, `1e6`.
pub(super) fn scaled(value: f64) -> String {
    let power = value.log10().round();
    match power as i32 {
        -3..=-1 => format!("{value:.*}", -power as usize),
        0..=4 => format!("{value:.0}"),
        power => format!("1e{power}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_begins_and_ends_at_powers() {
        let axis = Axis::new([8.0, 3000.0].into_iter(), 2.0, 0.0, 90.0);
        assert_eq!((axis.place(8.0), axis.place(4096.0)), (0.0, 90.0));
        assert!((axis.place(64.0) - 30.0).abs() < 1e-9);
        assert_eq!(axis.ticks(), [8.0, 32.0, 128.0, 512.0, 2048.0]);
        let one = Axis::new([100.0].into_iter(), 10.0, 0.0, 1.0);
        assert_eq!((one.place(100.0), one.ticks()), (0.0, vec![100.0, 1000.0]));
        let none = Axis::new([0.0, f64::NAN].into_iter(), 10.0, 0.0, 1.0);
        assert_eq!(none.ticks(), [1.0, 10.0]);
    }

    #[test]
    fn marks_are_short() {
        assert_eq!([8.0, 32768.0, 134_217_728.0].map(size_text), ["8", "32K", "128M"]);
        assert_eq!([0.001, 0.1, 1.0, 1000.0, 1e6, 1e-5].map(scaled), ["0.001", "0.1", "1", "1000", "1e6", "1e-5"]);
    }
}
