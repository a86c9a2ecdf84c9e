//! The ports against what was measured of the suites.
use super::floats::{FoldOp, fold};
use super::nccl_tests::{ElementKey, NcclTests, product, sum};
use super::{ElementPosition, OperationCall, Peer, PeerCheck, PeerSuite, rccl, ucc};
use crate::job::{Ended, Observation};
use crate::num::{DType, FloatFormat, decode_f64, encode_f64};
use crate::ops::find;
use crate::plan::{Limits, Reduction, plan};
use crate::scenario::{Case, SourceFile, parse};
use DType::*;
use nccl_sys::ncclRedOp_t;
use std::sync::Arc;

const ELEMENTS: u64 = 2000;
/// Percent by which a share of some hundred elements is off at times.
const NOISE: f64 = 6.0;
const OPS: [ncclRedOp_t; 5] =
    [ncclRedOp_t::Sum, ncclRedOp_t::Prod, ncclRedOp_t::Min, ncclRedOp_t::Max, ncclRedOp_t::Avg];

fn all_reduce(dtype: DType, reduce: &Reduction, n: usize) -> OperationCall<'_> {
    let op = find("all_reduce").expect("in the table");
    OperationCall { op, dtype, reduce: Some(reduce), n, k: ELEMENTS, root: 0, seed: 3 }
}

/// Every rank's element.
fn column(suite: &dyn PeerSuite, call: &OperationCall<'_>, index: u64) -> Vec<u64> {
    let position = |rank| ElementPosition { rank, to: 0, index, within: index, piece: ELEMENTS };
    (0..call.n).map(|rank| suite.input_bits(call, position(rank))).collect()
}

/// The share, in percent, of elements and ranks where the result without the rank is another.
fn noticed(dtype: DType, op: ncclRedOp_t, n: usize) -> f64 {
    let reduce = Reduction::Builtin(op);
    let call = all_reduce(dtype, &reduce, n);
    let mut count = 0;
    for index in 0..ELEMENTS {
        let column = column(&NcclTests, &call, index);
        let want = NcclTests.expected_reduction(&call, index, &column);
        for rank in 0..n {
            let differs = match FloatFormat::of(dtype) {
                // exact in any order: a share of nothing is what can be left out
                Some(_) if op == ncclRedOp_t::Sum => column[rank] != 0,
                Some(_) => column[rank] != encode_f64(dtype, 1.0),
                None => {
                    let others = column.iter().enumerate().filter(|(other, _)| *other != rank).map(|(_, bits)| *bits);
                    others.reduce(|a, b| fold(dtype, FoldOp::from_reduction(&reduce), a, b)) != Some(want)
                }
            };
            count += u32::from(differs);
        }
    }
    f64::from(count) * 100.0 / (ELEMENTS * n as u64) as f64
}

#[test]
fn nccl_tests_notices_a_lost_rank_as_often_as_measured() {
    use ncclRedOp_t as Op;
    // type, reduction, ranks, percent
    let measured = [
        (F8e5m2, Op::Sum, 8, 100.0),
        (F8e5m2, Op::Sum, 16, 12.5),
        (F8e5m2, Op::Sum, 32, 6.25),
        (F8e5m2, Op::Sum, 64, 3.1),
        (F8e4m3, Op::Sum, 16, 100.0),
        (F8e4m3, Op::Sum, 32, 6.25),
        (F8e4m3, Op::Sum, 64, 3.1),
        (Bf16, Op::Sum, 32, 100.0),
        (Bf16, Op::Sum, 64, 83.0),
        (F16, Op::Sum, 64, 100.0),
        (F32, Op::Sum, 64, 100.0),
        (F8e4m3, Op::Prod, 4, 100.0),
        (F8e5m2, Op::Prod, 4, 100.0),
        (F16, Op::Prod, 4, 100.0),
        (F8e4m3, Op::Prod, 8, 62.0),
        (F8e4m3, Op::Prod, 16, 56.0),
        (F8e5m2, Op::Prod, 16, 56.0),
        (F16, Op::Prod, 16, 56.0),
        (F16, Op::Prod, 64, 52.0),
        (I8, Op::Prod, 2, 98.6),
        (I8, Op::Prod, 4, 88.0),
        (I8, Op::Prod, 8, 48.0),
        (I8, Op::Prod, 16, 0.0),
        (I32, Op::Prod, 16, 100.0),
        (I32, Op::Prod, 32, 50.0),
        (I32, Op::Prod, 64, 0.0),
        (I64, Op::Prod, 64, 47.0),
        (I8, Op::Sum, 8, 99.6),
    ];
    for (dtype, op, n, percent) in measured {
        let got = noticed(dtype, op, n);
        assert!(
            (got - percent).abs() < if matches!(percent, 0.0 | 100.0) { 0.5 } else { NOISE },
            "{dtype:?} {op:?} of {n}: {got:.1} %, measured {percent} %"
        );
    }
}

