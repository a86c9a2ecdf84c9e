//! Recordings are read as they were written, and other files are refused.
use super::read::from_lines;
use super::*;
use collspec_core::judge::{BufferHashes, CallError, ContentHash, Lane};
use collspec_suite::report::{Event, Reporter};
use collspec_suite::suite::fixture;
use std::sync::Arc;

fn header() -> Header {
    Header {
        collspec_recording: FORMAT,
        collspec: "0.1.0".into(),
        library: LibraryIdentity { backend: "soft".into(), version: "2.30.7".into(), ..LibraryIdentity::default() },
        driver: None,
        devices: Vec::new(),
        environment: BTreeMap::from([("NCCL_ALGO".into(), "Ring".into())]),
        options: vec!["--seed".into(), "7".into()],
        seed: 7,
        started: 1_790_000_000,
        footprint: None,
        tuning: None,
    }
}

fn recorded(verdicts: Vec<Verdict>, finished: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RecordingWriter::new(&mut bytes, &header()).unwrap();
    for verdict in verdicts {
        let case: Arc<Case> = fixture::case(&verdict.case);
        writer.event(&Event::CaseDone { case, verdict: Box::new(verdict) }).unwrap();
    }
    if finished {
        writer.event(&Event::Finished { seconds: 1.5 }).unwrap();
    }
    bytes
}

fn verdicts() -> Vec<Verdict> {
    let mut pass = fixture::verdict("a", Status::Pass);
    let buffers = vec![BufferHashes { buffer: "out".into(), ranks: vec![Some(ContentHash::of(b"1")), None] }];
    pass.observed = Some(Box::new(ObservedResults { buffers, ..ObservedResults::default() }));
    let mut fail = fixture::verdict("b[n=2]", Status::Fail);
    let error = CallError { rank: 1, step: None, code: "system_error".into(), text: "no".into() };
    fail.observed = Some(Box::new(ObservedResults { errors: vec![error], ..ObservedResults::default() }));
    fail.reason = Some("rank 1".into());
    vec![pass, fail, fixture::verdict("c", Status::Skip)]
}

#[test]
fn what_is_written_is_read() {
    let recording = from_lines(recorded(verdicts(), true).as_slice(), "x").unwrap();
    assert_eq!(recording.header, header());
    assert_eq!(recording.closing, Some(Closing { recorded: 3, seconds: 1.5 }));
    assert_eq!(recording.cases.iter().map(|case| case.case.as_str()).collect::<Vec<_>>(), ["a", "b[n=2]", "c"]);
    let results = |at: usize| recording.cases[at].results.clone();
    assert_eq!(results(0).unwrap().buffers[0].ranks, [Some(ContentHash::of(b"1")), None]);
    assert_eq!(results(1).unwrap().errors[0].code, "system_error");
    assert_eq!(results(2), None);
}

#[test]
fn a_run_that_was_cut_short_is_told_from_a_whole_one() {
    let whole = recorded(verdicts(), false);
    let read = |bytes: &[u8]| from_lines(bytes, "x").unwrap();
    assert_eq!((read(&whole).cases.len(), read(&whole).closing), (3, None));
    // The last line was being written.
    let cut = read(&whole[..whole.len() - 5]);
    assert_eq!((cut.cases.len(), cut.closing), (2, None));
}

#[test]
fn members_that_a_later_version_adds_are_passed_over() {
    let text = String::from_utf8(recorded(verdicts(), true)).unwrap();
    let more =
        text.replace("{\"case\":", "{\"later\":[{}],\"case\":").replace("\"options\"", "\"later\":1,\"options\"");
    assert_ne!(more, text);
    assert_eq!(from_lines(more.as_bytes(), "x").unwrap(), from_lines(text.as_bytes(), "x").unwrap());
}

