//! User objects: kept by a graph, with a function to call when they are released.
use super::raw::{Function, HostFunction};
use super::{Handle, Out, capture, errors, handles, runtime};
use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::without_provenance_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// Handles are numbers from here on; never followed.
const FIRST: usize = 0xb00_0000;
/// `cudaUserObjectNoDestructorSync`, which must be given.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
/// `cudaGraphUserObjectMove`: the graph takes the caller's references.
const MOVE: c_uint = 1;

struct Object(HostFunction);

impl Drop for Object {
    fn drop(&mut self) {
        // It is called wherever the last graph ends.
        let _ = catch_unwind(AssertUnwindSafe(|| self.0.call()));
    }
}

/// Objects with references from callers, by number.
#[derive(Default)]
struct Objects {
    live: BTreeMap<usize, (Arc<Object>, c_uint)>,
    made: usize,
}

static OBJECTS: Mutex<Option<Objects>> = Mutex::new(None);

/// Releases references of a caller. The object may be destroyed when the returned value is dropped.
fn release(handle: Handle, count: c_uint) -> Result<Arc<Object>, std::ffi::c_int> {
    let mut objects = OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
    let objects = objects.get_or_insert_default();
    let (object, references) = objects.live.get_mut(&handle.addr()).ok_or(errors::INVALID_VALUE)?;
    let object = Arc::clone(object);
    *references = references.checked_sub(count).ok_or(errors::INVALID_VALUE)?;
    if *references == 0 {
        objects.live.remove(&handle.addr());
    }
    Ok(object)
}

runtime! {
    fn cudaUserObjectCreate(
        place: Out<'_, Handle>,
        argument: *mut c_void,
        destructor: Option<Function>,
        references: c_uint,
        flags: c_uint,
    ) {
        let place = place.ok_or(errors::INVALID_VALUE)?;
        let function = destructor.ok_or(errors::INVALID_VALUE)?;
        if references == 0 || flags != NO_DESTRUCTOR_SYNC {
            return Err(errors::INVALID_VALUE);
        }
        let mut objects = OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
        let objects = objects.get_or_insert_default();
        objects.made += 1;
        let handle = handles::handle(FIRST, objects.made);
        objects.live.insert(handle, (Arc::new(Object(HostFunction { function, argument })), references));
        place.write(without_provenance_mut(handle));
        Ok(())
    }
    fn cudaUserObjectRetain(object: Handle, count: c_uint) {
        let mut objects = OBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = objects.as_mut().and_then(|objects| objects.live.get_mut(&object.addr()));
        let (_, references) = known.filter(|_| count > 0).ok_or(errors::INVALID_VALUE)?;
        *references = references.checked_add(count).ok_or(errors::INVALID_VALUE)?;
        Ok(())
    }
    fn cudaUserObjectRelease(object: Handle, count: c_uint) {
        if count == 0 {
            return Err(errors::INVALID_VALUE);
        }
        drop(release(object, count)?);
        Ok(())
    }
    /// The number of references that the graph holds makes no difference: it releases all of them at its end.
    fn cudaGraphRetainUserObject(graph: Handle, object: Handle, count: c_uint, flags: c_uint) {
        if count == 0 || flags & !MOVE != 0 {
            return Err(errors::INVALID_VALUE);
        }
        let graph = capture::graph(graph)?;
        let object = release(object, if flags == MOVE { count } else { 0 })?;
        if graph.keep(object) { Ok(()) } else { Err(errors::INVALID_VALUE) }
    }
}
