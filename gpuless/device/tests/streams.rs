//! Order within and across streams, launches, many streams, and a stress for lost wake-ups.
use gpuless_device::{Done, Event, Stream, memory};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

#[test]
fn items_of_a_stream_run_in_order() {
    let stream = Stream::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for i in 0..1000 {
        let seen = seen.clone();
        stream.host_fn(Box::new(move || seen.lock().unwrap().push(i)));
    }
    stream.synchronize();
    assert!(stream.query());
    assert_eq!(*seen.lock().unwrap(), (0..1000).collect::<Vec<_>>());
}

#[test]
fn copies_are_ordered_with_host_functions() {
    let stream = Stream::new();
    let (a, b) = (memory::alloc(8, 8).unwrap() as usize, memory::alloc(8, 8).unwrap() as usize);
    // SAFETY: both blocks live until after `synchronize`.
    stream.host_fn(Box::new(move || unsafe { (a as *mut u64).write(7) }));
    // SAFETY: as above.
    unsafe { stream.copy(b as *mut u8, a as *const u8, 8) };
    // SAFETY: as above.
    stream.host_fn(Box::new(move || unsafe { (a as *mut u64).write(8) }));
    stream.synchronize();
    // SAFETY: nothing is enqueued any more.
    unsafe {
        assert_eq!((*(a as *const u64), *(b as *const u64)), (8, 7));
        memory::free(a as *mut u8);
        memory::free(b as *mut u8);
    }
}

#[test]
fn events_order_streams_by_the_record_that_the_wait_saw() {
    let (a, b) = (Stream::new(), Stream::new());
    let event = Event::new();
    assert!(event.query());
    event.synchronize();
    let (open, gate) = channel::<Done>();
    let passed = Arc::new(AtomicBool::new(false));
    a.launch(Box::new(move |done| open.send(done).unwrap()));
    a.record(&event);
    b.wait(&event).unwrap();
    let p = passed.clone();
    b.host_fn(Box::new(move || p.store(true, Ordering::SeqCst)));
    // a later record on an idle stream is reached at once, and changes nothing for the wait above
    Stream::new().record(&event);
    assert!(event.query());
    let held = gate.recv().unwrap();
    assert!(!b.query() && !passed.load(Ordering::SeqCst));
    held.finish();
    b.synchronize();
    assert!(passed.load(Ordering::SeqCst));
}

#[test]
fn a_launch_blocks_only_its_own_stream() {
    let (open, gate) = channel::<Done>();
    let held: Vec<_> = (0..50)
        .map(|_| {
            let (stream, open) = (Stream::new(), open.clone());
            stream.launch(Box::new(move |done| open.send(done).unwrap()));
            let after = Arc::new(AtomicBool::new(false));
            let flag = after.clone();
            stream.host_fn(Box::new(move || flag.store(true, Ordering::SeqCst)));
            (stream, after)
        })
        .collect();
    let dones: Vec<Done> = (0..50).map(|_| gate.recv().unwrap()).collect();
    let free = Stream::new();
    free.host_fn(Box::new(|| ()));
    free.synchronize();
    assert!(held.iter().all(|(s, after)| !s.query() && !after.load(Ordering::SeqCst)));
    drop(dones); // dropping finishes too
    for (stream, after) in held {
        stream.synchronize();
        assert!(after.load(Ordering::SeqCst));
    }
}

#[test]
fn a_panic_ends_neither_stream_nor_executor() {
    let stream = Stream::new();
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..8 {
        let ran = ran.clone();
        stream.host_fn(Box::new(|| std::panic::resume_unwind(Box::new("on purpose"))));
        stream.launch(Box::new(|_done| std::panic::resume_unwind(Box::new("on purpose"))));
        stream.host_fn(Box::new(move || _ = ran.fetch_add(1, Ordering::SeqCst)));
    }
    stream.synchronize();
    assert_eq!(ran.load(Ordering::SeqCst), 8);
}

#[test]
fn handles_are_looked_up_and_end_with_the_stream() {
    let stream = Stream::new();
    let raw = stream.raw();
    assert!(!raw.is_null());
    assert_eq!(Stream::lookup(raw).unwrap().raw(), raw);
    drop(stream);
    assert!(Stream::lookup(raw).is_none());
    let null = std::ptr::null_mut();
    assert_eq!(Stream::lookup(null).unwrap().raw(), Stream::lookup(null).unwrap().raw());
}

