//! The contents of buffers before the first step, and their lengths.
use super::eval::{Names, among, elements, evaluate, written};
use super::expr_fill::{Fraction, fill_from};
use super::types::{BufId, Buffer, Plan};
use crate::expr::{Mode, Value};
use crate::num::{self, DType, empty_range};
use crate::scenario::{
    BufferContent, BufferDef, Case, Diagnostic, Element, ElementValue, FillTable, FillValues, Row, RowKind, TextPart,
    fit_dtype,
};
use std::sync::Arc;

/// Number of elements of a buffer on a rank; `None` if the rank lacks the buffer or its length is not given.
pub fn count(case: &Case, def: &BufferDef, rank: usize) -> Result<Option<u64>, Diagnostic> {
    if among(&def.ranks, case, rank)? {
        return content_count(case, &def.content, rank);
    }
    let (span, what) = match &def.content {
        BufferContent::Rows(rows) => match rows.get(rank) {
            Some(Row { kind: RowKind::Elements(list), .. }) if list.is_empty() => return Ok(None),
            Some(row) => (row.span, "row"),
            None => return Ok(None),
        },
        BufferContent::All(FillTable { values: FillValues::Texts(list), span, .. })
            if list.get(rank).is_some_and(|t| !t.is_empty()) =>
        {
            (*span, "text")
        }
        BufferContent::All(_) => return Ok(None),
    };
    let nothing = if what == "row" { "[]" } else { "\"\"" };
    let text = format!("rank {rank} does not have `{}`, but there is a {what} for it", def.name.value);
    Err(Diagnostic::new(span, text).help(format!("`ranks` says who has the buffer: write `{nothing}` for the others")))
}

/// Number of elements that a content gives for a rank.
pub fn content_count(case: &Case, content: &BufferContent, rank: usize) -> Result<Option<u64>, Diagnostic> {
    match (content.table(rank), content.elements(rank)) {
        (Some(fill), _) => fill_count(case, fill, rank),
        (None, Some(list)) => Ok(Some(list.len() as u64)),
        (None, None) => Ok(None),
    }
}

fn fill_count(case: &Case, fill: &FillTable, rank: usize) -> Result<Option<u64>, Diagnostic> {
    use super::eval::Ranked;
    let said = match &fill.count {
        None => None,
        Some(num) => {
            let v = num.whole(&Names::world(case, rank))?;
            let v =
                u64::try_from(v).map_err(|_| Diagnostic::new(num.span, format!("`count` is {v} on rank {rank}")))?;
            Some(v)
        }
    };
    let natural = match &fill.values {
        FillValues::Row(list) => Some(list.len() as u64),
        FillValues::Template(_) | FillValues::Texts(_) => Some(text(case, fill, rank)?.len() as u64),
        _ => None,
    };
    match (said, natural, &fill.values) {
        (Some(said), Some(have), FillValues::Row(_)) if said != have => {
            Err(Diagnostic::new(fill.span, format!("the row has {}, but `count` is {said}", elements(have))))
        }
        (Some(said), Some(have), _) if said < have => {
            Err(Diagnostic::new(fill.span, format!("the text of rank {rank} has {have} bytes, but `count` is {said}")))
        }
        (Some(said), ..) => Ok(Some(said)),
        (None, natural, _) => Ok(natural),
    }
}

fn text(case: &Case, fill: &FillTable, rank: usize) -> Result<String, Diagnostic> {
    let mut out = String::new();
    match &fill.values {
        FillValues::Texts(list) => out.push_str(list.get(rank).map_or("", String::as_str)),
        FillValues::Template(parts) => {
            for part in parts {
                match part {
                    TextPart::Literal(text) => out.push_str(text),
                    TextPart::Expr(e) => match evaluate(&e.value, e.span, &Names::world(case, rank), Mode::Whole)? {
                        Value::Int(v) => out.push_str(&v.to_string()),
                        Value::Float(v) => out.push_str(&v.to_string()),
                    },
                }
            }
        }
        _ => {}
    }
    Ok(out)
}

/// The mode of evaluation: integer types compute in whole numbers.
pub fn mode(dtype: DType) -> Mode {
    if dtype.is_float() { Mode::Float } else { Mode::Whole }
}

/// The errors in numbers that are written in `inputs`.
pub fn diagnostics(plan: &Plan) -> Vec<Diagnostic> {
    let written = |buffer: &Buffer| {
        let input = plan.case.inputs.get(buffer.input?)?;
        fits(&input.content, buffer.dtype, &plan.case.axes).err()
    };
    plan.buffers.iter().filter_map(written).collect()
}

