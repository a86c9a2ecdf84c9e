//! The functions of libibverbs, by their names. What callers hand over is looked up before it is used; an object that is not there is EINVAL.

mod answers;
mod memory;
mod queues;
mod pairs;
mod devices;
mod unsupported;

/// A function of libibverbs by its name.
pub fn function(name: &str) -> Option<*const ()> {
    [devices::find, memory::find, queues::find, pairs::find, unsupported::find].iter().find_map(|find| find(name))
}
