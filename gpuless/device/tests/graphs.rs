//! Captures and graphs.
use gpuless_device::{CaptureError, CaptureMode, CaptureStatus, Event, Stream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

/// A list to which host functions append.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn note(&self, stream: &Stream, word: &'static str) {
        let log = self.0.clone();
        stream.repeatable_host_fn(Arc::new(move || log.lock().unwrap().push(word)));
    }
    fn words(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn begin(stream: &Stream) {
    stream.begin_capture(CaptureMode::Relaxed).expect("a stream that can be captured");
}

#[test]
fn captured_work_runs_at_each_launch_and_not_before() {
    let (stream, log) = (Stream::new(), Log::default());
    begin(&stream);
    log.note(&stream, "first");
    log.note(&stream, "second");
    let graph = stream.end_capture().expect("a graph");
    stream.synchronize();
    assert!(log.words().is_empty());
    assert_eq!(graph.len(), 2);
    let graph = graph.instantiate();
    for _ in 0..3 {
        graph.launch(&stream).expect("a launch");
        log.note(&stream, "between");
    }
    stream.synchronize();
    assert_eq!(log.words(), ["first", "second", "between"].repeat(3));
}

#[test]
fn a_copy_is_made_anew_from_what_its_source_holds() {
    let stream = Stream::new();
    let (mut from, mut to) = (vec![1u8; 4], vec![0u8; 4]);
    begin(&stream);
    // SAFETY: both vectors live until the stream is synchronized.
    unsafe { stream.copy(to.as_mut_ptr(), from.as_ptr(), 4) };
    let graph = stream.end_capture().expect("a graph").instantiate();
    from.fill(7);
    assert_eq!(to, [0; 4]);
    graph.launch(&stream).expect("a launch");
    stream.synchronize();
    assert_eq!(to, [7; 4]);
}

#[test]
fn a_stream_joins_by_waiting_and_its_work_keeps_its_place() {
    let (main, side, log) = (Stream::new(), Stream::new(), Log::default());
    let (fork, join) = (Event::new(), Event::new());
    begin(&main);
    log.note(&main, "before");
    main.record(&fork);
    side.wait(&fork).expect("a fork");
    assert!(side.capture_status().is_capturing());
    log.note(&side, "side");
    side.record(&join);
    main.wait(&join).expect("a join");
    log.note(&main, "after");
    let graph = main.end_capture().expect("a graph").instantiate();
    assert_eq!(side.capture_status(), CaptureStatus::None);
    // The launching stream need not be one of those that were captured.
    let other = Stream::new();
    for _ in 0..20 {
        graph.launch(&other).expect("a launch");
    }
    other.synchronize();
    assert_eq!(log.words(), ["before", "side", "after"].repeat(20));
}

#[test]
fn launches_of_one_graph_on_two_streams_do_not_overlap() {
    let (a, b, origin) = (Stream::new(), Stream::new(), Stream::new());
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    begin(&origin);
    let (i, m) = (inside.clone(), most.clone());
    origin
        .repeatable_host_fn(Arc::new(move || _ = m.fetch_max(i.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst)));
    let i = inside.clone();
    origin.repeatable_host_fn(Arc::new(move || _ = i.fetch_sub(1, Ordering::SeqCst)));
    let graph = origin.end_capture().expect("a graph").instantiate();
    for _ in 0..200 {
        graph.launch(&a).expect("a launch");
        graph.launch(&b).expect("a launch");
    }
    a.synchronize();
    b.synchronize();
    assert_eq!((inside.load(Ordering::SeqCst), most.load(Ordering::SeqCst)), (0, 1));
}

#[test]
fn a_capture_with_a_loose_end_is_no_graph() {
    let (main, side) = (Stream::new(), Stream::new());
    let fork = Event::new();
    begin(&main);
    main.record(&fork);
    side.wait(&fork).expect("a fork");
    Log::default().note(&side, "loose");
    assert_eq!(main.end_capture().err(), Some(CaptureError::Unjoined));
    assert_eq!((main.capture_status(), side.capture_status()), (CaptureStatus::None, CaptureStatus::None));
}

#[test]
fn what_cannot_be_captured_makes_the_capture_invalid() {
    let (main, other) = (Stream::new(), Stream::new());
    assert_eq!(Stream::of_device(0).begin_capture(CaptureMode::Global), Err(CaptureError::Implicit));
    assert_eq!(main.end_capture().err(), Some(CaptureError::Unmatched));
    // work from outside
    let outside = Event::new();
    other.record(&outside);
    begin(&main);
    assert_eq!(main.wait(&outside), Err(CaptureError::Isolation));
    assert!(matches!(main.capture_status(), CaptureStatus::Invalidated(_)));
    assert_eq!(main.end_capture().err(), Some(CaptureError::Invalidated));
    // two captures
    begin(&main);
    begin(&other);
    let event = Event::new();
    other.record(&event);
    assert_eq!(main.wait(&event), Err(CaptureError::Merge));
    assert_eq!(main.end_capture().err(), Some(CaptureError::Invalidated));
    // work that runs once
    other.host_fn(Box::new(|| ()));
    assert_eq!(other.end_capture().err(), Some(CaptureError::Invalidated));
    // a capture in a capture, and a record of one that is over
    begin(&main);
    assert_eq!(main.begin_capture(CaptureMode::Relaxed), Err(CaptureError::Unsupported));
    assert_eq!(main.end_capture().err(), Some(CaptureError::Invalidated));
    assert_eq!(main.wait(&event), Err(CaptureError::Isolation));
    assert!(event.is_captured());
}

#[test]
fn a_capture_ends_on_the_thread_that_began_it_unless_it_is_relaxed() {
    let stream = Stream::new();
    stream.begin_capture(CaptureMode::ThreadLocal).expect("a capture");
    let there = stream.clone();
    let end = std::thread::spawn(move || there.end_capture().err()).join().expect("a thread");
    assert_eq!(end, Some(CaptureError::WrongThread));
    assert!(stream.end_capture().is_ok());
}

#[test]
fn a_node_that_refuses_makes_the_launch_fail_and_nothing_runs() {
    let (stream, log) = (Stream::new(), Log::default());
    begin(&stream);
    log.note(&stream, "never");
    assert!(stream.capture_launch(Arc::new(|_| None)));
    let graph = stream.end_capture().expect("a graph").instantiate();
    assert_eq!(graph.launch(&stream), Err(CaptureError::LaunchFailed));
    stream.synchronize();
    assert!(log.words().is_empty());
    assert!(!stream.capture_launch(Arc::new(|_| None)));
}

#[test]
fn an_event_outside_orders_launches_with_work_that_is_not_captured() {
    let (user, other, side) = (Stream::new(), Stream::new(), Stream::new());
    let (outside, begun) = (Event::new(), Event::new());
    let log = Log::default();
    user.begin_capture(CaptureMode::Global).unwrap();
    user.record(&begun);
    side.wait(&begun).unwrap();
    let point = side.capture_point().unwrap();
    side.wait_outside(&outside).unwrap();
    log.note(&side, "captured");
    // The record is made first and put in its place afterwards, as a library does that adds nodes by handle.
    let record = user.capture_point().unwrap().record_beside(&outside).unwrap();
    assert!(record.put_after(&point) && record.is_of_capture(&point) && record != point);
    assert!(user.capture_after(&point));
    let graph = user.end_capture().unwrap().instantiate();
    assert!(point.is_over() && record.record_beside(&outside).is_none());
    assert!(!other.capture_after(&point) && other.capture_point().is_none());

    // Work in front of the launch that the launch waits for.
    let (sender, receiver) = mpsc::channel::<()>();
    other.blocking_host_fn(Box::new(move || receiver.recv().unwrap()));
    log.note(&other, "first");
    other.record_outside(&outside);
    graph.launch(&user).unwrap();
    other.wait_outside(&outside).unwrap();
    log.note(&other, "last");
    assert!(!user.query());
    sender.send(()).unwrap();
    other.synchronize();
    user.synchronize();
    assert_eq!(log.words(), ["first", "captured", "last"]);
}

#[test]
fn what_a_graph_keeps_lives_until_its_last_launch_has_ended() {
    let stream = Stream::new();
    let kept = Arc::new(());
    stream.begin_capture(CaptureMode::Global).unwrap();
    let point = stream.capture_point().unwrap();
    assert!(point.keep(kept.clone()));
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    stream.repeatable_blocking_host_fn(Arc::new(move || receiver.lock().unwrap().recv().unwrap()));
    let graph = stream.end_capture().unwrap();
    assert!(!point.keep(kept.clone()));
    let executable = graph.instantiate();
    executable.launch(&stream).unwrap();
    drop((graph, executable));
    assert_eq!(Arc::strong_count(&kept), 2);
    sender.send(()).unwrap();
    stream.synchronize();
    assert_eq!(Arc::strong_count(&kept), 1);

    // Without a graph nothing keeps it.
    stream.begin_capture(CaptureMode::Global).unwrap();
    assert!(stream.capture_point().unwrap().keep(kept.clone()));
    stream.invalidate_capture();
    assert!(stream.end_capture().is_err());
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn nodes_beside_the_streams_run_where_their_dependencies_put_them() {
    let (stream, log) = (Stream::new(), Log::default());
    begin(&stream);
    log.note(&stream, "first");
    let point = stream.capture_point().expect("a capture");
    let say = |word: &'static str| {
        let log = log.0.clone();
        Arc::new(move || log.lock().unwrap().push(word))
    };
    let third = point.blocking_host_fn_beside(say("third")).expect("a capture");
    let words = say("second");
    let launch = move |_: u64| -> Option<Vec<gpuless_device::Start>> {
        let words = words.clone();
        Some(vec![Box::new(move |done| {
            words();
            done.finish();
        })])
    };
    let second = point.launch_beside(Arc::new(launch)).expect("a capture");
    assert!(third.put_after(&second) && second.put_after(&point));
    let event = Event::new();
    let waits = point.wait_beside(&event).expect("a capture");
    assert!(waits.put_after(&third));
    // The stream does not wait for any of them, and yet a launch has ended only when they have.
    let graph = stream.end_capture().expect("a graph").instantiate();
    for _ in 0..3 {
        graph.launch(&stream).expect("a launch");
        stream.synchronize();
        assert_eq!(log.words(), ["first", "second", "third"]);
    }
}

#[test]
fn a_node_without_dependencies_waits_for_the_work_before_its_launch() {
    let (stream, log) = (Stream::new(), Log::default());
    begin(&stream);
    let point = stream.capture_point().expect("a capture");
    let words = log.0.clone();
    point.blocking_host_fn_beside(Arc::new(move || words.lock().unwrap().push("node"))).expect("a capture");
    let graph = stream.end_capture().expect("a graph").instantiate();
    let (open, gate) = mpsc::channel();
    let words = log.0.clone();
    stream.blocking_host_fn(Box::new(move || {
        gate.recv().expect("the gate opens");
        words.lock().unwrap().push("before");
    }));
    graph.launch(&stream).expect("a launch");
    std::thread::sleep(std::time::Duration::from_millis(20));
    open.send(()).expect("somebody waits");
    stream.synchronize();
    assert_eq!(log.words(), ["before", "node"]);
}

#[test]
fn a_graph_of_thousands_of_nodes_costs_no_more_than_they_do() {
    const NODES: usize = 3000;
    let (stream, ran) = (Stream::new(), Arc::new(AtomicUsize::new(0)));
    begin(&stream);
    for _ in 0..NODES {
        let point = stream.capture_point().expect("a capture");
        let ran = ran.clone();
        let node = point.blocking_host_fn_beside(Arc::new(move || _ = ran.fetch_add(1, Ordering::Relaxed)));
        let node = node.expect("a capture");
        assert!(node.put_after(&point) && stream.capture_after(&node));
    }
    let graph = stream.end_capture().expect("a graph");
    assert_eq!(graph.len(), NODES);
    graph.instantiate().launch(&stream).expect("a launch");
    stream.synchronize();
    assert_eq!(ran.load(Ordering::Relaxed), NODES);
    // Most memory that this process has had, in KiB, where the system says so.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(most) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) {
        let most: usize = most.trim().trim_end_matches(" kB").parse().expect("a number");
        assert!(most < 100 << 10, "{most} KiB");
    }
}
