//! Hand-made jobs on a worker process: what a worker does with calls, without files, plans or verdicts.
use collspec_core::expr::{Expr, Value, parse};
use collspec_core::num::DType;
use collspec_core::ops::NcclCall;
use collspec_run::child::program::Program;
use collspec_run::job::{AllocSpec, Call, CallKind, Job, MapRead, Ptr, RankEnd, Red, SetId, Timed};
use collspec_run::job::{Ended, Observation};
use collspec_run::run::execute::{Again, Executed, Task, execute};
use collspec_run::run::layout::CallMap;
use collspec_run::run::teardown::{TeardownResult, tear_down};
use collspec_run::run::worker::Worker;
use std::path::Path;
use std::time::Duration;

const GUARD: u64 = 4096;

fn worker() -> Worker {
    Worker::start(&Program::at(Path::new(env!("CARGO_BIN_EXE_collspec"))), &[Vec::new()], &[]).unwrap()
}

fn call(step: u32, kind: CallKind) -> Call {
    Call { step, tolerate: false, left_in_progress: false, kind }
}

fn init(rank: u32, n: u32) -> Call {
    call(0, CallKind::Init { comm: 0, id: 0, ids: None, rank: rank as i32, n: n as i32, config: None })
}

/// Two allocations per rank, `in` (2 * rank) and `out` (2 * rank + 1), of so many f32.
fn pointer(rank: u32, out: bool) -> Ptr {
    Ptr::At { alloc: 2 * rank + u32::from(out), byte: 0 }
}

fn all_reduce(step: u32, rank: u32, count: u64, red: Red) -> Call {
    let (send, recv) = (pointer(rank, false), pointer(rank, true));
    let (call_, dtype) = (NcclCall::AllReduce, DType::F32);
    let (root, comm, stream, algorithm) = (0, 0, 0, None);
    call(step, CallKind::Collective { call: call_, send, recv, count, dtype, red, root, comm, stream, algorithm })
}

fn job(n: u32, count: u64, program: impl Fn(u32) -> Vec<Call>) -> Job {
    let image = 2 * GUARD + 4 * count;
    let place = |i: u32, half: u64| {
        8 * u64::from(n).next_multiple_of(8) + (2 * u64::from(i) + half) * image.next_multiple_of(64)
    };
    let alloc = |i| AllocSpec {
        rank: i / 2,
        start: GUARD,
        from_library: false,
        image,
        initial: place(i, 0),
        last: place(i, 1),
    };
    Job {
        case: "job".into(),
        n,
        ranks: 0..n,
        comms: vec![(0..n).collect()],
        configs: vec![],
        nonblocking: vec![],
        ids: 1,
        makes_ids: 0,
        left_to_abort: Vec::new(),
        grow_ids: 0,
        streams: 2,
        null_stream: None,
        allocs: (0..2 * n).map(alloc).collect(),
        checkpoints: vec![],
        tags: 1,
        prelude: (0..n).map(|rank| vec![init(rank, n)]).collect(),
        programs: (0..n).map(program).collect(),
        one_thread: false,
        arena: place(2 * n, 0),
        reuse: None,
        variation: collspec_run::job::Variation::default(),
        words_unseen: false,
        timed: None,
        world: None,
    }
}

/// Inputs are `rank + i`, outputs 0, guards 0xa5.
fn images(n: u32, count: u64) -> Vec<Vec<u8>> {
    let image = |i: u32| {
        let data =
            (0..count).flat_map(|k| (if i.is_multiple_of(2) { (i / 2) as f32 + k as f32 } else { 0.0 }).to_le_bytes());
        let guard = vec![0xa5; GUARD as usize];
        [guard.clone(), data.collect(), guard].concat()
    };
    (0..2 * n).map(image).collect()
}

