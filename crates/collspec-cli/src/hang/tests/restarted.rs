//! A job that was started again, with what an earlier run has left beside that of the newest.
use super::super::diagnosis::{Cause, Diagnosis};
use super::super::inputs::{Evidence, read};
use super::super::{Job, diagnose, text};
use super::only;
use crate::import::flight_recorder::{self, Dump};
use crate::import::source::Source;
use std::fmt::Write;
use std::fs;
use std::ops::Range;

const SECOND: u64 = 1_000_000_000;
const BEGIN: u64 = 1_763_980_000 * SECOND;

/// The text of the dump of a rank that has made this many calls one after the other, of which the last is open. Calls before `first` are lost.
fn written(ranks: usize, began: u64, calls: Range<u64>) -> String {
    let ranks: Vec<usize> = (0..ranks).collect();
    let mut text =
        format!("{{\"pg_config\": {{\"0\": {{\"desc\": \"default_pg\", \"ranks\": \"{ranks:?}\"}}}}, \"entries\": [");
    for number in calls.clone() {
        let created = BEGIN + began * SECOND + number * SECOND / 100;
        let (state, completed) = if number + 1 < calls.end {
            ("completed", format!("{}", created + 900))
        } else {
            ("started", "null".to_owned())
        };
        let comma = if number > calls.start { ", " } else { "" };
        _ = write!(
            text,
            "{comma}{{\"record_id\": {}, \"process_group\": [\"0\", \"default_pg\"], \"collective_seq_id\": {number}, \"p2p_seq_id\": 0, \
             \"op_id\": {number}, \"profiling_name\": \"nccl:all_reduce\", \"input_sizes\": [[4]], \"input_dtypes\": [\"Float\"], \
             \"output_sizes\": [[4]], \"output_dtypes\": [\"Float\"], \"state\": \"{state}\", \"time_created_ns\": {created}, \
             \"time_discovered_completed_ns\": {completed}}}",
            number - 1,
        );
    }
    text + "]}"
}

fn dump(rank: usize, ranks: usize, began: u64, calls: Range<u64>) -> Dump {
    flight_recorder::read(rank, &Source::Input(written(ranks, began, calls).into_bytes())).unwrap()
}

fn diagnosed(dumps: Vec<Dump>) -> Diagnosis {
    diagnose(&Job::of_dumps(dumps).unwrap())
}

/// Rank 3 was ended before it wrote its dump; the one that is there is of the run before, which came further.
#[test]
fn a_dump_that_an_earlier_run_has_left_is_not_compared() {
    for (old, new) in [(1..90, 1..20), (1..20, 1..20), (5_000..7_000, 1_000..3_000)] {
        let mut dumps: Vec<Dump> = (0..3).map(|rank| dump(rank, 4, 700, new.clone())).collect();
        dumps.push(dump(3, 4, 0, old));
        let diagnosis = diagnosed(dumps);
        assert_eq!((only(&diagnosis).0, only(&diagnosis).1), (Cause::Unknown, vec![3]), "{}", text(&diagnosis));
        assert!(diagnosis.remarks[0].contains("the dump of rank 3 is left out"), "{:?}", diagnosis.remarks);
    }
}

#[test]
fn dumps_of_ranks_that_the_job_has_no_more_are_not_compared() {
    let mut dumps: Vec<Dump> = (0..3).map(|rank| dump(rank, 3, 700, 1..20)).collect();
    dumps.extend([3, 4].map(|rank| dump(rank, 5, 0, 1..90)));
    let diagnosis = diagnosed(dumps.clone());
    assert_eq!(diagnosis.findings, [], "{}", text(&diagnosis));
    assert_eq!(diagnosis.waiting.len(), 1);
    assert!(diagnosis.remarks[0].contains("the dumps of ranks 3 and 4 are left out"), "{:?}", diagnosis.remarks);
    // Of two jobs at one time, none is newer.
    dumps.push(dump(5, 6, 700, 1..20));
    let refused = Job::of_dumps(dumps).unwrap_err().to_string();
    assert!(refused.contains("of different jobs or runs") && refused.contains("give only the files"), "{refused}");
}

/// The clock of one machine may be wrong by more than a run takes, and then no run is newer.
#[test]
fn one_late_dump_against_most_others_is_no_newer_run() {
    let mut dumps: Vec<Dump> = (0..3).map(|rank| dump(rank, 4, 0, 1..20)).collect();
    dumps.push(dump(3, 4, 700, 1..20));
    let refused = Job::of_dumps(dumps).unwrap_err().to_string();
    assert!(refused.contains("clocks") && refused.contains("of ranks 0 to 2 end before"), "{refused}");
}

/// One dump of four, in which nothing is wrong, says nothing about the others.
#[test]
fn that_no_rank_left_the_others_is_not_said_of_ranks_that_are_not_known() {
    let diagnosis = diagnosed(vec![dump(2, 4, 0, 1..2)]);
    let said = text(&diagnosis);
    assert!(!said.contains("No rank left") && said.contains("of ranks 0, 1 and 3"), "{said}");
}