/// Checks that the type can hold the written numbers. The type of many buffers is unknown before planning.
pub fn fits(content: &BufferContent, dtype: DType, axes: &[(String, Value)]) -> Result<(), Diagnostic> {
    let row = |list: &[Element]| {
        list.iter().try_for_each(|element| match fit_dtype(element.value, dtype) {
            Ok(_) => Ok(()),
            Err(why) => Err(Diagnostic::new(element.span, why)),
        })
    };
    let table = |fill: &FillTable| match &fill.values {
        FillValues::Number(element) => row(std::slice::from_ref(element)),
        FillValues::Row(list) => row(list),
        FillValues::Each(expr) => match written(&expr.value, axes) {
            Some(value) => row(&[Element { span: expr.span, value }]),
            None => Ok(()),
        },
        FillValues::Random { low, high, .. } => {
            let bounds = [low, high].into_iter().flatten();
            bounds.cloned().try_for_each(|bound| row(&[bound]))?;
            let (low, high) = (low.as_ref().map(|e| &e.value), high.as_ref().map(|e| &e.value));
            match empty_range(dtype, low, high) {
                Some(why) => Err(Diagnostic::new(fill.span, "`high` must be greater than `low`").label(why)),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    };
    match content {
        BufferContent::All(fill) => table(fill),
        BufferContent::Rows(rows) => rows.iter().try_for_each(|r| match &r.kind {
            RowKind::Elements(list) => row(list),
            RowKind::Table(fill) => table(fill),
            RowKind::Untouched | RowKind::Any => Ok(()),
        }),
    }
}

fn listed(dtype: DType, list: &[Element]) -> Vec<u8> {
    let mut bytes = vec![0; list.len() * dtype.size()];
    for (i, e) in list.iter().enumerate() {
        num::put_element(dtype, &mut bytes, i, num::element_bits(dtype, &e.value));
    }
    bytes
}

/// The bytes that a content gives for a rank; `None` if it gives none (poison, or a word of `expect`).
pub fn bytes(
    case: &Case,
    dtype: DType,
    content: &BufferContent,
    rank: usize,
    count: u64,
    fraction: Fraction,
) -> Result<Option<Vec<u8>>, Diagnostic> {
    let fill = match (content.table(rank), content.elements(rank)) {
        (Some(fill), _) => fill,
        (None, Some(list)) => return Ok(Some(listed(dtype, list))),
        (None, None) => return Ok(None),
    };
    let len = usize::try_from(count).map_err(|_| Diagnostic::new(fill.span, "too many elements"))?;
    let mut out = vec![0u8; len * dtype.size()];
    match &fill.values {
        FillValues::Poison | FillValues::Untouched | FillValues::Any => return Ok(None),
        FillValues::Row(list) => return Ok(Some(listed(dtype, list))),
        FillValues::Number(e) => {
            num::put_element(dtype, &mut out, 0, num::element_bits(dtype, &e.value));
            num::repeat_period(&mut out, dtype.size());
        }
        FillValues::Each(expr) => {
            super::expr_fill::fill(&expr.value, expr.span, Names::world(case, rank), dtype, fraction, &mut out)?;
        }
        FillValues::Random { seed, low, high } => {
            let random =
                num::Random::new(dtype, *seed, low.as_ref().map(|e| &e.value), high.as_ref().map(|e| &e.value));
            random.fill(rank as u64, 0, &mut out);
        }
        FillValues::Template(_) | FillValues::Texts(_) => {
            for (i, byte) in text(case, fill, rank)?.bytes().enumerate().take(len) {
                num::put_element(dtype, &mut out, i, num::element_bits(dtype, &character(fill, dtype, rank, byte)?));
            }
        }
    }
    Ok(Some(out))
}

/// A byte of a text as an element of the type.
fn character(fill: &FillTable, dtype: DType, rank: usize, byte: u8) -> Result<ElementValue, Diagnostic> {
    fit_dtype(ElementValue::Int(byte.into()), dtype)
        .map_err(|why| Diagnostic::new(fill.span, format!("a byte of the text of rank {rank}: {why}")))
}

/// Checks that [`bytes`] has a value for every element, without taking memory for them.
pub fn have_values(
    case: &Case,
    dtype: DType,
    fill: &FillTable,
    rank: usize,
    count: u64,
    fraction: Fraction,
) -> Result<(), Diagnostic> {
    match &fill.values {
        FillValues::Each(expr) => {
            super::expr_fill::have_values(&expr.value, expr.span, Names::world(case, rank), dtype, fraction, count)
        }
        FillValues::Template(_) | FillValues::Texts(_) => {
            text(case, fill, rank)?.bytes().try_for_each(|byte| character(fill, dtype, rank, byte).map(drop))
        }
        // Written elements are checked once for all ranks.
        FillValues::Poison
        | FillValues::Untouched
        | FillValues::Any
        | FillValues::Row(_)
        | FillValues::Number(_)
        | FillValues::Random { .. } => Ok(()),
    }
}

/// A buffer's contents on a rank before the first step, in a compact form.
pub enum InitialContents {
    /// Every byte of the buffer.
    Bytes(Vec<u8>),
    /// A repeating pattern, and the total number of bytes.
    Repeated(Vec<u8>, usize),
    /// Bytes that are computed on demand.
    Filled(Filled, usize),
}

/// A long fill, which computes its bytes on demand. Every element has a value.
#[derive(Clone, Debug)]
pub struct Filled {
    case: Arc<Case>,
    input: usize,
    rank: usize,
    dtype: DType,
}

impl Filled {
    fn table(&self) -> Option<&FillTable> {
        self.case.inputs.get(self.input)?.content.table(self.rank)
    }

    /// Copies its bytes from the byte `from` on.
    pub fn copy_to(&self, from: usize, to: &mut [u8]) {
        let size = self.dtype.size();
        let (first, skipped) = (from / size, from % size);
        if skipped == 0 && to.len().is_multiple_of(size) {
            return self.elements(first as u64, to);
        }
        let mut elements = vec![0; (skipped + to.len()).next_multiple_of(size)];
        self.elements(first as u64, &mut elements);
        to.copy_from_slice(&elements[skipped..skipped + to.len()]);
    }

    fn elements(&self, first: u64, to: &mut [u8]) {
        let Self { case, rank, dtype, .. } = self;
        match self.table().map(|fill| &fill.values) {
            Some(FillValues::Each(expr)) => {
                let names = Names::world(case, *rank);
                // Each element has a value, which was checked when this was made.
                let _ = fill_from(&expr.value, expr.span, names, *dtype, Fraction::Dropped, first, to);
            }
            Some(FillValues::Random { seed, low, high }) => {
                let (low, high) = (low.as_ref().map(|e| &e.value), high.as_ref().map(|e| &e.value));
                num::Random::new(*dtype, *seed, low, high).fill(*rank as u64, first, to);
            }
            _ => {}
        }
    }
}

/// Bytes of a period above which it is not kept.
const LARGEST_PERIOD: usize = 1 << 20;

impl Plan {
    /// A buffer's contents on a rank before the first step, without expanding a long fill; `None` if the rank lacks the buffer,
    /// or it starts poisoned.
    ///
    /// # Errors
    ///
    /// An element's expression does not have a value.
    pub fn initial_contents(&self, buf: BufId, rank: usize) -> Result<Option<InitialContents>, Diagnostic> {
        let whole = || Ok(self.contents(buf, rank)?.map(InitialContents::Bytes));
        let Some(buffer) = self.buffers.get(buf) else { return Ok(None) };
        let Some(place) = buffer.places.get(rank).copied().flatten() else { return Ok(None) };
        let (dtype, count) = (buffer.dtype, place.count);
        let Some(input) = buffer.input else { return whole() };
        let Some(fill) = self.case.inputs.get(input).and_then(|def| def.content.table(rank)) else { return whole() };
        let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(dtype.size()));
        let Some(len) = len.filter(|len| *len > LARGEST_PERIOD) else { return whole() };
        let made = || Filled { case: self.case.clone(), input, rank, dtype };
        Ok(Some(match &fill.values {
            FillValues::Number(element) => {
                let mut period = vec![0; dtype.size()];
                num::put_element(dtype, &mut period, 0, num::element_bits(dtype, &element.value));
                InitialContents::Repeated(period, len)
            }
            FillValues::Each(expr) => {
                let names = Names::world(&self.case, rank);
                let computed = super::expr_fill::computed(&expr.value, &names, mode(dtype), count) as usize;
                if computed * dtype.size() <= LARGEST_PERIOD {
                    let mut period = vec![0; computed * dtype.size()];
                    fill_from(&expr.value, expr.span, names, dtype, Fraction::Dropped, 0, &mut period)?;
                    InitialContents::Repeated(period, len)
                } else {
                    have_values(&self.case, dtype, fill, rank, count, Fraction::Dropped)?;
                    InitialContents::Filled(made(), len)
                }
            }
            FillValues::Random { .. } => InitialContents::Filled(made(), len),
            _ => return whole(),
        }))
    }

    /// A buffer's contents on a rank before the first step; `None` if the rank lacks the buffer, or it starts poisoned.
    ///
    /// # Errors
    ///
    /// An element's expression does not have a value.
    pub fn contents(&self, buf: BufId, rank: usize) -> Result<Option<Vec<u8>>, Diagnostic> {
        let Some(buffer) = self.buffers.get(buf) else { return Ok(None) };
        let Some(place) = buffer.places.get(rank).copied().flatten() else { return Ok(None) };
        if let Some((_, _, bytes)) = self.constants.iter().find(|(b, r, _)| (*b, *r) == (buf, rank)) {
            return Ok(Some(bytes.clone()));
        }
        let Some(def) = buffer.input.and_then(|i| self.case.inputs.get(i)) else { return Ok(None) };
        bytes(&self.case, buffer.dtype, &def.content, rank, place.count, Fraction::Dropped)
    }
}
