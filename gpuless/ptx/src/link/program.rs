//! A linked program.
use super::names::{Defined, DefinedTwice, FunctionId, Names, Symbol, UnitId, VariableId};
use super::reach::SharedMemory;
use crate::error::Error;
use crate::module::{Function, Signature, Space, Variable};
use crate::text::{Definition, DefinitionKind, Index, Unit};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The reason units cannot be linked into a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A unit cannot be read.
    #[error(transparent)]
    Text(#[from] Error),
    /// Two visible definitions have one name.
    #[error("{second}: `{name}` is defined in {first} too")]
    DefinedTwice {
        /// The name that is defined twice.
        name: String,
        /// The unit of the first definition.
        first: String,
        /// The place of the second definition.
        second: Box<crate::Place>,
    },
}

/// Units that are linked. Functions and variables are read when first needed.
#[derive(Debug)]
pub struct Program {
    units: Vec<Unit>,
    names: Names,
    functions: Vec<OnceLock<Result<Function, Error>>>,
    variables: Vec<OnceLock<Result<Variable, Error>>>,
    shared: OnceLock<Result<FxHashSet<SharedMemory>, Error>>,
}

/// What linking has found out about units, to be kept for another process that has the same ones.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Linked {
    names: Names,
    shared: FxHashSet<SharedMemory>,
}

/// The methods panic if they are given a number of another program.
impl Program {
    /// Links units, in the order in which a linker would get them: of several weak definitions the first counts. Uses `threads` threads.
    ///
    /// # Errors
    ///
    /// A unit cannot be indexed, or two units have a visible definition of one name.
    pub fn link(units: Vec<Unit>, threads: usize) -> Result<Self, LinkError> {
        let indexes = index_all(&units, threads);
        let mut names = Names::default();
        for (unit, index) in units.iter().zip(indexes) {
            names.add(unit, &index?).map_err(|DefinedTwice { name, first, .. }| LinkError::DefinedTwice {
                name: unit.text()[name.clone()].to_owned(),
                first: units[first.0 as usize].name().to_owned(),
                second: Box::new(unit.place(name.start)),
            })?;
        }
        Ok(Self::new(units, names, OnceLock::new()))
    }

    fn new(units: Vec<Unit>, names: Names, shared: OnceLock<Result<FxHashSet<SharedMemory>, Error>>) -> Self {
        let functions = names.functions.iter().map(|_| OnceLock::new()).collect();
        let variables = names.variables.iter().map(|_| OnceLock::new()).collect();
        Self { units, names, functions, variables, shared }
    }

    /// The program of units that were linked before, of which no text is read for this; `None` if so many units cannot have given this.
    pub fn of_linked(units: Vec<Unit>, linked: Linked) -> Option<Self> {
        let Linked { names, shared } = linked;
        let known = |memory: &SharedMemory| match memory {
            SharedMemory::Variable(id) => (id.0 as usize) < names.variables.len(),
            SharedMemory::Own(id) => (id.0 as usize) < names.functions.len(),
        };
        let holds = names.holds_together(units.len()) && shared.iter().all(known);
        holds.then(|| Self::new(units, names, OnceLock::from(Ok(shared))))
    }

    /// What to keep for [`Program::of_linked`].
    ///
    /// # Errors
    ///
    /// A variable's declaration cannot be read.
    pub fn linked(&self) -> Result<Linked, Error> {
        Ok(Linked { names: self.names.clone(), shared: self.all_shared_memory()?.clone() })
    }

    pub fn unit(&self, id: UnitId) -> &Unit {
        &self.units[id.0 as usize]
    }

    /// The unit that contains a function.
    pub fn unit_of(&self, id: FunctionId) -> UnitId {
        self.names.functions[id.0 as usize].unit
    }

    /// The unit that contains a variable.
    pub fn unit_of_variable(&self, id: VariableId) -> UnitId {
        self.names.variables[id.0 as usize].unit
    }

