//! The stand-in driver and library as files: a separate process finds them by the vendors' names and uses them from C.
mod child;
mod driver;
mod effects;
mod faults;
mod files;
#[path = "../it/support/libraries.rs"]
mod libraries;
mod library;
mod process;
#[path = "../it/support/processes.rs"]
mod processes;

/// What the processes run that the other tests start; by itself it does nothing.
#[test]
#[ignore = "run by the other tests, as a separate process"]
fn child() {
    match std::env::var("STANDIN_CHILD").as_deref() {
        Ok("driver") => driver::child(),
        Ok("walk") => library::walk(),
        Ok("rank") => library::one_rank(),
        Ok("abort") => library::abort(),
        Ok("effects") => effects::child(),
        Ok("slow") => effects::slow_child(),
        Ok("texts") => effects::texts_child(),
        Ok("refusals") => library::refusals(),
        Ok("two") => library::two(),
        Ok(other) => panic!("no child {other}"),
        Err(_) => {}
    }
}
