//! What a judge with a flaw sees of a run with a fault: the run, with everything that this judge does not look at as it is in a run
//! without the fault. The sound judge judges that, and knows nothing of flaws.
use super::flaw::{BEGINNING_ELEMENTS, Flaw};
use collspec_core::judge::{Status, final_image, judge_pass_or_fail};
use collspec_core::num::{DType, decode_f64, get_element, is_nan};
use collspec_core::oracle::{Checkpoint, Forecast};
use collspec_core::plan::{Event, Plan};
use collspec_run::job::{Ended, Observation};
use std::collections::HashMap;

/// Bytes of a pack; [`Flaw::OnePerPack`] compares one element of each.
const PACK_BYTES: u64 = 16;
/// Relative error that [`Flaw::F16Tolerance`] accepts: f16's unit in the last place.
const F16_EPSILON: f64 = 1.0 / 1024.0;

/// A case, and one of its runs without a fault.
struct Repair<'a> {
    plan: &'a Plan,
    forecast: &'a Forecast,
    sound: &'a Observation,
    flaw: Flaw,
    /// For [`Flaw::NoSameBits`], the rank whose results all ranks are given that ought to have the same.
    like: usize,
}

/// The results of one rank without the fault, and both results of the rank that it may be given those of.
struct Results<'a> {
    dtype: DType,
    rank: usize,
    /// The index in its buffer of the first element.
    start: u64,
    sound: &'a [u8],
    other: Option<(&'a [u8], &'a [u8])>,
}

/// True if a judge with this flaw passes runs with a fault, given as many without it.
pub(super) fn hides(
    flaw: Flaw,
    plan: &Plan,
    forecast: &Forecast,
    sound: &[Observation],
    faulty: &[Observation],
) -> bool {
    // Each rank's result is right by itself if all could have it.
    let ranks = if flaw == Flaw::NoSameBits { plan.n } else { 1 };
    sound.len() >= faulty.len()
        && (0..ranks).all(|like| {
            let seen = |(faulty, sound)| Repair { plan, forecast, sound, flaw, like }.of(faulty);
            let seen: Vec<Observation> = faulty.iter().zip(sound).map(seen).collect();
            judge_pass_or_fail(plan, forecast, &seen).status == Status::Pass
        })
}