fn floats(image: &[u8]) -> Vec<f32> {
    let payload = &image[GUARD as usize..image.len() - GUARD as usize];
    payload.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn run_all(worker: &mut Worker, job: Job, repeat: u32) -> Vec<Observation> {
    let count = (job.allocs[0].image - 2 * GUARD) / 4;
    let initial = images(job.n, count);
    let limit = Duration::from_secs(120);
    let (map, again) = (CallMap::default(), Again::Same);
    let task = Task { job, images: &initial, map, repeat, again, opening: limit, limit, used_before: false };
    let mut seen = Vec::new();
    let executed = execute(worker, task, &mut |run| {
        seen.push(run);
        true
    });
    assert!(matches!(executed.unwrap(), Executed::Complete));
    seen
}

/// Ends a job: its communicators are kept under this name, or destroyed.
fn end_case(worker: &mut Worker, keep: Option<SetId>, destroy: &[SetId]) {
    let finished = tear_down(worker, 0, keep, destroy.to_vec(), Duration::from_secs(120));
    assert!(matches!(finished, TeardownResult::Done));
}

/// A sum on communicators that are kept under this name.
fn sum_on(n: u32, set: SetId) -> Job {
    Job { reuse: Some(set), ..sum_job(n) }
}

fn run(worker: &mut Worker, job: Job) -> Observation {
    run_all(worker, job, 1).remove(0)
}

fn expected_sums(n: u32, count: u64) -> Vec<f32> {
    (0..count).map(|i| (0..n).map(|rank| rank as f32 + i as f32).sum()).collect()
}

fn is_sum(seen: &Observation, n: u32, count: u64) {
    assert_eq!(seen.ended, Ended::Done, "{:?} {}", seen.ranks, seen.log);
    for rank in 0..n as usize {
        assert_eq!(floats(&seen.images[2 * rank + 1]), expected_sums(n, count));
        assert!(seen.images[2 * rank + 1][..GUARD as usize].iter().all(|b| *b == 0xa5));
    }
}

#[test]
fn a_timed_job_reports_its_iterations_and_leaves_what_the_last_one_made_of_the_inputs() {
    let mut worker = worker();
    let count = 5;
    // in place, so that every iteration but the last one adds to what the one before it left
    let in_place = |rank: u32| {
        let CallKind::Collective { call: name, recv, dtype, red, comm, stream, algorithm, .. } =
            all_reduce(0, rank, count, Red::Builtin(0)).kind
        else {
            unreachable!()
        };
        let root = 0;
        let kind =
            CallKind::Collective { call: name, send: recv, recv, count, dtype, red, root, comm, stream, algorithm };
        vec![call(0, kind)]
    };
    let mut images = images(3, count);
    for rank in 0..3 {
        images[2 * rank + 1] = images[2 * rank].clone();
    }
    let limit = Duration::from_secs(120);
    for (warm_up, iterations) in [(2, 5), (0, 1)] {
        let job = Job { timed: Some(Timed { warm_up, iterations }), ..job(3, count, in_place) };
        let (map, again) = (CallMap::default(), Again::Same);
        let task = Task { job, images: &images, map, repeat: 1, again, opening: limit, limit, used_before: false };
        let mut seen = Vec::new();
        let executed = execute(&mut worker, task, &mut |run| {
            seen.push(run);
            true
        });
        assert!(matches!(executed.unwrap(), Executed::Complete));
        is_sum(&seen[0], 3, count);
        for rank in &seen[0].ranks {
            assert_eq!(rank.times.len(), iterations as usize);
            assert!(rank.times.iter().all(|seconds| *seconds > 0.0), "{:?}", rank.times);
        }
        end_case(&mut worker, None, &[]);
    }
    let plain = run(&mut worker, sum_job(2));
    assert!(plain.ranks.iter().all(|rank| rank.times.is_empty()));
}

#[test]
fn a_rank_that_fails_ends_the_iterations_of_all() {
    let mut worker = worker();
    let broken = |rank: u32| {
        let root = if rank == 1 { 7 } else { 0 };
        let kind = CallKind::Collective {
            call: NcclCall::Broadcast,
            send: pointer(rank, false),
            recv: pointer(rank, true),
            count: 3,
            dtype: DType::F32,
            red: Red::None,
            root,
            comm: 0,
            stream: 0,
            algorithm: None,
        };
        vec![call(0, kind)]
    };
    let seen = run(&mut worker, Job { timed: Some(Timed { warm_up: 0, iterations: 4 }), ..job(3, 3, broken) });
    assert_eq!(seen.ended, Ended::Errored);
    assert!(matches!(seen.ranks[1].end, RankEnd::Error { call: Some(0), .. }), "{:?}", seen.ranks);
}

fn sum_job(n: u32) -> Job {
    job(n, 3, |rank| vec![all_reduce(0, rank, 3, Red::Builtin(0))])
}

#[test]
fn a_job_runs_again_and_its_communicators_serve_the_next() {
    let mut w = worker();
    let seen = run_all(&mut w, sum_job(3), 4);
    assert_eq!(seen.len(), 4);
    seen.iter().for_each(|s| is_sum(s, 3, 3));
    assert!(!seen[0].reused);
    end_case(&mut w, Some(1), &[]);
    let seen = run(&mut w, sum_on(3, 1));
    is_sum(&seen, 3, 3);
    assert!(seen.reused, "kept communicators serve an equal prelude");
    end_case(&mut w, Some(2), &[]);
    let other = run(&mut w, sum_on(2, 2));
    is_sum(&other, 2, 3);
    assert!(!other.reused, "they serve no other");
    end_case(&mut w, None, &[]);
    assert!(run(&mut w, sum_on(3, 2)).reused, "another set was not in the way");
    end_case(&mut w, None, &[]);
    assert!(!run(&mut w, sum_on(3, 2)).reused, "kind was destroyed is gone");
}

#[test]
fn sets_are_kept_until_the_parent_has_them_destroyed() {
    let mut w = worker();
    for n in [2, 3, 4] {
        is_sum(&run(&mut w, sum_job(n)), n, 3);
        end_case(&mut w, Some(n.into()), &[]);
    }
    is_sum(&run(&mut w, sum_job(16)), 16, 3);
    end_case(&mut w, Some(16), &[2]);
    assert!(!run(&mut w, sum_on(2, 2)).reused, "it has been destroyed");
    end_case(&mut w, None, &[3, 16]);
    assert!(run(&mut w, sum_on(4, 4)).reused);
}

#[test]
fn teardown_of_more_ranks_touches_no_byte_of_the_job_that_it_follows() {
    let mut w = worker();
    is_sum(&run(&mut w, sum_job(16)), 16, 3);
    end_case(&mut w, Some(1), &[]);
    let job = sum_job(2);
    let (start, end) = (16, job.arena - 16);
    is_sum(&run(&mut w, job), 2, 3);
    let before = w.arena.mapping().read(start, end).unwrap();
    end_case(&mut w, None, &[1]);
    assert!(w.arena.mapping().read(start, end).unwrap() == before);
}

#[test]
fn a_job_before_the_end_of_the_last_is_trouble() {
    let mut w = worker();
    is_sum(&run(&mut w, sum_job(2)), 2, 3);
    assert!(trouble(&mut w, sum_job(2)).contains("before the last one was finished"));
}

#[test]
fn one_thread_drives_all_ranks() {
    let mut w = worker();
    let mut job = job(4, 3, |rank| {
        let again = all_reduce(
            1,
            rank,
            3,
            Red::PreMulSum { scalar: 1f32.to_le_bytes().to_vec(), device: None, destroyed: false },
        );
        vec![all_reduce(0, rank, 3, Red::Builtin(0)), call(0, CallKind::Wait { stream: None }), again]
    });
    job.one_thread = true;
    is_sum(&run(&mut w, job), 4, 3);
}

#[test]
fn a_thousand_ranks() {
    let mut w = worker();
    is_sum(&run(&mut w, sum_job(1024)), 1024, 3);
}

#[test]
fn large_images_grow_the_arena() {
    let mut w = worker();
    is_sum(&run(&mut w, job(2, 1 << 18, |rank| vec![all_reduce(0, rank, 1 << 18, Red::Builtin(0))])), 2, 1 << 18);
    end_case(&mut w, Some(1), &[]);
    is_sum(&run(&mut w, sum_on(2, 1)), 2, 3);
}

#[test]
fn an_error_stops_the_others_and_names_the_call() {
    let mut w = worker();
    let seen = run(
        &mut w,
        job(3, 3, |rank| {
            let bad =
                CallKind::Send { ptr: pointer(rank, false), count: 1, dtype: DType::F32, peer: 99, comm: 0, stream: 0 };
            if rank == 1 { vec![call(0, bad)] } else { vec![all_reduce(0, rank, 3, Red::Builtin(0))] }
        }),
    );
    assert_eq!(seen.ended, Ended::Errored);
    let RankEnd::Error { prelude: false, call: Some(0), code: 4, text } = &seen.ranks[1].end else {
        panic!("{seen:?}")
    };
    assert!(text.contains("ncclSend"), "{text}");
    assert!([0, 2].iter().all(|r| seen.ranks[*r as usize].end == RankEnd::Stopped), "{:?}", seen.ranks);
}

#[test]
fn a_tolerated_error_is_recorded_and_the_program_goes_on() {
    let mut w = worker();
    let seen = run(
        &mut w,
        job(2, 3, |rank| {
            let bad =
                CallKind::Send { ptr: pointer(rank, false), count: 1, dtype: DType::F32, peer: -7, comm: 0, stream: 0 };
            vec![Call { tolerate: true, ..call(0, bad) }, all_reduce(1, rank, 3, Red::Builtin(0))]
        }),
    );
    is_sum(&seen, 2, 3);
    for report in &seen.ranks {
        assert!(matches!(report.codes.as_slice(), [(0, 4, text)] if text.contains("ncclSend")), "{report:?}");
    }
}

#[test]
fn a_failure_while_opening_is_one_of_the_opening() {
    let mut w = worker();
    let mut bad = sum_job(2);
    bad.prelude[1] = vec![call(0, CallKind::Init { comm: 0, id: 0, ids: None, rank: 5, n: 2, config: None })];
    let seen = run(&mut w, bad);
    assert_eq!(seen.ended, Ended::Errored, "{seen:?}");
    assert!(matches!(seen.ranks[1].end, RankEnd::Error { prelude: true, call: Some(0), .. }), "{:?}", seen.ranks);
}

#[test]
fn a_hang_is_proved_and_says_where() {
    let mut w = worker();
    let seen = run(
        &mut w,
        job(3, 3, |rank| {
            let mut calls = vec![all_reduce(0, rank, 3, Red::Builtin(0))];
            if rank != 2 {
                calls.extend([all_reduce(1, rank, 3, Red::Builtin(0)), call(2, CallKind::Wait { stream: None })]);
            }
            calls
        }),
    );
    let Ended::Hung { proved: true, opening: false, waits } = &seen.ended else { panic!("{seen:?}") };
    assert!(!waits.is_empty());
    assert_eq!(seen.ranks[0].end, RankEnd::Running { call: 2 });
    assert_eq!(seen.ranks[2].end, RankEnd::Done);
    assert!(seen.images[0].is_empty() && !seen.images[4].is_empty());
}

#[test]
fn a_hang_while_opening_is_proved_too() {
    let mut w = worker();
    let mut lonely = sum_job(2);
    lonely.prelude[1].clear();
    let seen = run(&mut w, lonely);
    assert!(matches!(seen.ended, Ended::Hung { proved: true, opening: true, .. }), "{:?}", seen.ended);
}

fn double(rank: u32, text: &str) -> Call {
    let expr: Expr = parse(text).unwrap().expr;
    let reads = vec![MapRead { name: "x".into(), ptr: pointer(rank, true), count: 3, dtype: DType::F32 }];
    let names = vec![("rank".to_owned(), Value::Int(rank.into()))];
    call(1, CallKind::Map { expr, names, reads, out: pointer(rank, true), count: 3, dtype: DType::F32, stream: 1 })
}

#[test]
fn maps_run_in_stream_order_on_other_streams_and_in_place() {
    let mut w = worker();
    let seen = run(
        &mut w,
        job(2, 3, |rank| {
            let after = call(1, CallKind::After { stream: 1, on: vec![0] });
            vec![all_reduce(0, rank, 3, Red::Builtin(0)), after, double(rank, "2 * x[2 - i] + rank")]
        }),
    );
    assert_eq!(seen.ended, Ended::Done, "{:?}", seen.ranks);
    assert_eq!(floats(&seen.images[1]), [10.0, 6.0, 2.0]);
    assert_eq!(floats(&seen.images[3]), [11.0, 7.0, 3.0]);
}

#[test]
fn a_map_without_a_value_fails_its_rank_with_words() {
    let mut w = worker();
    let seen = run(&mut w, job(2, 3, |rank| vec![double(rank, if rank == 0 { "x[i + 1]" } else { "x" })]));
    assert_eq!(seen.ended, Ended::Errored);
    let RankEnd::Error { call: Some(0), code: collspec_run::job::NOT_NCCL, text, .. } = &seen.ranks[0].end else {
        panic!("{:?}", seen.ranks)
    };
    assert!(text.contains("x[i + 1]") && text.contains("element 2"), "{text}");
}

#[test]
fn steps_are_timed_and_counted_each_run_anew() {
    let mut w = worker();
    let timed = || {
        job(2, 3, |rank| {
            vec![
                call(0, CallKind::Begin { tag: 0, comm: Some(0) }),
                call(0, CallKind::Sleep { seconds: 0.02 }),
                all_reduce(0, rank, 3, Red::Builtin(0)),
                call(0, CallKind::End { tag: 0, stream: Some(0) }),
                all_reduce(1, rank, 3, Red::Builtin(0)),
            ]
        })
    };
    for _ in 0..2 {
        for seen in run_all(&mut w, timed(), 2) {
            let figure = &seen.ranks[0].figures[0];
            assert!(figure.seconds >= 0.02 && figure.seconds < 10.0, "{figure:?}");
            assert_eq!(figure.traffic.map(|t| t.sent), Some(3), "{figure:?}");
        }
        end_case(&mut w, None, &[]);
    }
}

#[test]
fn a_job_that_does_not_fit_together_is_trouble() {
    let mut w = worker();
    let mut bad = sum_job(2);
    bad.programs[0] = vec![all_reduce(0, 7, 3, Red::Builtin(0))];
    assert!(trouble(&mut w, bad).contains("allocation"));
}

/// A worker's answer to a job that it cannot do.
fn trouble(worker: &mut Worker, job: Job) -> String {
    let initial = images(job.n, 3);
    let limit = Duration::from_secs(120);
    let (map, again) = (CallMap::default(), Again::Same);
    let task = Task { job, images: &initial, map, repeat: 1, again, opening: limit, limit, used_before: false };
    let Err(error) = execute(worker, task, &mut |_| true) else { panic!("no error") };
    error.to_string()
}
