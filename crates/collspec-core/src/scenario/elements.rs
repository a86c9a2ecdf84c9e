//! Reads elements: numbers, and texts for values that TOML cannot write as numbers. Checks that they fit their dtype.
use super::case::{Element, ElementValue};
use super::diagnostic::Diagnostic;
use super::reader::PointReader;
use super::tree::{TomlKind, TomlValue};
use crate::num::{DType, has_infinity, int_range, max_finite, neighbours, overflow_edge};

impl PointReader<'_> {
    /// The elements of a row, with nesting removed.
    pub fn elements(&mut self, entries: &[TomlValue], dtype: Option<DType>) -> Option<Vec<Element>> {
        let before = self.diagnostics.len();
        let mut out = Vec::with_capacity(entries.len());
        self.flatten(entries, dtype, &mut out);
        (self.diagnostics.len() == before).then_some(out)
    }

    fn flatten(&mut self, entries: &[TomlValue], dtype: Option<DType>, out: &mut Vec<Element>) {
        for v in entries {
            match &v.kind {
                TomlKind::Array(inner) => self.flatten(inner, dtype, out),
                _ => out.extend(self.element(v, dtype)),
            }
        }
    }

    /// One element; with `None` as dtype the check is skipped.
    pub fn element(&mut self, val: &TomlValue, dtype: Option<DType>) -> Option<Element> {
        let value = match &val.kind {
            TomlKind::Int(v) => ElementValue::Int(*v),
            TomlKind::Float(v) => ElementValue::Float(*v),
            TomlKind::Str(s) => match parse_element_text(s) {
                Some(v) => v,
                None => {
                    let d = Diagnostic::new(val.span, format!("`{}` is not an element", escape_shortened(s)));
                    self.report(d.help(
                        "elements are numbers, `nan`, `inf`, `\"18446744073709551615\"`, or bits like `\"0x7fc1\"`",
                    ));
                    return None;
                }
            },
            _ => {
                self.report(
                    Diagnostic::new(val.span, "an element must be a number")
                        .label(format!("this is {}", val.kind_name())),
                );
                return None;
            }
        };
        match dtype.map_or(Ok(value), |t| fit_dtype(value, t)) {
            Ok(value) => Some(Element { span: val.span, value }),
            Err(why) => {
                let d = Diagnostic::new(val.span, why);
                self.report(match dtype.and_then(|narrow| wider(value, narrow)) {
                    Some(wide) => d.help(format!("`dtype = \"{}\"` holds it", wide.name())),
                    None => d,
                });
                None
            }
        }
    }
}

/// A type of whole numbers that holds a value which the given one cannot hold.
fn wider(value: ElementValue, narrow: DType) -> Option<DType> {
    let whole = matches!(value, ElementValue::Int(_)) && !narrow.is_float();
    let wide = [DType::I32, DType::I64, DType::U64];
    wide.into_iter().find(|dtype| whole && fit_dtype(value, *dtype).is_ok())
}

fn escape_shortened(s: &str) -> String {
    s.chars().take(24).flat_map(char::escape_debug).collect()
}

/// True if the text can be read as an element.
pub(crate) fn is_element(s: &str) -> bool {
    parse_element_text(s).is_some()
}

/// Parses an element's text: `"0x..."` is bits, digits are a whole number.
fn parse_element_text(s: &str) -> Option<ElementValue> {
    if let Some(hex) = s.strip_prefix("0x") {
        let good = (1..=16).contains(&hex.len()) && hex.bytes().all(|b| b.is_ascii_hexdigit());
        return good.then(|| u64::from_str_radix(hex, 16).ok().map(ElementValue::Bits))?;
    }
    let digits = s.strip_prefix('-').unwrap_or(s);
    let good = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    good.then(|| s.parse().ok().map(ElementValue::Int))?
}