impl Repair<'_> {
    /// The run with the fault as the judge sees it.
    fn of(&self, faulty: &Observation) -> Observation {
        let (plan, sound, flaw) = (self.plan, self.sound, self.flaw);
        if faulty.ended != Ended::Done {
            return if flaw == Flaw::NoOutcome { sound.clone() } else { faulty.clone() };
        }
        let mut seen = faulty.clone();
        for (rank, (report, right)) in seen.ranks.iter_mut().zip(&sound.ranks).enumerate() {
            if flaw == Flaw::NoOutcome {
                report.codes.clone_from(&right.codes);
            } else if flaw == Flaw::OnlyRank0 && rank > 0 {
                report.clone_from(right);
            }
        }
        match flaw {
            Flaw::NoOutcome => seen.deaths.clone_from(&sound.deaths),
            Flaw::OnlyRank0 => {
                let of_rank_0 = |(rank, _): &&(u32, String)| *rank == 0;
                let others = sound.deaths.iter().filter(|death| !of_rank_0(death));
                seen.deaths = seen.deaths.iter().filter(of_rank_0).chain(others).cloned().collect();
            }
            _ => {}
        }
        seen.as_expected.resize(plan.allocs.len(), false);
        let images: Vec<_> = (0..plan.allocs.len())
            .map(|alloc| [sound, faulty].map(|run| final_image(plan, self.forecast, run, alloc)))
            .collect();
        for (alloc, image) in images.iter().enumerate() {
            let [Some(right), Some(wrong)] = image else { continue };
            let alone = !matches!(flaw, Flaw::OnlyRank0 | Flaw::NoSameBits);
            if right.len() != wrong.len() || alone && right == wrong {
                continue;
            }
            let mut repaired = wrong.clone();
            self.repair_image(alloc, &images, right, &mut repaired);
            if let Some(place) = seen.images.get_mut(alloc) {
                *place = repaired;
                seen.as_expected[alloc] = false;
            }
        }
        let copies = self.copies_of_like();
        for (at, checkpoint) in self.forecast.checkpoints.iter().enumerate() {
            let (Some(now), Some(right)) = (seen.checkpoints.get_mut(at), sound.checkpoints.get(at)) else { continue };
            let region = checkpoint.write.region;
            let written = plan.events.get(checkpoint.event).map(Event::writes).unwrap_or_default();
            let reads = !written.iter().flatten().any(|write| write.region == region);
            if flaw == Flaw::OnlyLast || flaw == Flaw::NoInputs && reads {
                now.clone_from(right);
            } else if !checkpoint.digest && now.len() == right.len() {
                let other = copies.get(&(checkpoint.event, region.buf, region.start)).and_then(|at| {
                    Some((sound.checkpoints.get(*at)?.as_slice(), faulty.checkpoints.get(*at)?.as_slice()))
                });
                let results = Results {
                    dtype: plan.buffers[region.buf].dtype,
                    rank: region.rank,
                    start: region.start,
                    sound: right,
                    other: other.filter(|(right, wrong)| [right.len(), wrong.len()] == [now.len(); 2]),
                };
                self.repair_results(&results, now);
            }
        }
        seen
    }

    /// By event, buffer and first element: the copy of the rank whose results others may be given.
    fn copies_of_like(&self) -> HashMap<(usize, usize, u64), usize> {
        if !matches!(self.flaw, Flaw::OnlyRank0 | Flaw::NoSameBits) {
            return HashMap::new();
        }
        let of_like = self
            .forecast
            .checkpoints
            .iter()
            .enumerate()
            .filter(|(_, checkpoint)| !checkpoint.digest && checkpoint.write.region.rank == self.like);
        of_like
            .map(|(at, Checkpoint { event, write, .. })| ((*event, write.region.buf, write.region.start), at))
            .collect()
    }

    /// Repairs the final image of an allocation; `images` are those of all, without and with the fault.
    fn repair_image(&self, alloc: usize, images: &[[Option<Vec<u8>>; 2]], right: &[u8], now: &mut [u8]) {
        let (plan, spec) = (self.plan, &self.plan.allocs[alloc]);
        let payload = spec.start() as usize..(spec.start() + spec.payload) as usize;
        if self.flaw == Flaw::NoGuards || self.flaw == Flaw::OnlyRank0 && spec.rank > 0 {
            now[..payload.start].copy_from_slice(&right[..payload.start]);
            now[payload.end..].copy_from_slice(&right[payload.end..]);
        }
        let mut is_result = vec![false; payload.len()];
        for region in plan.events.iter().flat_map(Event::writes).flatten().map(|write| write.region) {
            let buffer = &plan.buffers[region.buf];
            let place = buffer.places.get(region.rank).copied().flatten().filter(|place| place.alloc == alloc);
            let Some(place) = place else { continue };
            let byte = |element: u64| (place.offset + element * buffer.dtype.size() as u64) as usize;
            if let Some(bytes) = is_result.get_mut(byte(region.start)..byte(region.start + region.len)) {
                bytes.fill(true);
            }
        }
        for buffer in &plan.buffers {
            let bytes = |rank: usize| {
                let place = buffer.places.get(rank).copied().flatten()?;
                let from = (plan.allocs[place.alloc].start() + place.offset) as usize;
                Some((place.alloc, from..from + place.count as usize * buffer.dtype.size()))
            };
            let Some((_, range)) = bytes(spec.rank).filter(|(own, _)| *own == alloc) else { continue };
            let other = bytes(self.like).and_then(|(alloc, range)| {
                let [right, wrong] = images.get(alloc)?;
                Some((right.as_ref()?.get(range.clone())?, wrong.as_ref()?.get(range)?))
            });
            let other = other.filter(|(right, _)| right.len() == range.len());
            let results =
                Results { dtype: buffer.dtype, rank: spec.rank, start: 0, sound: &right[range.clone()], other };
            self.repair_results(&results, &mut now[range]);
        }
        if self.flaw == Flaw::NoInputs {
            for (at, is_result) in payload.zip(is_result) {
                if !is_result {
                    now[at] = right[at];
                }
            }
        }
    }

    fn repair_results(&self, results: &Results<'_>, now: &mut [u8]) {
        let sound = results.sound;
        match self.flaw {
            _ if sound == now && results.other.is_none_or(|(right, wrong)| right == wrong) => {}
            Flaw::NoOrder => {
                if are_in_another_order(results.dtype, sound, now) {
                    now.copy_from_slice(sound);
                }
            }
            Flaw::NoOutcome | Flaw::NoGuards | Flaw::NoInputs | Flaw::OnlyLast => {}
            _ => {
                for at in 0..now.len() / results.dtype.size() {
                    self.repair_element(results, at, now);
                }
            }
        }
    }

    /// Gives an element the value that the judge sees where the run has another one than it ought to have.
    fn repair_element(&self, results: &Results<'_>, at: usize, now: &mut [u8]) {
        let (dtype, index) = (results.dtype, results.start + at as u64);
        let element = at * dtype.size()..(at + 1) * dtype.size();
        let (right, is) = (&results.sound[element.clone()], &now[element.clone()]);
        let other = results.other.map(|(right, wrong)| (&right[element.clone()], &wrong[element.clone()]));
        let like_other = || other.filter(|(sound, _)| *sound == right).map(|(_, faulty)| faulty);
        let value = |bytes: &[u8]| get_element(dtype, bytes, 0);
        let hidden = match self.flaw {
            Flaw::OnlyRank0 => (results.rank > 0).then(|| like_other().unwrap_or(right)),
            Flaw::NoSameBits => like_other(),
            _ if right == is => None,
            Flaw::OnlyBeginning => (index >= BEGINNING_ELEMENTS).then_some(right),
            Flaw::OnePerPack => (!index.is_multiple_of(PACK_BYTES / dtype.size() as u64)).then_some(right),
            Flaw::NanEqualsAnything => (is_nan(dtype, value(right)) || is_nan(dtype, value(is))).then_some(right),
            Flaw::F16Tolerance => {
                // Of an infinity, any part is an infinity again, and nothing finite is near to it.
                let near = |right: f64, is: f64| right.is_finite() && (right - is).abs() <= right.abs() * F16_EPSILON;
                let is_near = || near(decode_f64(dtype, value(right)), decode_f64(dtype, value(is)));
                (matches!(dtype, DType::F32 | DType::F64) && is_near()).then_some(right)
            }
            Flaw::NoOutcome | Flaw::NoGuards | Flaw::NoInputs | Flaw::NoOrder | Flaw::OnlyLast => None,
        };
        if let Some(hidden) = hidden {
            now[element].copy_from_slice(hidden);
        }
    }
}

fn are_in_another_order(dtype: DType, one: &[u8], other: &[u8]) -> bool {
    let elements =
        |bytes: &[u8]| -> Vec<u64> { bytes.chunks(dtype.size()).map(|bytes| get_element(dtype, bytes, 0)).collect() };
    let (mut one, mut other) = (elements(one), elements(other));
    // Most runs with a fault have another sum, which is found sooner than the order.
    let sum = |all: &[u64]| all.iter().fold(0u64, |sum, bits| sum.wrapping_add(*bits));
    sum(&one) == sum(&other) && {
        one.sort_unstable();
        other.sort_unstable();
        one == other
    }
}