#[test]
fn a_dropped_stream_still_does_its_work() {
    let (tell, told) = channel();
    let stream = Stream::new();
    let event = Event::new();
    for i in 0..100 {
        let tell = tell.clone();
        stream.host_fn(Box::new(move || tell.send(i).unwrap()));
    }
    stream.record(&event);
    drop(stream);
    event.synchronize();
    assert_eq!(told.try_iter().count(), 100);
}

#[test]
fn a_thousand_streams_in_a_chain_of_events() {
    let streams: Vec<_> = (0..1000).map(|_| Stream::new()).collect();
    let counter = Arc::new(AtomicUsize::new(0));
    let mut last = Event::new();
    for (i, stream) in streams.iter().enumerate() {
        stream.wait(&last).unwrap();
        let counter = counter.clone();
        stream.host_fn(Box::new(move || assert_eq!(counter.fetch_add(1, Ordering::SeqCst), i)));
        last = Event::new();
        stream.record(&last);
    }
    last.synchronize();
    assert_eq!(counter.load(Ordering::SeqCst), 1000);
    streams.iter().for_each(|s| assert!(s.query()));
}

/// Threads that synchronise against each other's launches as fast as they can: a lost wake-up hangs the test.
#[test]
fn no_wake_up_is_lost() {
    const ROUNDS: usize = 3000;
    let (dones, work) = channel::<Done>();
    let finisher = std::thread::spawn(move || work.into_iter().for_each(Done::finish));
    let hosts: Vec<_> = (0..4)
        .map(|t| {
            let dones = dones.clone();
            std::thread::spawn(move || {
                let (a, b, event) = (Stream::new(), Stream::new(), Event::new());
                let count = Arc::new(AtomicUsize::new(0));
                for i in 0..ROUNDS {
                    let (dones, count2) = (dones.clone(), count.clone());
                    a.launch(Box::new(move |done| dones.send(done).unwrap()));
                    a.record(&event);
                    b.wait(&event).unwrap();
                    b.host_fn(Box::new(move || _ = count2.fetch_add(1, Ordering::SeqCst)));
                    match (i + t) % 3 {
                        0 => b.synchronize(),
                        1 => assert!(b.synchronize_unless(&|| false)),
                        _ => event.synchronize(),
                    }
                    gpuless_device::wake_hosts();
                }
                b.synchronize();
                assert_eq!(count.load(Ordering::SeqCst), ROUNDS);
            })
        })
        .collect();
    hosts.into_iter().for_each(|h| h.join().unwrap());
    drop(dones);
    finisher.join().unwrap();
}

#[test]
fn blocked_host_functions_hold_up_their_own_streams_only() {
    // more than there are executors
    let gates: Vec<_> = (0..20)
        .map(|_| {
            let (open, gate) = channel::<()>();
            let stream = Stream::new();
            stream.blocking_host_fn(Box::new(move || gate.recv().unwrap()));
            (stream, open)
        })
        .collect();
    for _ in 0..100 {
        let other = Stream::new();
        let passed = Arc::new(AtomicBool::new(false));
        let p = passed.clone();
        other.blocking_host_fn(Box::new(move || p.store(true, Ordering::SeqCst)));
        other.synchronize();
        assert!(passed.load(Ordering::SeqCst));
    }
    for (stream, open) in gates {
        assert!(!stream.query());
        open.send(()).unwrap();
        stream.synchronize();
    }
}

#[test]
fn a_stream_goes_on_after_a_blocking_host_function_that_panics() {
    let stream = Stream::new();
    stream.blocking_host_fn(Box::new(|| panic!("on purpose")));
    let passed = Arc::new(AtomicBool::new(false));
    let p = passed.clone();
    stream.blocking_host_fn(Box::new(move || p.store(true, Ordering::SeqCst)));
    stream.synchronize();
    assert!(passed.load(Ordering::SeqCst));
}

#[test]
fn each_device_has_a_null_stream_of_its_own() {
    let (one, two) = (Stream::of_device(1), Stream::of_device(2));
    assert!(one.raw().is_null() && two.raw().is_null());
    assert_ne!(one.id(), two.id());
    assert_eq!(one.id(), Stream::of_device(1).id());
    let null = |device: usize| {
        let look = move || {
            gpuless_device::set_current(device);
            Stream::lookup(std::ptr::null_mut()).unwrap().id()
        };
        std::thread::spawn(look).join().unwrap()
    };
    assert_eq!([null(1), null(2)], [one.id(), two.id()]);
}
