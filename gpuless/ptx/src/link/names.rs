//! Resolves names to definitions (PTX ISA, 11.6).
use crate::module::Variable;
use crate::text::{Definition, DefinitionKind, Index, Linkage, Unit};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A unit of a program, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnitId(pub(crate) u32);

/// A function of a program, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FunctionId(pub(crate) u32);

impl FunctionId {
    /// The number, with which [`Program::function_id`](super::Program::function_id) finds it again.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A variable of a program, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VariableId(pub(crate) u32);

/// The definition that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Symbol {
    /// A kernel or function with a body.
    Function(FunctionId),
    /// A variable that is defined.
    Variable(VariableId),
    /// The shared memory whose size a launch decides: `.extern .shared` without a definition.
    DynamicShared,
}

/// A definition with a body or memory, and the unit that contains it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Defined {
    pub unit: UnitId,
    pub definition: Definition,
}

/// Two definitions of one name that both go before all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinedTwice {
    pub unit: UnitId,
    /// The bytes of the name in the second definition.
    pub name: Range<usize>,
    pub first: UnitId,
}

/// Definitions by number, and the names that lead to them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Names {
    pub functions: Vec<Defined>,
    pub variables: Vec<Defined>,
    /// The largest alignment of the shared memory whose size a launch decides.
    pub dynamic_align: u64,
    /// Names that all units can see, with how strong their definition is.
    visible: FxHashMap<Box<str>, (Symbol, Linkage)>,
    /// For each unit its private names; `None` for names that it only declares and that have no definition.
    of_unit: Vec<FxHashMap<Box<str>, Option<Symbol>>>,
    /// Names that a unit only declares and that may stay undefined.
    weak: FxHashSet<(UnitId, Box<str>)>,
}

impl Names {
    /// Adds a unit's names.
    ///
    /// # Errors
    ///
    /// A visible name has a visible definition in another unit too, or two in this one.
    pub fn add(&mut self, unit: &Unit, index: &Index) -> Result<UnitId, DefinedTwice> {
        let id = UnitId(self.of_unit.len() as u32);
        let mut own: FxHashMap<Box<str>, Option<Symbol>> = FxHashMap::default();
        for definition in &index.definitions {
            let name = &unit.text()[definition.name.clone()];
            if definition.body.is_none() {
                let of_launch = definition.kind == DefinitionKind::Variable && is_unsized_shared(unit, definition);
                if of_launch {
                    let align = Variable::of(unit, definition).map_or(1, |variable| variable.shape.align);
                    self.dynamic_align = self.dynamic_align.max(align.into());
                }
                if definition.linkage == Linkage::Weak {
                    self.weak.insert((id, name.into()));
                }
                own.entry(name.into()).or_insert(of_launch.then_some(Symbol::DynamicShared));
                continue;
            }
            let all =
                if definition.kind == DefinitionKind::Variable { &mut self.variables } else { &mut self.functions };
            let number = all.len() as u32;
            let symbol = match definition.kind {
                DefinitionKind::Variable => Symbol::Variable(VariableId(number)),
                DefinitionKind::Kernel | DefinitionKind::Function => Symbol::Function(FunctionId(number)),
            };
            all.push(Defined { unit: id, definition: definition.clone() });
            // The host can launch every kernel by its name, even one that other units cannot see.
            let linkage = match (definition.kind, definition.linkage) {
                (DefinitionKind::Kernel, Linkage::Private) => Linkage::Weak,
                (_, linkage) => linkage,
            };
            if linkage == Linkage::Private {
                own.insert(name.into(), Some(symbol));
            } else {
                self.publish(name, symbol, linkage, id, definition)?;
            }
        }
        self.of_unit.push(own);
        Ok(id)
    }

    /// True if every number in it leads to something, in a program of so many units, and no declaration could say more than it does.
    pub fn holds_together(&self, units: usize) -> bool {
        let symbols = self.visible.values().map(|(symbol, _)| symbol);
        let mut symbols = symbols.chain(self.of_unit.iter().flat_map(|own| own.values().flatten()));
        let mut defined = self.functions.iter().chain(&self.variables);
        let align = self.dynamic_align;
        (align == 0 || (align.is_power_of_two() && align <= 1 << 16))
            && self.of_unit.len() == units
            && defined.all(|defined| (defined.unit.0 as usize) < units)
            && symbols.all(|symbol| *symbol == Symbol::DynamicShared || self.unit_of(*symbol).is_some())
    }

    fn publish(
        &mut self,
        name: &str,
        symbol: Symbol,
        linkage: Linkage,
        unit: UnitId,
        definition: &Definition,
    ) -> Result<(), DefinedTwice> {
        match self.visible.get(name) {
            Some((first, Linkage::Visible)) if linkage == Linkage::Visible => {
                let first = self.unit_of(*first).unwrap_or(unit);
                Err(DefinedTwice { unit, name: definition.name.clone(), first })
            }
            // The first of several weak ones stays.
            Some(_) if linkage != Linkage::Visible => Ok(()),
            _ => {
                self.visible.insert(name.into(), (symbol, linkage));
                Ok(())
            }
        }
    }

    /// The unit of a definition.
    pub fn unit_of(&self, symbol: Symbol) -> Option<UnitId> {
        match symbol {
            Symbol::Function(id) => self.functions.get(id.0 as usize).map(|defined| defined.unit),
            Symbol::Variable(id) => self.variables.get(id.0 as usize).map(|defined| defined.unit),
            Symbol::DynamicShared => None,
        }
    }

    /// The definition of a name as seen from a unit.
    pub fn resolve(&self, unit: UnitId, name: &str) -> Option<Symbol> {
        let own = self.of_unit.get(unit.0 as usize)?.get(name);
        match own {
            Some(Some(symbol)) if *symbol != Symbol::DynamicShared => Some(*symbol),
            // A declaration, or a name that all can see.
            declared => self.visible.get(name).map(|(symbol, _)| *symbol).or(declared.copied().flatten()),
        }
    }

    /// True if a unit declares a name that may stay undefined: its address is 0 then.
    pub fn is_weak(&self, unit: UnitId, name: &str) -> bool {
        self.weak.contains(&(unit, name.into()))
    }

    /// The definition of a name as seen from outside all units.
    pub fn visible(&self, name: &str) -> Option<Symbol> {
        self.visible.get(name).map(|(symbol, _)| *symbol)
    }

    /// The names that all units can see.
    pub fn all_visible(&self) -> impl Iterator<Item = (&str, Symbol)> {
        self.visible.iter().map(|(name, (symbol, _))| (name.as_ref(), *symbol))
    }
}

/// True for `.shared` memory without a length.
fn is_unsized_shared(unit: &Unit, definition: &Definition) -> bool {
    let head = &unit.text()[definition.head.clone()];
    head.contains(".shared") && head.trim_end().ends_with(']') && head.contains("[]")
}
