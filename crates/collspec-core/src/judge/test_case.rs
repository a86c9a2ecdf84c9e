//! Planned cases with the observation of a run without errors.
use crate::job::{Answers, Figure, RankEnd, RankReport, Traffic};
use crate::job::{Ended, Observation};
use crate::judge::{Verdict, judge};
use crate::oracle::Forecast;
use crate::oracle::interpreter::{AmbiguousResult, ResultResolver, Uncomputable, region_bytes};
use crate::oracle::memory::Memory;
use crate::plan::{Limits, Plan, plan};
use crate::scenario::{Case, Diagnostic, SourceFile, parse};
use std::collections::HashMap;
use std::sync::Arc;

/// A planned case with its forecast, and helpers to observe and judge it.
pub struct TestCase {
    /// The plan with default limits.
    pub plan: Plan,
    /// What the plan requires, for the seed 7.
    pub forecast: Forecast,
}

/// The cases of a file's text.
pub fn cases(text: &str) -> Vec<Arc<Case>> {
    let file = Arc::new(SourceFile { path: "test.toml".into(), text: text.into() });
    let parsed = parse(&file, "test").unwrap_or_else(|r| panic!("{:#?}", r.diagnostics));
    parsed.into_iter().map(Arc::new).collect()
}

/// The file's only case, planned.
pub fn planned_case(text: &str) -> TestCase {
    try_planned_case(&cases(text)[0]).unwrap_or_else(|d| panic!("{d:#?}"))
}

/// A case, planned with default limits.
///
/// # Errors
///
/// The plan or the forecast refuses the case.
pub fn try_planned_case(case: &Arc<Case>) -> Result<TestCase, Vec<Diagnostic>> {
    let plan = plan(case, &Limits::default())?;
    let forecast = Forecast::new(&plan, 7)?;
    Ok(TestCase { plan, forecast })
}

/// The right result of every write, by event and number of the write; and the data read, by number of the checkpoint.
struct RightResults<'a> {
    plan: &'a Plan,
    forecast: &'a Forecast,
    left: HashMap<(usize, usize), Vec<u8>>,
    read: HashMap<usize, Vec<u8>>,
}

impl ResultResolver for RightResults<'_> {
    fn resolve(&mut self, _: &AmbiguousResult<'_>) -> Option<Vec<u8>> {
        None
    }
    fn after_event(&mut self, number: usize, memory: &[Memory]) {
        for (write, target) in self.plan.events[number].writes().into_iter().enumerate() {
            let Some((alloc, range)) = target.and_then(|t| region_bytes(self.plan, t.region)) else { continue };
            let bytes = memory[alloc].data.get(range.start as usize..range.end as usize).expect("inside").into_owned();
            self.left.insert((number, write), bytes);
        }
        for index in self.forecast.read_checks(number) {
            let (alloc, range) =
                region_bytes(self.plan, self.forecast.checkpoints[*index].write.region).expect("a region");
            let bytes = memory[alloc].data.get(range.start as usize..range.end as usize).expect("inside").into_owned();
            self.read.insert(*index, bytes);
        }
    }
    fn uncomputable(&mut self, fault: Uncomputable) {
        panic!("{fault:?}");
    }
}

impl TestCase {
    /// The observation of a run without any error.
    pub fn perfect(&self) -> Observation {
        let mut interpreter = self.forecast.new_interpreter(&self.plan);
        let (left, read) = (HashMap::new(), HashMap::new());
        let mut record = RightResults { plan: &self.plan, forecast: &self.forecast, left, read };
        interpreter.run(0..self.plan.events.len(), &mut record);
        let images = self.forecast.initial.iter().zip(&interpreter.memory).zip(&self.plan.allocs).map(
            |((image, memory), alloc)| {
                let mut image = image.to_vec();
                let start = alloc.start() as usize;
                memory.data.copy_to(0, &mut image[start..start + memory.data.len()]);
                image
            },
        );
        let images = images.collect();
        let mut checkpoints = vec![Vec::new(); self.forecast.checkpoints.len()];
        let number = |((event, write), bytes)| Some((self.forecast.checkpoint(event, write)?, bytes));
        for (number, bytes) in record.left.into_iter().filter_map(number).chain(record.read) {
            let only_digest = self.forecast.checkpoints[number].digest;
            checkpoints[number] = if only_digest { crate::job::digest(&bytes).to_vec() } else { bytes };
        }
        let report = |rank: usize| RankReport {
            end: RankEnd::Done,
            codes: self.codes(rank),
            figures: (0..self.plan.tags.len() as u32)
                .map(|tag| Figure { tag, seconds: 0.001, traffic: None })
                .collect(),
            answers: Answers::default(),
            times: Vec::new(),
            work: None,
            machine: None,
        };
        Observation {
            ended: Ended::Done,
            ranks: (0..self.plan.n).map(report).collect(),
            images,
            as_expected: Vec::new(),
            checkpoints,
            log: String::new(),
            seconds: 0.001,
            reached: None,
            reached_until_limit: None,
            reused: false,
            deaths: super::deaths::wanted(&self.plan).map(|(rank, how, _)| (rank as u32, how)).collect(),
        }
    }

    /// Error codes in the form in which the steps' `error` expects them.
    fn codes(&self, rank: usize) -> Vec<(u32, i32, String)> {
        let wanted = |step: u32| {
            let step = self.plan.steps.get(step as usize)?;
            let code = step.error.iter().find(|(r, _)| *r == rank)?.1.map_or(4, |c| c.0);
            (code != 0).then_some(code)
        };
        let calls = self.plan.programs[rank].iter().enumerate();
        calls.filter_map(|(i, call)| Some((i as u32, wanted(call.step)?, "no".to_owned()))).collect()
    }

    /// The sound judge's verdict.
    pub fn judge(&self, seen: &[Observation]) -> Verdict {
        judge(&self.plan, &self.forecast, seen)
    }

    /// The element of a buffer in an image, for changing it.
    pub fn element<'a>(&self, seen: &'a mut Observation, name: &str, rank: usize, index: usize) -> &'a mut [u8] {
        let buffer = self.plan.buffers.iter().find(|b| b.name == name).expect("a buffer");
        let place = buffer.places[rank].expect("a place");
        let size = buffer.dtype.size();
        let from = (self.plan.allocs[place.alloc].start() + place.offset) as usize + index * size;
        &mut seen.images[place.alloc][from..from + size]
    }

    /// Changes the first elements of a buffer in an image.
    pub fn set_f32(&self, seen: &mut Observation, name: &str, rank: usize, values: &[f32]) {
        for (i, value) in values.iter().enumerate() {
            self.element(seen, name, rank, i).copy_from_slice(&value.to_le_bytes());
        }
    }

    /// An element of a buffer in an image.
    pub fn get_f32(&self, seen: &mut Observation, name: &str, rank: usize, index: usize) -> f32 {
        f32::from_le_bytes(self.element(seen, name, rank, index).try_into().expect("four bytes"))
    }
}

/// The traffic of a figure.
pub fn traffic(rounds: u64, sent: u64) -> Option<Traffic> {
    Some(Traffic { rounds, sent, received: sent, inner: 0 })
}
