//! The activity and the idle hook. Both describe the whole process, so these tests have their own binary.
use gpuless_device::{Activity, Done, Stream, activity, set_idle_hook, wake_hosts};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};

static IDLE: (Mutex<u64>, Condvar) = (Mutex::new(0), Condvar::new());

extern "C" fn hook() {
    *IDLE.0.lock().unwrap() += 1;
    IDLE.1.notify_all();
}

/// Waits, by nothing but the hook's calls, until the activity is as wanted.
fn until(wanted: impl Fn(&Activity) -> bool) -> Activity {
    let mut calls = IDLE.0.lock().unwrap();
    loop {
        let now = activity();
        if wanted(&now) {
            return now;
        }
        calls = IDLE.1.wait(calls).unwrap();
    }
}

#[test]
fn activity_hook_and_interruptible_waits() {
    set_idle_hook(Some(hook));
    let (open, gate) = channel::<Done>();
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicUsize::new(0));
    let mut hosts: Vec<_> = (0..100)
        .map(|i| {
            let (open, stop, asked) = (open.clone(), stop.clone(), asked.clone());
            std::thread::spawn(move || {
                let stream = Stream::new();
                stream.launch(Box::new(move |done| open.send(done).unwrap()));
                if i % 2 == 0 {
                    stream.synchronize();
                    return true;
                }
                stream.synchronize_unless(&|| {
                    asked.fetch_add(1, Ordering::SeqCst);
                    stop.load(Ordering::SeqCst)
                })
            })
        })
        .collect();
    // launched items that wait for their `Done` are pending, but nothing is busy
    let stuck = until(|c| c.blocked_hosts == 100 && !c.busy);
    assert_eq!(stuck.pending, 100);
    assert_eq!(activity(), stuck, "nothing moves, so nothing changes");
    assert_eq!(asked.load(Ordering::SeqCst), 50);

    // woken without need, they ask and wait again
    wake_hosts();
    let again = until(|c| c.blocked_hosts == 100 && !c.busy);
    assert!(again.epoch > stuck.epoch);
    assert_eq!(asked.load(Ordering::SeqCst), 100);

    // when stopped, the interruptible ones leave; the others stay blocked
    stop.store(true, Ordering::SeqCst);
    wake_hosts();
    let rest = until(|c| c.blocked_hosts == 50 && !c.busy);
    assert_eq!(rest.pending, 100);
    for i in (0..50).rev() {
        assert!(!hosts.remove(2 * i + 1).join().unwrap(), "stopped, not satisfied");
    }

    // a host does not count from the moment its condition is met, whether it has run since or not
    let mut dones: Vec<Done> = gate.try_iter().collect();
    while let Some(done) = dones.pop() {
        done.finish();
        let now = activity();
        assert!(now.blocked_hosts <= 50 && now.pending == dones.len() as u64);
    }
    assert_eq!(activity().blocked_hosts, 0);
    assert!(hosts.into_iter().all(|h| h.join().unwrap()));

    // something that executes is busy
    let (begin, begun) = channel();
    let (end, ended) = channel::<()>();
    let stream = Stream::new();
    stream.host_fn(Box::new(move || {
        begin.send(()).unwrap();
        ended.recv().unwrap();
    }));
    begun.recv().unwrap();
    assert!(activity().busy);
    let calls = *IDLE.0.lock().unwrap();
    end.send(()).unwrap();
    let idle = until(|c| !c.busy && c.pending == 0);
    assert!(*IDLE.0.lock().unwrap() > calls || activity() == idle);
    set_idle_hook(None);
}
