//! Jobs of which there are NCCL's logs.
use super::super::diagnose;
use super::super::diagnosis::{Cause, Diagnosis};
use super::super::inputs::Evidence;
use super::only;
use crate::import::source::Source;
use std::fmt::Write;

/// Lines of NCCL's log of a rank.
fn log(rank: usize, ranks: usize, counts: &[u64]) -> String {
    let who = format!("h:{0}:{0} [{rank}] NCCL INFO", 100 + rank);
    let mut text = format!(
        "{who} ncclCommInitRank comm 0xa{rank} rank {rank} nranks {ranks} cudaDev {rank} nvmlDev 0 busId 1 commId 0x77 - Init START\n"
    );
    for (at, count) in counts.iter().enumerate() {
        _ = writeln!(
            text,
            "{who} AllReduce: opCount {at:x} sendbuff 0x1000 recvbuff 0x2000 count {count} datatype 7 op 0 root 0 comm 0xa{rank} stream 0x5"
        );
    }
    text
}

fn of_sources(sources: Vec<Source>) -> Diagnosis {
    let mut evidence = Evidence::default();
    sources.into_iter().for_each(|source| evidence.take(source, false).unwrap());
    diagnose(&evidence.job(&mut |_| ()).unwrap())
}

#[test]
fn logs_show_who_left_out_a_call_and_who_stopped() {
    let left_out = |rank: usize| if rank == 1 { vec![5, 6, 8] } else { vec![5, 6, 7, 8] };
    let sources = |counts: &dyn Fn(usize) -> Vec<u64>| {
        (0..3).map(|rank| Source::Input(log(rank, 3, &counts(rank)).into_bytes())).collect()
    };
    let diagnosis = of_sources(sources(&left_out));
    assert_eq!(only(&diagnosis).0, Cause::LeftOut);
    assert_eq!(diagnosis.findings[0].ranks, [1]);
    let stopped = of_sources(sources(&|rank| if rank == 2 { vec![5, 6] } else { vec![5, 6, 7] }));
    assert_eq!((only(&stopped).0, only(&stopped).1), (Cause::Stopped, vec![2]));
    let agree = of_sources(sources(&|_| vec![5, 6]));
    assert_eq!(agree.findings, []);
}

/// However a log was stored, it says the same.
#[test]
fn compressed_wrapped_and_coloured_logs_are_read() {
    use std::io::Write as _;
    let plain: Vec<String> = (0..3).map(|rank| log(rank, 3, if rank == 1 { &[5, 8] } else { &[5, 7, 8] })).collect();
    let gzip = |text: &String| {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        to.write_all(text.as_bytes()).unwrap();
        to.finish().unwrap()
    };
    let utf_16 = |text: &String| [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let wrapped = |text: &String| {
        let line = |line: &str| format!("{}\n", serde_json::json!({ "log": format!("{line}\n"), "stream": "stdout" }));
        text.lines().map(line).collect::<String>().into_bytes()
    };
    let coloured = |text: &String| text.replace("NCCL", "\x1b[32mNC\x1b[0mCL").into_bytes();
    let expected = of_sources(plain.iter().map(|text| Source::Input(text.clone().into_bytes())).collect());
    assert_eq!(only(&expected).0, Cause::LeftOut);
    for stored in [
        plain.iter().map(gzip).collect::<Vec<_>>(),
        plain.iter().map(utf_16).collect(),
        plain.iter().map(wrapped).collect(),
        plain.iter().map(coloured).collect(),
    ] {
        let diagnosis = of_sources(stored.into_iter().map(Source::Input).collect());
        assert_eq!(diagnosis, expected);
    }
}