#[test]
fn anything_else_is_refused_with_its_line() {
    let text = String::from_utf8(recorded(verdicts(), true)).unwrap();
    let refused = |text: String| from_lines(text.as_bytes(), "x").unwrap_err().to_string();
    let newer = text.replacen("\"collspec_recording\":1", "\"collspec_recording\":2", 1);
    assert_eq!(refused(newer), "x is a recording of format 2; this version of collspec reads formats up to 1");
    for other in ["", "\n", "{}\n", "{\"case\":\"a\"}\n", "\u{feff}{\"collspec_recording\":1}"] {
        assert!(refused(other.into()).contains("is not a recording"), "{other}");
    }
    let line = |at: usize| text.lines().nth(at).unwrap().to_owned() + "\n";
    assert_eq!(refused(format!("{text}{}", line(1))), "x, line 6: there is a line after the closing line");
    assert_eq!(refused(line(0) + &line(1) + &line(1)), "x, line 3: the case `a` is here twice");
    let fewer = refused(line(0) + &line(1) + &line(4));
    assert_eq!(fewer, "x, line 3: the closing line speaks of 3 cases, but there are 1");
    let odd = refused(text.replacen("\"status\":\"pass\"", "\"status\":\"good\"", 1));
    assert!(odd.starts_with("x, line 2: unknown variant `good`"), "{odd}");
    assert!(refused(line(0) + "nothing\n").starts_with("x, line 2: "));
    assert!(refused("{\"collspec_recording\":1}\n".into()).starts_with("x, line 1: missing field"));
}

/// A recording as collspec 0.1.0 wrote it. The file must never change, and every later version must read it.
#[test]
fn a_recording_of_format_1_is_read_for_ever() {
    let bytes = include_bytes!("../../../../tests/recordings/version-1.jsonl");
    assert_eq!(String::from(ContentHash::of(bytes)), "fe81633c08b8938b");
    let recording = from_lines(bytes.as_slice(), "version-1.jsonl").unwrap();
    assert_eq!((recording.header.collspec_recording, recording.header.seed), (1, 7));
    assert_eq!(
        (recording.header.library.backend.as_str(), recording.header.library.version.as_str()),
        ("soft", "2.30.7")
    );
    assert!(recording.header.library.functions.contains(&"ncclAllReduce".to_owned()));
    assert!(recording.header.footprint.as_ref().is_some_and(|footprint| !footprint.init_seconds.is_empty()));
    assert_eq!(recording.closing.as_ref().map(|closing| closing.recorded), Some(5));
    let case = |name: &str| recording.cases.iter().find(|case| case.case == name).unwrap();
    assert_eq!((case("gpus").status, case("gpus").outcome), (Status::Skip, None));
    let refused = case("refused_root").results.as_ref().unwrap();
    assert_eq!((refused.errors[0].rank, refused.errors[0].code.as_str()), (0, "invalid_usage"));
    let wrong = case("wrong");
    assert_eq!(
        (wrong.status, wrong.finding.as_ref().map(|finding| finding.lane)),
        (Status::Fail, Some(Lane::Expected))
    );
    let rounding = case("rounding");
    assert_eq!(rounding.orders[0].map.name, "ring 0,1,2,3 (chunks of 16)");
    assert_eq!(rounding.orders[0].map.runs.len(), 4);
    assert_eq!(rounding.fingerprint.as_ref().map(|print| print.telling), Some(50));
    let hashes = &rounding.results.as_ref().unwrap().buffers[0].ranks;
    assert_eq!(hashes.len(), 4);
    assert!(hashes.iter().all(|hash| hash.map(String::from).as_deref() == Some("bce54661363f3194")));
}

#[test]
fn a_line_is_not_longer_than_is_read() {
    let long = "x".repeat(MAX_LINE as usize);
    let refused = from_lines(long.as_bytes(), "x").unwrap_err().to_string();
    assert_eq!(refused, "x, line 1: longer than 8 MiB");
    let mut verdict = fixture::verdict("a", Status::Pass);
    let buffers = vec![BufferHashes { buffer: long, ranks: Vec::new() }];
    verdict.observed = Some(Box::new(ObservedResults { buffers, ..ObservedResults::default() }));
    let mut writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
    let event = Event::CaseDone { case: fixture::case("a"), verdict: Box::new(verdict) };
    assert!(writer.event(&event).unwrap_err().to_string().contains("is too long for a recording"));
}
