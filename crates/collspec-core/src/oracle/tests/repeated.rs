//! Reductions of inputs that repeat: as of the same bytes written out, but held as one period.
use super::super::reduced_buffer::{ReducedBuffer, reduce_contents};
use super::*;
use crate::image::blocks::BLOCK;
use crate::image::contents::Contents;
use crate::num::{Random, encode_int, mask, put_element};

const ELEMENTS: usize = 3 * BLOCK;

/// A period of this many elements: small whole numbers, or any codes.
fn period(dtype: DType, rank: u64, elements: usize, any: bool) -> Vec<u8> {
    let codes = Random::new(DType::U64, 3, None, None);
    let mut bytes = vec![0; elements * dtype.size()];
    for i in 0..elements {
        let code = codes.bits(rank, i as u64);
        let bits = match any {
            true => code & mask(dtype),
            false if dtype.is_float() => encode_f64(dtype, (code % 9) as f64 - 4.0),
            false => encode_int(dtype, i128::from(code % 9)),
        };
        put_element(dtype, &mut bytes, i, bits);
    }
    bytes
}

/// The reduction of the repeated periods, and of the same bytes written out.
fn both_ways(dtype: DType, kind: ReduceKind, periods: &[Vec<u8>]) -> [Result<ReducedBuffer, String>; 2] {
    let len = ELEMENTS * dtype.size();
    let repeated: Vec<_> = periods.iter().map(|period| Contents::repeated(period.clone(), len)).collect();
    let written_out: Vec<_> = repeated.iter().map(|contents| Contents::from(contents.to_vec())).collect();
    let reduction = ColumnReduction { dtype, kind, ranks: periods.len() };
    [repeated, written_out]
        .map(|inputs| reduce_contents(&reduction, &inputs.iter().collect::<Vec<_>>(), Vec::new(), false))
}

#[test]
fn what_repeats_is_reduced_as_if_it_were_written_out() {
    let kinds = [ReduceKind::Sum, ReduceKind::Avg, ReduceKind::Prod, ReduceKind::Max];
    for (dtype, any) in
        [(DType::F32, false), (DType::F32, true), (DType::Bf16, true), (DType::I32, true), (DType::U8, true)]
    {
        for (kind, lengths) in kinds.iter().zip([[50, 30, 1], [251, 251, 251], [7, 11, 13], [1, 1, 1]]) {
            let periods: Vec<_> =
                (0..).zip(lengths).map(|(rank, elements)| period(dtype, rank, elements, any)).collect();
            let what = format!("{dtype:?} {kind:?} {any}");
            match both_ways(dtype, kind.clone(), &periods) {
                [Ok(short), Ok(long)] => {
                    assert!(short.bytes.to_vec() == long.bytes.to_vec(), "{what}");
                    for i in 0..ELEMENTS {
                        assert_eq!(short.is_ambiguous(i), long.is_ambiguous(i), "{what} {i}");
                        assert_eq!(short.has_ambiguous_inputs(i), long.has_ambiguous_inputs(i), "{what} {i}");
                        assert_eq!(short.rounding_run(i..i + 1), long.rounding_run(i..i + 1), "{what} {i}");
                    }
                }
                [short, long] => assert_eq!(short.err(), long.err(), "{what}"),
            }
        }
    }
}

#[test]
fn exact_results_of_what_repeats_take_no_more_memory_for_more_elements() {
    for dtype in [DType::F32, DType::F16, DType::I64] {
        let periods = [period(dtype, 0, 251, false), period(dtype, 1, 251, false)];
        let [short, long] = both_ways(dtype, ReduceKind::Sum, &periods).map(|result| result.unwrap().memory_bytes());
        assert!(short < 2 * BLOCK, "{dtype:?}: {short}");
        assert_eq!(long, ELEMENTS * dtype.size(), "{dtype:?}");
    }
}

#[test]
fn periods_without_a_short_common_one_are_written_out() {
    let periods = [period(DType::F32, 0, 9973, false), period(DType::F32, 1, 9967, false)];
    let [short, long] = both_ways(DType::F32, ReduceKind::Sum, &periods).map(Result::unwrap);
    assert!(short.bytes.to_vec() == long.bytes.to_vec());
    assert_eq!(short.memory_bytes(), long.memory_bytes());
}