#[test]
fn no_order_of_nccl_tests_floats_rounds() {
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_float()) {
        let format = FloatFormat::of(dtype).expect("a float");
        for n in [2, 3, 4, 5, 7, 8, 16, 33] {
            for index in 0..100 {
                let key = |rank| ElementKey { n, rank, seed: 5, index };
                let totals = |how, both: &dyn Fn(ElementKey) -> super::nccl_tests::InputAndExpected| {
                    let mut column: Vec<u64> = (0..n).map(|rank| both(key(rank)).input).collect();
                    let forward = column.iter().copied().reduce(|a, b| fold(dtype, how, a, b));
                    column.reverse();
                    column.rotate_left(n / 3);
                    let other = column.iter().copied().reduce(|a, b| fold(dtype, how, a, b));
                    assert_eq!(forward, other, "{dtype:?} {how:?} of {n} at {index}");
                    assert_eq!(forward, Some(both(key(0)).expected), "{dtype:?} {how:?} of {n} at {index}");
                };
                totals(FoldOp::Sum, &|key| sum(&format, key));
                totals(FoldOp::Prod, &|key| product(&format, key));
            }
        }
    }
}

#[test]
fn nccl_tests_average_forgets_the_element_and_most_ranks() {
    let reduce = Reduction::Builtin(ncclRedOp_t::Avg);
    let call = all_reduce(F32, &reduce, 8);
    let first = column(&NcclTests, &call, 0);
    assert!((1..ELEMENTS).all(|index| column(&NcclTests, &call, index) == first));
    assert_eq!(first.iter().filter(|bits| **bits != 0).count(), 2);
}

#[test]
fn rccl_takes_zero_for_245_of_256_values() {
    for dtype in [F16, Bf16] {
        let reduce = Reduction::Builtin(ncclRedOp_t::Sum);
        let call = all_reduce(dtype, &reduce, 2);
        let taken = (0..256).filter(|i| rccl::Rccl.accepts(&call, rccl::pattern_bits(dtype, 0, *i), 0)).count();
        assert_eq!(taken, 245, "{dtype:?}");
    }
    assert_eq!(rccl::pattern_bits(F8e4m3, 0, 5), rccl::pattern_bits(F8e4m3, 7, 21), "fp8 forgets the rank");
}

#[test]
fn ucc_takes_zero_for_every_bf16() {
    let reduce = Reduction::Builtin(ncclRedOp_t::Sum);
    let call = all_reduce(Bf16, &reduce, 16);
    for index in 0..8 {
        let column = column(&ucc::Ucc, &call, index);
        let want = ucc::Ucc.expected_reduction(&call, index, &column);
        assert!(decode_f64(Bf16, want) < 1e-37 && want != 0);
        assert!(ucc::Ucc.accepts(&call, want, 0));
    }
    let call = all_reduce(F32, &reduce, 2);
    let one = 1f32.to_bits().into();
    assert!(ucc::Ucc.accepts(&call, one, one + 4) && !ucc::Ucc.accepts(&call, one, one + 5));
    assert!(!ucc::Ucc.accepts(&call, one, f32::NAN.to_bits().into()));
}

#[test]
fn every_suite_takes_what_its_own_reference_computes() {
    let suites: [&dyn PeerSuite; 3] = [&NcclTests, &rccl::Rccl, &ucc::Ucc];
    for suite in suites {
        for (dtype, op) in DType::ALL.into_iter().flat_map(|dtype| OPS.map(|op| (dtype, op))) {
            let reduce = Reduction::Builtin(op);
            let call = all_reduce(dtype, &reduce, 5);
            for index in 0..40 {
                let want = suite.expected_reduction(&call, index, &column(suite, &call, index));
                assert!(suite.accepts(&call, want, want), "{dtype:?} {op:?}");
            }
        }
    }
}

