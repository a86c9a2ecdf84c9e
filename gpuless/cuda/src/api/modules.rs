//! Modules and libraries of the driver: kernels that a program brings along as PTX.
use super::driver::driver;
use super::kernels::{self, Kernels, add_kernels};
use super::launch;
use super::raw::{In, Text};
use super::settings::settings;
use super::{Handle, Out, Outcome, devices, errors, handles, int, put, put_if};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::ptr::without_provenance_mut;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Handles of modules and of functions are numbers from here on; never followed.
const FIRST: usize = 0x900_0000;
/// `CUDA_ERROR_INVALID_PTX`.
const INVALID_PTX: c_int = 218;

/// Makes kernels of PTX, or says why it cannot.
pub type Loader = Box<dyn Fn(String) -> Result<Arc<dyn Kernels>, String> + Send + Sync>;

static LOADER: OnceLock<Loader> = OnceLock::new();

/// Sets what makes kernels of modules, once. Without it there are no modules.
pub fn load_modules_with(loader: Loader) {
    if LOADER.set(loader).is_ok() {
        add_kernels(Box::new(|address| {
            let modules = locked();
            let (module, name) = modules.as_ref()?.functions.get(&address.addr())?;
            Some((modules.as_ref()?.live.get(module)?.clone(), name.clone()))
        }));
    }
}

#[derive(Default)]
struct Modules {
    live: BTreeMap<usize, Arc<dyn Kernels>>,
    /// Module and name of each function.
    functions: BTreeMap<usize, (usize, String)>,
    made: usize,
}

static MODULES: Mutex<Option<Modules>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<Modules>> {
    MODULES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn load(place: Out<'_, Handle>, image: Text) -> Outcome {
    let refused = |why: &str, code| {
        eprintln!("software GPU: a module cannot be loaded: {why}");
        code
    };
    let place = place.ok_or(errors::INVALID_VALUE)?;
    // Machine code is no text, or begins as ELF files do.
    let text = image.get().ok().filter(|text| !text.starts_with("\x7fELF"));
    let text = text.ok_or_else(|| refused("it is machine code, and not PTX", errors::NO_KERNEL_IMAGE))?;
    let loader = LOADER.get().ok_or(errors::NOT_SUPPORTED)?;
    let kernels = loader(text).map_err(|why| refused(&why, INVALID_PTX))?;
    let mut modules = locked();
    let modules = modules.get_or_insert_default();
    modules.made += 1;
    let handle = handles::handle(FIRST, modules.made);
    modules.live.insert(handle, kernels);
    place.write(without_provenance_mut(handle));
    Ok(())
}

fn unload(module: Handle) -> Outcome {
    let mut modules = locked();
    let modules = modules.get_or_insert_default();
    modules.functions.retain(|_, (of, _)| *of != module.addr());
    modules.live.remove(&module.addr()).map(|_| ()).ok_or(errors::INVALID_RESOURCE_HANDLE)
}

fn function(place: Out<'_, Handle>, module: Handle, name: &str) -> Outcome {
    let mut modules = locked();
    let Modules { live, functions, made } = modules.get_or_insert_default();
    let kernels = live.get(&module.addr()).ok_or(errors::INVALID_RESOURCE_HANDLE)?;
    kernels.attributes(name).ok_or(errors::SYMBOL_NOT_FOUND)?;
    let known =
        functions.iter().find(|(_, (of, known))| *of == module.addr() && known == name).map(|(handle, _)| *handle);
    let handle = known.unwrap_or_else(|| {
        *made += 1;
        let handle = handles::handle(FIRST, *made);
        functions.insert(handle, (module.addr(), name.to_owned()));
        handle
    });
    put(place, without_provenance_mut(handle))
}

/// A `CUfunction_attribute`.
fn attribute(place: Out<'_, c_int>, attribute: c_int, function: Handle) -> Outcome {
    let known = launch::attributes(&kernels::kernel(function.cast_const().cast())?)?;
    let (major, minor) = settings().capability;
    let value = match attribute {
        0 => known.most_threads as usize,
        1 => known.shared,
        2 => known.constant,
        3 => known.local,
        4 => known.registers as usize,
        5 | 6 => (major * 10 + minor) as usize,
        8 => launch::MOST_SHARED.saturating_sub(known.shared),
        7 | 9..=15 => 0,
        _ => return Err(errors::INVALID_VALUE),
    };
    put(place, int(value))
}

driver! {
    fn cuModuleLoadData(place: Out<'_, Handle>, image: Text) { load(place, image) }
    fn cuModuleLoadDataEx(
        place: Out<'_, Handle>,
        image: Text,
        _count: c_uint,
        _options: In<c_int>,
        _values: In<Handle>,
    ) { load(place, image) }
    /// The options that follow have no effect.
    fn cuLibraryLoadData(place: Out<'_, Handle>, image: Text) { load(place, image) }
    fn cuModuleUnload(module: Handle) { unload(module) }
    fn cuLibraryUnload(library: Handle) { unload(library) }
    fn cuModuleGetFunction(place: Out<'_, Handle>, module: Handle, name: Text) { function(place, module, &name.get()?) }
    fn cuLibraryGetKernel(place: Out<'_, Handle>, library: Handle, name: Text) { function(place, library, &name.get()?) }
    fn cuLibraryGetModule(place: Out<'_, Handle>, library: Handle) { put(place, library) }
    fn cuKernelGetFunction(place: Out<'_, Handle>, kernel: Handle) { put(place, kernel) }
    fn cuModuleGetGlobal(address: Out<'_, u64>, size: Out<'_, usize>, module: Handle, name: Text) {
        let kernels = locked().as_ref().and_then(|modules| modules.live.get(&module.addr()).cloned());
        let found = kernels.ok_or(errors::INVALID_RESOURCE_HANDLE)?.variable(devices::current(), &name.get()?);
        let (start, len) = found.ok_or(errors::SYMBOL_NOT_FOUND)?;
        put_if(address, start);
        put_if(size, usize::try_from(len).unwrap_or(usize::MAX));
        Ok(())
    }
    fn cuFuncGetAttribute(place: Out<'_, c_int>, what: c_int, function: Handle) { attribute(place, what, function) }
    fn cuKernelGetAttribute(place: Out<'_, c_int>, what: c_int, kernel: Handle, _device: c_int) {
        attribute(place, what, kernel)
    }
    /// A launch checks what it needs.
    fn cuFuncSetAttribute(function: Handle, _what: c_int, _value: c_int) {
        kernels::kernel(function.cast_const().cast()).map(|_| ())
    }
    fn cuKernelSetAttribute(_what: c_int, _value: c_int, kernel: Handle, _device: c_int) {
        kernels::kernel(kernel.cast_const().cast()).map(|_| ())
    }
}