/// Each run has a folder for its dumps, and the order in which the folders are named does not matter.
#[test]
fn of_two_dumps_of_a_rank_the_one_of_the_newest_run_is_read() {
    let home = tempfile::tempdir().unwrap();
    let folders = [("old", 0, 0..4, 1..90), ("new", 700, 0..3, 1..20)].map(|(name, began, ranks, calls)| {
        let folder = home.path().join(name);
        fs::create_dir(&folder).unwrap();
        for rank in ranks {
            fs::write(folder.join(format!("nccl_trace_rank_{rank}")), written(4, began, calls.clone())).unwrap();
        }
        folder
    });
    let [old, new] = folders.clone();
    for paths in [folders, [new.clone(), old]] {
        let evidence = read(&paths).unwrap();
        let newest = evidence.dump_files().iter().filter(|file| file.path.starts_with(&new)).count();
        let diagnosis = diagnose(&evidence.job(&mut |_| ()).unwrap());
        assert_eq!(
            (newest, only(&diagnosis).0, only(&diagnosis).1),
            (3, Cause::Unknown, vec![3]),
            "{}",
            text(&diagnosis)
        );
        assert!(
            diagnosis.remarks.iter().any(|remark| remark.contains("of rank 3 is left out")),
            "{:?}",
            diagnosis.remarks
        );
    }
}

/// Clocks differ a little, a rank may come late to its first call, and a stuck one may be far behind the ring buffers of others.
#[test]
fn the_ranks_of_one_run_are_all_compared() {
    let late = |rank: usize| if rank == 1 { dump(1, 2, 300, 1..2) } else { dump(0, 2, 0, 1..2) };
    let skewed = |rank: usize| dump(rank, 2, 5 * rank as u64, 1..(20 + rank as u64));
    let behind = |rank: usize| if rank == 1 { dump(1, 2, 0, 1..20) } else { dump(0, 2, 600, 1_000..3_000) };
    for dumps in [&late as &dyn Fn(usize) -> Dump, &skewed, &behind] {
        let diagnosis = diagnosed((0..2).map(dumps).collect());
        let said = text(&diagnosis);
        assert!(!said.contains("started again") && !said.contains("nothing is known"), "{said}");
    }
}

/// Lines of NCCL's log of a rank, and of a run with this id.
fn log(run: u64, pid: u64, rank: usize, ranks: usize, counts: &[u64]) -> String {
    let who = format!("h:{pid}:{pid} [{rank}] NCCL INFO");
    let mut text = format!(
        "{who} cudaDriverVersion 12080\n{who} ncclCommInitRank comm 0xa{rank} rank {rank} nranks {ranks} cudaDev {rank} nvmlDev {rank} \
         busId {rank}000 commId 0x{run} - Init START\n"
    );
    for (at, count) in counts.iter().enumerate() {
        _ = writeln!(
            text,
            "{who} AllReduce: opCount {at:x} sendbuff 0x1000 recvbuff 0x2000 count {count} datatype 7 op 0 root 0 comm 0xa{rank} stream 0x5"
        );
    }
    text
}

fn of_logs(logs: &[String]) -> Result<Job, String> {
    let mut evidence = Evidence::default();
    logs.iter().for_each(|log| evidence.take(Source::Input(log.clone().into_bytes()), false).unwrap());
    evidence.job(&mut |_| ()).map_err(|error| error.to_string())
}

/// In the first run rank 1 left out a call, in the second rank 2.
#[test]
fn of_logs_with_two_runs_one_after_the_other_the_newest_is_compared() {
    let counts = |absent: bool| if absent { vec![5, 6, 8] } else { vec![5, 6, 7, 8] };
    let alone = |pid: u64| -> Vec<String> {
        (0..3).map(|rank| log(2, pid + rank as u64, rank, 3, &counts(rank == 2))).collect()
    };
    let expected = diagnose(&of_logs(&alone(200)).unwrap());
    assert_eq!(only(&expected).1, [2]);
    // The second run has other processes, or, as in containers, the same ones; and as many ranks as the first, or fewer.
    for (pid, ranks) in [(200, 3), (100, 3), (200, 4), (100, 4)] {
        let first = |rank: usize| log(1, 100 + rank as u64, rank, ranks, &counts(rank == 1));
        let second = alone(pid);
        let one_file = (0..ranks).map(first).chain(second.clone()).collect::<String>();
        let by_rank: Vec<String> = (0..3).map(|rank| first(rank) + &second[rank]).collect();
        for logs in [vec![one_file], by_rank] {
            let diagnosis = diagnose(&of_logs(&logs).unwrap());
            assert_eq!(diagnosis.verdict, expected.verdict, "{}", text(&diagnosis));
            assert_eq!(diagnosis.waiting, expected.waiting);
            assert!(
                diagnosis.remarks[0].contains("started again") && diagnosis.remarks[0].contains("h:100"),
                "{:?}",
                diagnosis.remarks
            );
        }
    }
}

#[test]
fn logs_of_two_runs_in_files_of_their_own_are_refused_and_parts_of_one_job_are_not() {
    let run = |run: u64, pid: u64| (0..2).map(move |rank| log(run, pid + rank as u64, rank, 2, &[5, 6]));
    let both: Vec<String> = run(1, 100).chain(run(2, 200)).collect();
    let refused = of_logs(&both).unwrap_err();
    assert!(refused.contains("process 100 of h") && refused.contains("process 200"), "{refused}");
    assert!(refused.contains("give only the files of one"), "{refused}");
    // Two teams on the same GPUs whose lines alternate run at the same time.
    let mixed: String = run(1, 100).zip(run(2, 200)).flat_map(|(one, other)| [one, other]).collect();
    let job = of_logs(&[mixed]).unwrap();
    assert_eq!(job.programs.len(), 4);
}
