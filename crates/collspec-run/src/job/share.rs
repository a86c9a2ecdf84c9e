//! The share of a job that one of several parts receives: the data of its own ranks, and of all other ranks only a hash, so that
//! the total size of all shares grows with the ranks and not with ranks times parts.
use super::{AllocSpec, Call, CallKind, CheckpointSpec, Job};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_128;

/// A part's knowledge of the preludes of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct World {
    /// A hash of all preludes, communicators and configurations: parts agree by it on which are equal.
    print: u128,
    /// Unique ids that the preludes use.
    pub opening_ids: u32,
}

/// A job for one part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Share {
    /// The job without the parts that the other fields have.
    job: Box<Job>,
    /// Members of every communicator, as first ranks and lengths of runs.
    comms: Vec<Vec<(u32, u32)>>,
    /// Total number of allocations of all ranks.
    all_allocs: u32,
    /// Those of the part's ranks, with their numbers.
    allocs: Vec<(u32, AllocSpec)>,
    /// Total number of checkpoints of all ranks.
    all_checkpoints: u32,
    /// Those of the part's ranks, with their numbers.
    checkpoints: Vec<(u32, CheckpointSpec)>,
    /// The preludes of the part's ranks, in order.
    prelude: Vec<Vec<Call>>,
    /// The programs of the part's ranks, in order.
    programs: Vec<Vec<Call>>,
}

/// Stands in for a rank that is in another process.
pub const ELSEWHERE: u32 = u32::MAX;

impl Share {
    /// The shares of parts with these ranks, which follow each other and are all ranks.
    pub fn of_all(job: &Job, parts: &[Range<u32>]) -> Vec<Self> {
        let world = World::of(job);
        let comms: Vec<Vec<(u32, u32)>> = job.comms.iter().map(|members| runs(members)).collect();
        let part_of = |rank: u32| parts.partition_point(|ranks| ranks.end <= rank);
        let allocs = dealt(&job.allocs, parts.len(), |spec| part_of(spec.rank));
        let checkpoints = dealt(&job.checkpoints, parts.len(), |spec| part_of(spec.rank));
        let share = |((ranks, allocs), checkpoints): ((&Range<u32>, Vec<_>), Vec<_>)| Self {
            job: Box::new(Job {
                case: job.case.clone(),
                configs: job.configs.clone(),
                nonblocking: job.nonblocking.clone(),
                left_to_abort: job.left_to_abort.clone(),
                variation: job.variation.clone(),
                ranks: ranks.clone(),
                comms: Vec::new(),
                allocs: Vec::new(),
                checkpoints: Vec::new(),
                prelude: Vec::new(),
                programs: Vec::new(),
                world: Some(world),
                ..*job
            }),
            comms: comms.clone(),
            all_allocs: job.allocs.len() as u32,
            allocs,
            all_checkpoints: job.checkpoints.len() as u32,
            checkpoints,
            prelude: own(&job.prelude, ranks),
            programs: own(&job.programs, ranks),
        };
        parts.iter().zip(allocs).zip(checkpoints).map(share).collect()
    }

    /// The ranks of the part.
    pub fn ranks(&self) -> Range<u32> {
        self.job.ranks.clone()
    }

    /// Converts the share to a job. Data of other ranks is empty, and their allocations have the rank [`ELSEWHERE`].
    pub fn into_job(self) -> Job {
        let alloc = AllocSpec { rank: ELSEWHERE, start: 0, from_library: false, image: 0, initial: 0, last: 0 };
        let checkpoint = CheckpointSpec { rank: ELSEWHERE, bytes: 0, at: 0 };
        let members = |runs: Vec<(u32, u32)>| {
            runs.into_iter().flat_map(|(first, len)| first..first.saturating_add(len)).collect()
        };
        let ranks = self.ranks();
        Job {
            comms: self.comms.into_iter().map(members).collect(),
            allocs: placed(self.allocs, self.all_allocs, &alloc),
            checkpoints: placed(self.checkpoints, self.all_checkpoints, &checkpoint),
            prelude: of_world(self.prelude, &ranks, self.job.n),
            programs: of_world(self.programs, &ranks, self.job.n),
            ..*self.job
        }
    }
}

impl World {
    fn of(job: &Job) -> Self {
        let parts = postcard::to_stdvec(&(&job.prelude, &job.comms, &job.configs)).unwrap_or_default();
        let used = |call: &Call| match call.kind {
            CallKind::Init { id, ids, .. } => id..id + ids.unwrap_or(1).max(1),
            _ => 0..0,
        };
        let ids: BTreeSet<u32> = job.prelude.iter().flatten().flat_map(used).collect();
        Self { print: xxh3_128(&parts), opening_ids: ids.len() as u32 }
    }
}

/// Numbers as runs of neighbours.
fn runs(numbers: &[u32]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((first, len)) if first.checked_add(*len) == Some(*number) => *len += 1,
            _ => runs.push((*number, 1)),
        }
    }
    runs
}

/// Things with their numbers, by the part to which each belongs.
fn dealt<T: Clone>(things: &[T], parts: usize, part_of: impl Fn(&T) -> usize) -> Vec<Vec<(u32, T)>> {
    let mut all = vec![Vec::new(); parts];
    for (number, thing) in (0..).zip(things) {
        if let Some(own) = all.get_mut(part_of(thing)) {
            own.push((number, thing.clone()));
        }
    }
    all
}

