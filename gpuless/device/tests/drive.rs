//! Host threads that wait do the device's work. One test, because other threads' work could be taken by the same host thread.
use gpuless_device::{Event, Stream, activity, begin_held, set_idle_hook, set_patient};
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex};
use std::thread::{self, ThreadId};

/// Puts a function on a stream that says on which thread it runs.
fn ask(stream: &Stream) -> std::sync::mpsc::Receiver<ThreadId> {
    let (tell, told) = channel();
    stream.host_fn(Box::new(move || _ = tell.send(thread::current().id())));
    told
}

#[test]
fn a_host_thread_that_waits_does_the_work_itself() {
    let here = thread::current().id();

    // a patient thread's work begins when it waits, and on that thread
    set_patient(true);
    let stream = Stream::new();
    let told = ask(&stream);
    assert!(!activity().busy && activity().pending == 1, "it has not begun");
    assert!(told.try_recv().is_err());
    stream.synchronize();
    assert_eq!(told.recv().unwrap(), here);

    // a chain over two streams is done in its order, on the one thread that waits
    let (first, second, event) = (Stream::new(), Stream::new(), Event::new());
    let begun = ask(&first);
    first.record(&event);
    second.wait(&event).unwrap();
    let ended = ask(&second);
    second.synchronize();
    assert_eq!((begun.recv().unwrap(), ended.recv().unwrap()), (here, here));

    // work that the thread does not wait for is done nevertheless, once it has waited for something
    let (wanted, other) = (Stream::new(), Stream::new());
    wanted.host_fn(Box::new(|| ()));
    let told = ask(&other);
    wanted.synchronize();
    told.recv().unwrap();

    // and before it waits for anything else it lets its work begin elsewhere
    let told = ask(&stream);
    begin_held();
    assert_ne!(told.recv().unwrap(), here);
    let told = ask(&stream);
    set_patient(false);
    assert_ne!(told.recv().unwrap(), here);

    // a thread that is not patient need not wait at all
    let told = ask(&stream);
    told.recv().unwrap();

    // work that would hold up other work is left to the device's threads: the two functions meet
    set_patient(true);
    let (to_second, from_first) = channel();
    let (to_first, from_second) = channel();
    let (first, second) = (Stream::new(), Stream::new());
    first.host_fn(Box::new(move || {
        to_second.send(()).unwrap();
        from_second.recv().unwrap();
    }));
    second.host_fn(Box::new(move || {
        to_first.send(()).unwrap();
        from_first.recv().unwrap();
    }));
    first.synchronize();
    second.synchronize();
    set_patient(false);
    // A function has said where it runs before its stream has gone on.
    stream.synchronize();
    other.synchronize();
    assert_eq!(activity().pending, 0);

    woken_before_anything_long();
}

static CALLS: Mutex<()> = Mutex::new(());
static CALLED: Condvar = Condvar::new();

extern "C" fn called() {
    drop(CALLS.lock().unwrap());
    CALLED.notify_all();
}

/// A host whose wait this thread ends is awake before this thread does something that waits for it.
fn woken_before_anything_long() {
    set_idle_hook(Some(called));
    set_patient(true);
    let (first, second, event) = (Stream::new(), Stream::new(), Event::new());
    first.host_fn(Box::new(|| ()));
    let (tell, told) = channel();
    let other = thread::spawn({
        let first = first.clone();
        move || {
            first.synchronize();
            tell.send(()).unwrap();
        }
    });
    let calls = CALLS.lock().unwrap();
    drop(CALLED.wait_while(calls, |()| activity().blocked_hosts == 0).unwrap());
    first.record(&event);
    second.wait(&event).unwrap();
    second.host_fn(Box::new(move || told.recv().unwrap()));
    second.synchronize();
    other.join().unwrap();
    set_patient(false);
    set_idle_hook(None);
}
