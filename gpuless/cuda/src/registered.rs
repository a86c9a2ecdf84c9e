//! What programs register of themselves before they begin: fat binaries, and the addresses by which their code names kernels and variables.
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Handles of fat binaries are numbers from here on; never followed.
const FIRST: usize = 0x800_0000;
const STEP: usize = 16;

/// A kernel or a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// The handle of its fat binary.
    pub binary: usize,
    /// The address of the fat binary's wrapper.
    pub wrapper: usize,
    /// Its name in PTX.
    pub name: Arc<str>,
}

#[derive(Default)]
struct Registry {
    /// The address of each fat binary's wrapper, by handle.
    wrappers: BTreeMap<usize, usize>,
    symbols: HashMap<usize, (usize, Arc<str>)>,
    made: usize,
}

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<Registry>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives a fat binary its handle.
pub(crate) fn add_binary(wrapper: usize) -> usize {
    let mut registry = locked();
    let registry = registry.get_or_insert_default();
    registry.made += 1;
    let handle = FIRST + STEP * registry.made;
    registry.wrappers.insert(handle, wrapper);
    handle
}

/// From now on an address names something in a fat binary.
pub(crate) fn add_symbol(binary: usize, address: usize, name: &str) {
    let mut registry = locked();
    let registry = registry.get_or_insert_default();
    // The handle of a runtime whose functions were replaced only later says nothing here.
    if registry.wrappers.contains_key(&binary) {
        registry.symbols.insert(address, (binary, name.into()));
    }
}

/// Forgets a fat binary; the addresses that named something in it.
pub(crate) fn remove(binary: usize) -> Vec<usize> {
    let mut registry = locked();
    let registry = registry.get_or_insert_default();
    registry.wrappers.remove(&binary);
    let gone = registry.symbols.extract_if(|_, (of, _)| *of == binary).map(|(address, _)| address);
    gone.collect()
}

/// What an address names.
pub(crate) fn symbol(address: usize) -> Option<Symbol> {
    let registry = locked();
    let registry = registry.as_ref()?;
    let (binary, name) = registry.symbols.get(&address)?;
    Some(Symbol { binary: *binary, wrapper: *registry.wrappers.get(binary)?, name: name.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_is_found_in_the_fat_binary_that_registered_it() {
        let (one, other) = (add_binary(0x1000), add_binary(0x2000));
        add_symbol(one, 0x11, "kernel");
        add_symbol(other, 0x22, "kernel");
        add_symbol(other + 1, 0x33, "of another runtime");
        let found = |address| symbol(address).map(|symbol| (symbol.wrapper, symbol.name.to_string()));
        assert_eq!(found(0x11), Some((0x1000, "kernel".to_owned())));
        assert_eq!(found(0x22), Some((0x2000, "kernel".to_owned())));
        assert_eq!(found(0x33), None);
        assert_eq!((remove(one), found(0x11), remove(one)), (vec![0x11], None, vec![]));
        assert!(found(0x22).is_some() && remove(other) == [0x22]);
    }
}
