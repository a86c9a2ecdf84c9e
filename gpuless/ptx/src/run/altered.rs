//! Functions that are different for a while: one with a changed operation, or all of them noting what of them is executed.
//!
//! A program's own functions stay as they are, so that whoever asks for none of this pays for one look at a flag when a function is entered.
use crate::code::Change;
use crate::error::Error;
use crate::link::FunctionId;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A changed operation of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutation {
    pub function: FunctionId,
    /// The number of the operation in the function's text.
    pub operation: u32,
    /// What is different about it.
    pub change: Change,
}

/// What is different about a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alteration {
    /// The operations that are executed are noted.
    Noted,
    /// An operation is changed.
    Mutated(Mutation),
}

impl Alteration {
    /// True if it concerns a function.
    fn concerns(&self, id: FunctionId) -> bool {
        match self {
            Self::Noted => true,
            Self::Mutated(mutation) => mutation.function == id,
        }
    }
}

/// A program's alteration, and the functions that it concerns as far as they were needed; `F` is a function that is ready to run.
#[derive(Debug)]
pub struct Altered<F> {
    is_some: AtomicBool,
    now: Mutex<Option<(Alteration, Functions<F>)>>,
}

type Functions<F> = FxHashMap<FunctionId, Result<Arc<F>, Error>>;

impl<F> Default for Altered<F> {
    fn default() -> Self {
        Self { is_some: AtomicBool::new(false), now: Mutex::new(None) }
    }
}

impl<F> Altered<F> {
    fn now(&self) -> MutexGuard<'_, Option<(Alteration, Functions<F>)>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The altered function, if it is one; `prepare` makes it when it is first entered.
    #[inline]
    pub fn function(
        &self,
        id: FunctionId,
        prepare: impl FnOnce(Alteration) -> Result<F, Error>,
    ) -> Option<Result<Arc<F>, Error>> {
        if self.is_some.load(Ordering::Relaxed) { self.prepared(id, prepare) } else { None }
    }

    #[cold]
    fn prepared(
        &self,
        id: FunctionId,
        prepare: impl FnOnce(Alteration) -> Result<F, Error>,
    ) -> Option<Result<Arc<F>, Error>> {
        let mut now = self.now();
        let (alteration, functions) = now.as_mut().filter(|(alteration, _)| alteration.concerns(id))?;
        Some(functions.entry(id).or_insert_with(|| prepare(*alteration).map(Arc::new)).clone())
    }

    /// From now on the program is altered like this, or as its text says. No kernel of it may be at work.
    pub fn set(&self, alteration: Option<Alteration>) {
        *self.now() = alteration.map(|alteration| (alteration, Functions::default()));
        self.is_some.store(alteration.is_some(), Ordering::Relaxed);
    }

    /// The functions that were entered since the program is altered, if it concerns them, in the order of their numbers.
    pub fn entered(&self) -> Vec<(FunctionId, Arc<F>)> {
        let now = self.now();
        let functions = now.iter().flat_map(|(_, functions)| functions);
        let mut entered: Vec<_> = functions.filter_map(|(id, ready)| Some((*id, ready.clone().ok()?))).collect();
        entered.sort_by_key(|(id, _)| *id);
        entered
    }
}