    pub fn function_id(&self, number: u64) -> Option<FunctionId> {
        u32::try_from(number).ok().filter(|number| (*number as usize) < self.names.functions.len()).map(FunctionId)
    }

    /// All functions and kernels that are defined.
    pub fn functions(&self) -> impl Iterator<Item = FunctionId> + use<> {
        (0..self.names.functions.len() as u32).map(FunctionId)
    }

    /// All variables that are defined.
    pub fn variables(&self) -> impl Iterator<Item = VariableId> + use<> {
        (0..self.names.variables.len() as u32).map(VariableId)
    }

    pub fn kernel(&self, name: &str) -> Option<FunctionId> {
        let Some(Symbol::Function(id)) = self.names.visible(name) else { return None };
        (self.names.functions[id.0 as usize].definition.kind == DefinitionKind::Kernel).then_some(id)
    }

    /// A variable by name, of those that all units can see; in a program of one unit, of all.
    pub fn variable_named(&self, name: &str) -> Option<VariableId> {
        let own = || self.names.resolve(UnitId(0), name).filter(|_| self.units.len() == 1);
        match self.names.visible(name).or_else(own) {
            Some(Symbol::Variable(id)) => Some(id),
            _ => None,
        }
    }

    /// The names of all kernels, in no order.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.names.all_visible().filter(|(name, _)| self.kernel(name).is_some()).map(|(name, _)| name)
    }

    /// The definition of a name as seen from a unit.
    pub fn resolve(&self, unit: UnitId, name: &str) -> Option<Symbol> {
        self.names.resolve(unit, name)
    }

    /// True if a unit declares a name that may stay undefined: its address is 0 then.
    pub fn is_weak(&self, unit: UnitId, name: &str) -> bool {
        self.names.is_weak(unit, name)
    }

    /// A function with its body.
    ///
    /// # Errors
    ///
    /// Its text cannot be read.
    pub fn function(&self, id: FunctionId) -> Result<&Function, Error> {
        let (unit, definition) = self.defined(&self.names.functions[id.0 as usize])?;
        let function = self.functions[id.0 as usize].get_or_init(|| Function::of(unit, definition));
        function.as_ref().map_err(Clone::clone)
    }

    /// The head of a function, without reading its body.
    ///
    /// # Errors
    ///
    /// Its text cannot be read.
    pub fn signature(&self, id: FunctionId) -> Result<Signature, Error> {
        let (unit, definition) = self.defined(&self.names.functions[id.0 as usize])?;
        Signature::of(unit, definition)
    }

    /// A variable with its initial value.
    ///
    /// # Errors
    ///
    /// Its text cannot be read.
    pub fn variable(&self, id: VariableId) -> Result<&Variable, Error> {
        let (unit, definition) = self.defined(&self.names.variables[id.0 as usize])?;
        let variable = self.variables[id.0 as usize].get_or_init(|| Variable::of(unit, definition));
        variable.as_ref().map_err(Clone::clone)
    }

    /// The space of a variable, without reading its value.
    ///
    /// # Errors
    ///
    /// Its declaration cannot be read.
    pub fn space_of(&self, id: VariableId) -> Result<Option<Space>, Error> {
        let (unit, definition) = self.defined(&self.names.variables[id.0 as usize])?;
        Variable::space_of(unit, definition)
    }

    /// An error at a variable's declaration.
    pub fn variable_error(&self, id: VariableId, what: String) -> Error {
        let Defined { unit, definition } = &self.names.variables[id.0 as usize];
        self.unit(*unit).error(definition.head.start, what)
    }

    /// An error at a function's head.
    pub fn function_error(&self, id: FunctionId, what: String) -> Error {
        let Defined { unit, definition } = &self.names.functions[id.0 as usize];
        self.unit(*unit).error(definition.head.start, what)
    }

    /// The largest alignment of the shared memory whose size a launch decides.
    pub fn dynamic_align(&self) -> u64 {
        self.names.dynamic_align
    }

    /// The text of a function's body.
    pub(super) fn body(&self, id: FunctionId) -> Result<(&Unit, Range<usize>), Error> {
        let (unit, definition) = self.defined(&self.names.functions[id.0 as usize])?;
        Ok((unit, definition.body.clone().unwrap_or_default()))
    }

    pub(super) fn may_declare_shared(&self, id: FunctionId) -> bool {
        self.names.functions[id.0 as usize].definition.may_declare_shared
    }

    pub(super) fn all_shared_memory(&self) -> Result<&FxHashSet<SharedMemory>, Error> {
        self.shared.get_or_init(|| self.find_shared_memory()).as_ref().map_err(Clone::clone)
    }

    /// A definition and its unit, of which the text has been read, with everything that the definition says about it in it.
    fn defined<'a>(&'a self, defined: &'a Defined) -> Result<(&'a Unit, &'a Definition), Error> {
        let (unit, definition) = (self.unit(defined.unit), &defined.definition);
        unit.check()?;
        let within = |range: &Range<usize>| unit.text().get(range.clone()).is_some();
        let Definition { name, head, body, .. } = definition;
        if within(name) && within(head) && body.as_ref().is_none_or(within) {
            return Ok((unit, definition));
        }
        Err(unit.error(0, "what was kept about this text belongs to another"))
    }
}