/// The value converted to this type.
///
/// # Errors
///
/// The reason the type cannot hold the value.
pub fn fit_dtype(value: ElementValue, dtype: DType) -> Result<ElementValue, String> {
    let name = dtype.name();
    match value {
        ElementValue::Bits(b) => {
            let fits = dtype.bits() == 64 || b >> dtype.bits() == 0;
            fits.then_some(value).ok_or_else(|| format!("0x{b:x} has more than the {} bits of {name}", dtype.bits()))
        }
        ElementValue::Int(v) if dtype.is_float() => {
            let fits = (v as f64).abs() < overflow_edge(dtype);
            if !fits {
                return Err(too_great(&v.to_string(), dtype));
            }
            // A whole number must be held exactly; a number with a point or an exponent is rounded.
            let article = if name.starts_with('f') { "an" } else { "a" };
            match neighbours(dtype, v) {
                None => Ok(value),
                Some((below, Some(above))) => {
                    Err(format!("{v} is not {article} {name} value; its neighbours are {below} and {above}"))
                }
                Some((near, None)) => Err(format!("{v} is not {article} {name} value; the nearest is {near}")),
            }
        }
        ElementValue::Float(v) if dtype.is_float() => {
            if v.is_infinite() && !has_infinity(dtype) {
                return Err(format!("{name} has no infinity"));
            }
            let fits = !v.is_finite() || v.abs() < overflow_edge(dtype);
            fits.then_some(value).ok_or_else(|| too_great(&format!("{v:?}"), dtype))
        }
        ElementValue::Float(v) if !v.is_finite() => {
            Err(format!("{name} has no {}", if v.is_nan() { "nan" } else { "inf" }))
        }
        ElementValue::Float(v) if v != v.trunc() => Err(format!("{name} holds whole numbers only, not {v:?}")),
        ElementValue::Float(v) if v.abs() >= 1e30 => Err(too_great(&format!("{v:?}"), dtype)),
        ElementValue::Float(v) => fit_dtype(ElementValue::Int(v as i128), dtype),
        ElementValue::Int(v) => {
            let (low, high) = int_range(dtype).unwrap_or((i128::MIN, i128::MAX));
            let fits = (low..=high).contains(&v);
            fits.then_some(value).ok_or_else(|| format!("{v} does not fit {name}, which holds {low} to {high}"))
        }
    }
}

/// The greatest number of a floating-point type, in the fewest digits that identify it in f32, or in f64.
fn greatest_value_text(dtype: DType) -> String {
    let value = max_finite(dtype).unwrap_or(0.0);
    match dtype {
        DType::F64 => format!("{value:e}"),
        _ if value < 1e6 => value.to_string(),
        _ => format!("{:e}", value as f32),
    }
}

fn too_great(v: &str, dtype: DType) -> String {
    format!("{v} does not fit {}, whose greatest value is {}", dtype.name(), greatest_value_text(dtype))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementValue::{Bits, Float, Int};

    #[test]
    fn values_at_the_edges() {
        for (v, t, good) in [
            (Int(127), DType::I8, true),
            (Int(128), DType::I8, false),
            (Int(-1), DType::U64, false),
            (Int(u64::MAX as i128), DType::U64, true),
            (Int(i64::MIN as i128), DType::I64, true),
            (Float(2.0), DType::I32, true),
            (Float(2.5), DType::I32, false),
            (Float(f64::NAN), DType::U8, false),
            (Float(1e300), DType::U8, false),
            (Float(65519.0), DType::F16, true),
            (Float(65520.0), DType::F16, false),
            (Float(3.4028235e38), DType::F32, true),
            (Float(3.5e38), DType::F32, false),
            (Float(3.39e38), DType::Bf16, true),
            (Float(3.4e38), DType::Bf16, false),
            (Float(f64::INFINITY), DType::F8e5m2, true),
            (Float(f64::INFINITY), DType::F8e4m3, false),
            (Int(256), DType::Bf16, true),
            (Int(-257), DType::Bf16, false),
            (Float(257.0), DType::Bf16, true),
            (Int(16_777_217), DType::F32, false),
            (Int(1 << 53), DType::F64, true),
            (Int((1 << 53) + 1), DType::F64, false),
            (Int(i128::MAX), DType::F64, false),
            (Int(448), DType::F8e4m3, true),
            (Int(500), DType::F8e4m3, false),
            (Int(-65536), DType::F8e5m2, false),
            (Bits(0xff), DType::I8, true),
            (Bits(0x100), DType::F8e4m3, false),
            (Bits(u64::MAX), DType::F64, true),
        ] {
            assert_eq!(fit_dtype(v, t).is_ok(), good, "{v:?} in {t:?}");
        }
        assert_eq!(fit_dtype(Float(-0.0), DType::I8), Ok(Int(0)));
    }

    #[test]
    fn texts() {
        assert_eq!(parse_element_text("0x7fc1"), Some(Bits(0x7fc1)));
        assert_eq!(parse_element_text("-12"), Some(Int(-12)));
        for bad in ["", "0x", "-", "1.5", "0x12345678901234567", "untouched", "+3", "0x-1"] {
            assert_eq!(parse_element_text(bad), None, "{bad}");
        }
    }
}