#[test]
fn every_program_of_the_suites_can_be_planned() {
    for peer in Peer::ALL {
        let programs = peer.suite().own_programs();
        assert!(programs.len() > 5, "{peer}");
        for (name, text) in programs {
            let planned = plan(&cases(&text)[0], &Limits::default());
            let planned = planned.unwrap_or_else(|faults| panic!("{name}: {faults:#?}"));
            assert!(planned.buffers.iter().any(|buffer| buffer.input.is_none() && !buffer.name.starts_with("timed")));
        }
    }
}

fn cases(text: &str) -> Vec<Arc<Case>> {
    let file = Arc::new(SourceFile { path: "test.toml".into(), text: text.into() });
    let parsed = parse(&file, "test").unwrap_or_else(|rejected| panic!("{:#?}", rejected.diagnostics));
    parsed.into_iter().map(Arc::new).collect()
}

/// One run that left these images.
fn observation(images: Vec<Vec<u8>>) -> Observation {
    Observation {
        ended: Ended::Done,
        ranks: Vec::new(),
        images,
        as_expected: Vec::new(),
        checkpoints: Vec::new(),
        log: String::new(),
        seconds: 0.0,
        reached: None,
        reached_until_limit: None,
        reused: false,
        deaths: Vec::new(),
    }
}

/// How many of the images' bytes a suite looks at: those whose change it objects to, where everything else is right.
fn watched(peer: Peer, text: &str) -> Option<usize> {
    let case = Arc::new(peer.adapt_case(&cases(text)[0]).ok()?);
    let plan = plan(&case, &Limits::default()).unwrap_or_else(|faults| panic!("{peer}: {faults:#?}"));
    let (check, images) = PeerCheck::new(peer, &plan);
    let right = check.right_images(images);
    assert_eq!(check.objection(&plan, &[observation(right.clone())]), None, "{peer}: {text}");
    let mut count = 0;
    for (alloc, image) in right.iter().enumerate() {
        for byte in 0..image.len() {
            let mut images = right.clone();
            images[alloc][byte] ^= 0xff;
            count += usize::from(check.objection(&plan, &[observation(images)]).is_some());
        }
    }
    Some(count)
}

#[test]
fn a_suite_looks_at_what_it_says() {
    let text = |op: &str, count: u32, keys: &str| {
        format!("world_size = 3\nop = \"{op}\"\ndtype = \"i32\"\ninputs = {{ each = \"i\", count = {count} }}\n{keys}")
    };
    // bytes: of 3 ranks, 4 elements of 4 bytes each
    let broadcast = text("broadcast", 4, "root = 1");
    assert_eq!(watched(Peer::NcclTests, &broadcast), Some(48));
    assert_eq!(watched(Peer::Rccl, &broadcast), Some(48));
    assert_eq!(watched(Peer::Ucc, &broadcast), Some(16), "the root's own buffer");
    let reduce = text("reduce", 4, "");
    assert_eq!(watched(Peer::NcclTests, &reduce), Some(48), "off the root, that nothing came");
    assert_eq!(watched(Peer::Rccl, &reduce), Some(16));
    assert_eq!(watched(Peer::Ucc, &reduce), Some(16));
    let scatter = text("scatter", 12, "");
    assert_eq!(watched(Peer::NcclTests, &scatter), Some(48));
    assert_eq!(watched(Peer::Ucc, &scatter), None);
    let gather = text("all_gather", 7, "");
    assert_eq!(watched(Peer::NcclTests, &gather), Some(3 * 3 * 16), "rounded down to 16 bytes per rank");
    assert_eq!(watched(Peer::Rccl, &gather), Some(3 * 3 * 28));
    assert_eq!(
        watched(Peer::Rccl, &text("send_recv", 4, "to = \"(rank + 1) % n\"\nfrom = \"(rank - 1) % n\"")),
        Some(48)
    );
}

#[test]
fn programs_and_failures_are_not_run() {
    let program = "world_size = 2\ninputs.x = { each = 1, count = 4 }\nsteps = [{ op = \"all_reduce\", in = \"x\", out = \"y\" }, \
                   { op = \"all_reduce\", in = \"y\", out = \"z\" }]";
    for peer in Peer::ALL {
        assert!(peer.adapt_case(&cases(program)[0]).is_err(), "{peer}");
    }
    let empty = "world_size = 2\nop = \"all_reduce\"\ninputs = [[], []]";
    assert!(Peer::NcclTests.adapt_case(&cases(empty)[0]).is_err());
}