/// The indexes of all units, in their order.
fn index_all(units: &[Unit], threads: usize) -> Vec<Result<Index, Error>> {
    let slots: Vec<OnceLock<Result<Index, Error>>> = units.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((unit, slot)) = take(&next, units, &slots) {
            _ = slot.set(Index::of(unit));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, units.len().max(1)) {
            // Without another thread this one does all of it.
            _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    slots.into_iter().zip(units).map(|(slot, unit)| slot.into_inner().unwrap_or_else(|| Index::of(unit))).collect()
}

fn take<'a, T>(next: &AtomicUsize, units: &'a [Unit], slots: &'a [T]) -> Option<(&'a Unit, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    units.get(at).zip(slots.get(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::Value;

    fn program(units: &[&str]) -> Result<Program, LinkError> {
        let units = units.iter().enumerate().map(|(at, text)| Unit::new(&format!("unit{at}"), (*text).into()).unwrap());
        Program::link(units.collect(), 2)
    }

    /// The unit and the first element of the variable that a name means in a unit.
    fn variable(program: &Program, unit: u32, name: &str) -> Option<(Value, u32)> {
        let Some(Symbol::Variable(id)) = program.resolve(UnitId(unit), name) else { return None };
        let of = program.names.variables[id.0 as usize].unit.0;
        program.variable(id).unwrap().values.first().cloned().map(|value| (value, of))
    }

    #[test]
    fn private_names_go_first_and_stay_in_their_unit() {
        let program = program(&[
            ".global .u32 x = 1; .visible .global .u32 y = 2;",
            ".visible .global .u32 x = 3; .global .u32 y = 4;",
            ".extern .global .u32 x; .extern .global .u32 z;",
        ])
        .unwrap();
        assert_eq!(variable(&program, 0, "x"), Some((Value::Bits(1), 0)));
        assert_eq!(variable(&program, 1, "x"), Some((Value::Bits(3), 1)));
        assert_eq!(variable(&program, 2, "x"), Some((Value::Bits(3), 1)));
        assert_eq!(variable(&program, 1, "y"), Some((Value::Bits(4), 1)));
        assert_eq!(variable(&program, 2, "y"), Some((Value::Bits(2), 0)));
        assert_eq!((program.resolve(UnitId(2), "z"), program.resolve(UnitId(2), "nothing")), (None, None));
    }

    #[test]
    fn a_visible_definition_goes_before_weak_ones_wherever_it_stands() {
        let weak = program(&[".weak .global .u32 x = 1;", ".weak .global .u32 x = 2;"]).unwrap();
        assert_eq!(variable(&weak, 1, "x"), Some((Value::Bits(1), 0)));
        let strong = program(&[".weak .global .u32 x = 1;", ".visible .global .u32 x = 2;"]).unwrap();
        assert_eq!(
            (variable(&strong, 0, "x"), variable(&strong, 1, "x")),
            (Some((Value::Bits(2), 1)), Some((Value::Bits(2), 1)))
        );
        let twice = program(&[".visible .func f() { ret; }", "\n.visible .func f() { ret; }"]).unwrap_err();
        assert_eq!(twice.to_string(), "unit1:2:16: `f` is defined in unit0 too");
    }

    #[test]
    fn kernels_functions_and_shared_memory() {
        let program = program(&[
            ".extern .func f(); .extern .shared .align 16 .b8 dynamic[]; .visible .entry k(.param .u64 a) { call f; ret; }",
            ".visible .func f() { trap; } .extern .shared .b8 fixed[8]; .entry hidden() { ret; }",
            ".visible .shared .b8 fixed[8];",
        ])
        .unwrap();
        let kernel = program.kernel("k").unwrap();
        assert_eq!(program.signature(kernel).unwrap().parameter_bytes(), 8);
        assert_eq!(program.function(kernel).unwrap().instructions.len(), 2);
        let mut kernels: Vec<&str> = program.kernels().collect();
        kernels.sort_unstable();
        assert_eq!((kernels, program.kernel("f")), (vec!["hidden", "k"], None));
        let Some(Symbol::Function(f)) = program.resolve(program.unit_of(kernel), "f") else {
            panic!("f is a function")
        };
        assert_eq!(program.unit_of(f), UnitId(1));
        assert_eq!(program.resolve(UnitId(0), "dynamic"), Some(Symbol::DynamicShared));
        assert!(matches!(program.resolve(UnitId(1), "fixed"), Some(Symbol::Variable(_))));
    }

    #[test]
    fn what_was_linked_before_is_the_same_program_and_reads_what_it_needs() {
        let texts =
            [".extern .func f(); .visible .entry k() { call f; ret; }", ".visible .func f() { trap; } .shared .b32 x;"];
        let linked = program(&texts).unwrap().linked().unwrap();
        let unit = |at: usize, text: Result<&'static str, &'static str>| {
            Unit::when_needed(&format!("unit{at}"), move || text.map(Into::into).map_err(Into::into))
        };
        let of = |second| Program::of_linked(vec![unit(0, Ok(texts[0])), unit(1, second)], linked.clone()).unwrap();
        let program = of(Err("it is gone"));
        let kernel = program.kernel("k").unwrap();
        assert_eq!(program.function(kernel).unwrap().instructions.len(), 2);
        let Some(Symbol::Function(f)) = program.resolve(program.unit_of(kernel), "f") else {
            panic!("f is a function")
        };
        assert_eq!(program.function(f).unwrap_err().to_string(), "unit1:1:1: it is gone");
        assert_eq!(program.shared_memory(kernel).unwrap().len(), 0);
        assert_eq!(of(Ok(texts[1])).function(f).unwrap().instructions.len(), 1);
        // A text for which the places are wrong.
        let short = of(Ok(".func")).function(f).unwrap_err();
        assert_eq!(short.to_string(), "unit1:1:1: what was kept about this text belongs to another");
        assert!(Program::of_linked(vec![unit(0, Ok(texts[0]))], linked.clone()).is_none(), "a unit is missing");
    }

    #[test]
    fn a_unit_that_cannot_be_read_is_named() {
        let error = program(&[".global .u32 x;", "ret;"]).unwrap_err();
        assert_eq!(error.to_string(), "unit1:1:1: a directive is expected at the level of the module, not `ret`");
        let good = program(&[".visible .func f() { @%p ret; }"]).unwrap();
        let Some(Symbol::Function(f)) = good.resolve(UnitId(0), "f") else { panic!("f is a function") };
        assert_eq!(good.function(f).unwrap_err().to_string(), "unit0:1:23: `%p` is not a register");
    }
}
