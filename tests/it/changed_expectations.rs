//! One number of an `expect` changed: the case fails, and the finding names the rank and the element.
use collspec_core::judge::{Lane, Status};
use collspec_core::num::{DType, element_bits};
use collspec_core::plan::{Limits, plan};
use collspec_core::scenario::{
    BufferContent, Case, Element, ElementValue, ExpectedOutcome, FillValues, MAX_BYTES, RowKind, discover, fit_dtype,
    load,
};
use collspec_run::child::Workers;
use collspec_suite::suite::{RunOptions, Runner};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

/// A written number of an `expect`, and where in the buffer it is.
struct Place {
    expectation: usize,
    /// The row, or `None` where one row speaks for every rank.
    rank: Option<usize>,
    index: usize,
}

fn list_of(case: &Case, place: &Place) -> Option<Vec<Element>> {
    match (&case.expect[place.expectation].content, place.rank) {
        (BufferContent::Rows(rows), Some(rank)) => match &rows[rank].kind {
            RowKind::Elements(list) => Some(list.clone()),
            _ => None,
        },
        (BufferContent::All(fill), None) => match &fill.values {
            FillValues::Row(list) => Some(list.clone()),
            FillValues::Number(one) => Some(vec![one.clone()]),
            _ => None,
        },
        _ => None,
    }
}

/// Every written number.
fn written_numbers(case: &Case) -> Vec<Place> {
    let mut found = Vec::new();
    for expectation in 0..case.expect.len() {
        for rank in (0..case.world_size.value).map(Some).chain([None]) {
            if matches!(&case.expect[expectation].content, BufferContent::Rows(rows) if rank.is_none_or(|r| r >= rows.len()))
            {
                continue;
            }
            let place = Place { expectation, rank, index: 0 };
            for index in 0..list_of(case, &place).map_or(0, |l| l.len()) {
                found.push(Place { index, ..place });
            }
        }
    }
    found
}

/// Another number of the type, which it can hold: the next one if that is possible.
fn another_value(dtype: DType, value: ElementValue) -> ElementValue {
    let bits = element_bits(dtype, &value);
    let next = match value {
        ElementValue::Bits(b) => return ElementValue::Bits(b ^ 1),
        ElementValue::Int(v) => vec![v + 1, v - 1],
        ElementValue::Float(_) => Vec::new(),
    };
    let numbers = next.into_iter().chain([7, 0]).map(ElementValue::Int);
    let mut others = numbers.filter(|v| fit_dtype(*v, dtype).is_ok() && element_bits(dtype, v) != bits);
    others.next().expect("every type holds 7 and 0")
}

fn write(case: &mut Case, place: &Place, value: ElementValue) {
    let list = match (&mut case.expect[place.expectation].content, place.rank) {
        (BufferContent::Rows(rows), Some(rank)) => match &mut rows[rank].kind {
            RowKind::Elements(list) => list,
            _ => return,
        },
        (BufferContent::All(fill), None) => match &mut fill.values {
            FillValues::Row(list) => list,
            FillValues::Number(one) => std::slice::from_mut(one),
            _ => return,
        },
        _ => return,
    };
    list[place.index].value = value;
}

#[test]
#[ignore = "slow"]
fn a_changed_number_of_an_expect_fails_its_rank_and_element() {
    let worker = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    let runner = Runner::soft(RunOptions { jobs: NonZeroUsize::new(1), workers: worker, ..RunOptions::default() })
        .expect("a runner");
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let (mut tried, mut wrong) = (0, Vec::new());
    let files = |name: &str| discover(&[root.join(name)]).expect("the corpus is there");
    for file in files("documented").into_iter().chain(files("language")) {
        let cases = load(&file.path, &file.name, MAX_BYTES).unwrap_or_else(|faults| panic!("{faults}"));
        // A sweep repeats itself; its first and last case will do.
        let last = cases.len() - 1;
        for case in cases.into_iter().enumerate().filter(|(i, _)| *i == 0 || *i == last).map(|(_, c)| c) {
            if case.outcome.as_ref().is_some_and(|o| o.value != [ExpectedOutcome::Ok]) || case.timeout.is_some() {
                continue;
            }
            let Ok(plan) = plan(&Arc::new(case.clone()), &Limits::default()) else { continue };
            let places = written_numbers(&case);
            for at in [0, places.len() / 2, places.len().saturating_sub(1)] {
                let Some(place) = places.get(at) else { continue };
                let name = &case.expect[place.expectation].target.name;
                let Some(buffer) = plan.buffers.iter().find(|b| b.name == *name) else { continue };
                let value = list_of(&case, place).expect("a place is in a list")[place.index].value;
                let mut changed = case.clone();
                write(&mut changed, place, another_value(buffer.dtype, value));
                let verdict = runner.run_case(&Arc::new(changed));
                if verdict.status == Status::Skip {
                    continue;
                }
                tried += 1;
                let sliced = case.expect[place.expectation].target.slice.is_some();
                let single = matches!(&case.expect[place.expectation].content, BufferContent::All(f) if matches!(f.values, FillValues::Number(_)));
                let named = verdict.findings.iter().any(|f| {
                    let element = sliced || single || f.element == Some(place.index as u64);
                    f.lane == Lane::Expected
                        && f.buffer.as_ref() == Some(name)
                        && element
                        && place.rank.is_none_or(|r| f.rank == Some(r))
                });
                if verdict.status != Status::Fail || !named {
                    wrong.push(format!(
                        "{} {name} {:?}[{}]: {:?} {:?}",
                        case.name, place.rank, place.index, verdict.status, verdict.findings
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried} went unnoticed or unnamed:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried > 150, "only {tried} numbers were changed");
}