fn own<T: Clone>(by_rank: &[T], ranks: &Range<u32>) -> Vec<T> {
    by_rank.get(ranks.start as usize..ranks.end as usize).unwrap_or_default().to_vec()
}

/// Puts things at their numbers, with `other` in between.
fn placed<T: Clone>(things: Vec<(u32, T)>, all: u32, other: &T) -> Vec<T> {
    let mut placed = vec![other.clone(); all as usize];
    for (number, thing) in things {
        if let Some(place) = placed.get_mut(number as usize) {
            *place = thing;
        }
    }
    placed
}

/// Puts lists of some ranks among empty ones of all others.
fn of_world<T>(lists: Vec<Vec<T>>, ranks: &Range<u32>, n: u32) -> Vec<Vec<T>> {
    let mut all = Vec::new();
    all.resize_with(n as usize, Vec::new);
    for (place, list) in all.iter_mut().skip(ranks.start as usize).zip(lists) {
        *place = list;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Variation;
    use crate::job::wire;

    fn wait(step: u32) -> Call {
        Call { step, tolerate: false, left_in_progress: false, kind: CallKind::Wait { stream: None } }
    }

    /// Two allocations, a checkpoint and some calls on each rank.
    fn job(n: u32) -> Job {
        let alloc = |number: u32| AllocSpec {
            rank: number % n,
            start: 4096,
            from_library: false,
            image: 8208,
            initial: u64::from(number) * 12288,
            last: u64::from(number) * 12288,
        };
        let init = |rank: u32| Call {
            kind: CallKind::Init { comm: 0, n: n as i32, rank: rank as i32, id: 0, ids: None, config: None },
            ..wait(0)
        };
        Job {
            case: "case".into(),
            n,
            ranks: 0..n,
            makes_ids: 0,
            left_to_abort: Vec::new(),
            comms: vec![(0..n).collect(), (0..n).rev().collect(), vec![1, 2, 4]],
            configs: Vec::new(),
            nonblocking: Vec::new(),
            ids: 1,
            grow_ids: 0,
            streams: 1,
            null_stream: None,
            allocs: (0..2 * n).map(alloc).collect(),
            checkpoints: (0..n).map(|rank| CheckpointSpec { rank, bytes: 8, at: 64 }).collect(),
            tags: 0,
            prelude: (0..n).map(|rank| vec![init(rank)]).collect(),
            programs: (0..n).map(|rank| vec![wait(rank); 3]).collect(),
            one_thread: false,
            arena: 1 << 20,
            reuse: None,
            variation: Variation::default(),
            words_unseen: true,
            timed: None,
            world: None,
        }
    }

    #[test]
    fn a_share_has_what_its_ranks_need_under_the_same_numbers() {
        let whole = job(6);
        for (part, share) in Share::of_all(&whole, &[0..2, 2..3, 3..6]).into_iter().enumerate() {
            let ranks = [0..2, 2..3, 3..6][part].clone();
            assert_eq!(share.ranks(), ranks);
            let share = share.into_job();
            assert_eq!((share.n, &share.comms, share.ranks.clone()), (6, &whole.comms, ranks.clone()));
            for (own, of_all) in share.allocs.iter().zip(&whole.allocs) {
                assert!(if ranks.contains(&of_all.rank) { own == of_all } else { own.rank == ELSEWHERE });
            }
            for (own, of_all) in share.checkpoints.iter().zip(&whole.checkpoints) {
                assert!(if ranks.contains(&of_all.rank) { own == of_all } else { own.rank == ELSEWHERE });
            }
            for rank in 0..6 {
                let (calls, prelude) = (&share.programs[rank as usize], &share.prelude[rank as usize]);
                let wanted = if ranks.contains(&rank) { (3, 1) } else { (0, 0) };
                assert_eq!((calls.len(), prelude.len()), wanted, "rank {rank}");
            }
            assert_eq!((share.allocs.len(), share.checkpoints.len()), (12, 6));
            assert_eq!(share.world.map(|world| world.opening_ids), Some(1));
        }
    }

    #[test]
    fn another_prelude_of_any_rank_is_another_world() {
        let (whole, mut other) = (job(6), job(6));
        other.prelude[5].clear();
        assert_eq!(World::of(&whole), World::of(&job(6)));
        assert_ne!(World::of(&whole), World::of(&other));
        other = job(6);
        other.comms[1].swap(0, 1);
        assert_ne!(World::of(&whole), World::of(&other));
    }

    #[test]
    fn shares_do_not_grow_with_the_ranks_of_other_parts() {
        let bytes = |n: u32| {
            let mut whole = job(n);
            whole.comms = vec![(0..n).collect()];
            let mut bytes = Vec::new();
            wire::put(&mut bytes, &Share::of_all(&whole, &[0..2, 2..n])[0]).unwrap();
            bytes.len()
        };
        // Numbers take more bytes if they are larger, and nothing else does.
        assert!(bytes(10_000) < bytes(10) + 32, "{} {}", bytes(10), bytes(10_000));
    }
}
