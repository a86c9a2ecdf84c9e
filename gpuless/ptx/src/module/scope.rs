//! Names inside a body. Braces open a scope, whose names hide those outside (PTX ISA, 5.5).
use super::function::RegisterId;
use super::types::Type;
use rustc_hash::FxHashMap;

/// The thing that a name in a body refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A register of the function.
    Register(RegisterId),
    /// Memory that the body declares, by its number.
    Memory(usize),
}

/// Registers, memory and labels by name, from the outermost scope to the innermost.
#[derive(Debug)]
pub struct Scopes<'a> {
    open: Vec<Names<'a>>,
    pub registers: Vec<Type>,
    /// For every scope so far, including closed ones: its parent, and its labels.
    labels: Vec<(usize, FxHashMap<&'a str, usize>)>,
}

#[derive(Debug, Default)]
struct Names<'a> {
    /// Number of the scope.
    number: usize,
    single: FxHashMap<&'a str, Named>,
    /// `%r<100>`: by the name before the number the first register, and how many there are.
    families: FxHashMap<&'a str, Vec<(u32, u32)>>,
    /// Bytes of a thread's memory that names in it and around it have.
    used: u64,
}

impl<'a> Scopes<'a> {
    pub fn new() -> Self {
        let labels = vec![(0, FxHashMap::default())];
        Self { open: vec![Names::default()], registers: Vec::new(), labels }
    }

    /// Opens a nested scope.
    pub fn open(&mut self) {
        let (number, around) = (self.labels.len(), self.current());
        self.labels.push((around, FxHashMap::default()));
        self.open.push(Names { number, used: self.used(), ..Names::default() });
    }

    /// Closes the innermost scope; false if only the outermost one is open.
    pub fn close(&mut self) -> bool {
        if self.open.len() == 1 {
            return false;
        }
        self.open.pop();
        true
    }

    /// The number of open scopes, not counting the outermost.
    pub fn depth(&self) -> usize {
        self.open.len() - 1
    }

    /// The number of the innermost scope.
    pub fn current(&self) -> usize {
        self.open.last().map_or(0, |names| names.number)
    }

    /// Bytes of a thread's memory that are in use in the innermost scope.
    pub fn used(&self) -> u64 {
        self.open.last().map_or(0, |names| names.used)
    }

    /// Declares memory in the innermost scope. `used` is the number of bytes of own memory that a thread needs up to the end of this.
    pub fn memory(&mut self, name: &'a str, number: usize, used: u64) {
        if let Some(names) = self.open.last_mut() {
            names.single.insert(name, Named::Memory(number));
            names.used = used;
        }
    }

    /// Declares one register in the innermost scope.
    pub fn single(&mut self, name: &'a str, ty: Type) {
        let id = RegisterId(self.registers.len() as u32);
        self.registers.push(ty);
        if let Some(names) = self.open.last_mut() {
            names.single.insert(name, Named::Register(id));
        }
    }

    /// Declares `count` registers whose names end in a number from 0 on.
    pub fn family(&mut self, name: &'a str, count: u32, ty: Type) {
        let first = self.registers.len() as u32;
        self.registers.resize(self.registers.len() + count as usize, ty);
        if let Some(names) = self.open.last_mut() {
            names.families.entry(name).or_default().push((first, count));
        }
    }

    pub fn register(&self, name: &str) -> Option<RegisterId> {
        match self.find(name) {
            Some(Named::Register(register)) => Some(register),
            _ => None,
        }
    }

    /// Looks up a name; `None` if the body does not declare it.
    pub fn find(&self, name: &str) -> Option<Named> {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        // A name may itself end in digits: `%rd1<3>`.
        let splits = (1..=digits).rev().filter_map(|digits| {
            let (stem, number) = name.split_at(name.len() - digits);
            let plain = number.len() == 1 || !number.starts_with('0');
            Some((stem, number.parse::<u32>().ok().filter(|_| plain)?))
        });
        let splits: Vec<(&str, u32)> = splits.collect();
        self.open.iter().rev().find_map(|names| {
            let of_family = || {
                splits.iter().find_map(|(stem, number)| {
                    let (first, _) = names.families.get(stem)?.iter().rev().find(|(_, count)| number < count)?;
                    Some(Named::Register(RegisterId(first + number)))
                })
            };
            names.single.get(name).copied().or_else(of_family)
        })
    }

    /// Declares a label of the innermost scope; false if it has that name already.
    pub fn label(&mut self, name: &'a str, instruction: usize) -> bool {
        let current = self.current();
        let Some((_, labels)) = self.labels.get_mut(current) else { return false };
        let is_new = !labels.contains_key(name);
        labels.entry(name).or_insert(instruction);
        is_new
    }

    /// The target of a label used in the scope with this number.
    pub fn target(&self, scope: usize, name: &str) -> Option<usize> {
        let mut scope = scope;
        loop {
            let (around, labels) = self.labels.get(scope)?;
            if let Some(target) = labels.get(name) {
                return Some(*target);
            }
            if scope == 0 {
                return None;
            }
            scope = *around;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_names_hide_outer_ones_until_their_scope_closes() {
        let mut scopes = Scopes::new();
        scopes.family("%r", 12, Type::B32);
        scopes.single("tmp", Type::B64);
        scopes.open();
        scopes.single("tmp", Type::B16);
        assert_eq!((scopes.register("%r11"), scopes.register("tmp")), (Some(RegisterId(11)), Some(RegisterId(13))));
        assert_eq!((scopes.register("%r12"), scopes.register("%r011"), scopes.register("%r")), (None, None, None));
        assert!(scopes.close() && !scopes.close());
        assert_eq!(scopes.register("tmp"), Some(RegisterId(12)));
    }

    #[test]
    fn a_family_whose_name_ends_in_a_digit() {
        let mut scopes = Scopes::new();
        scopes.family("%q1", 3, Type::B32);
        assert_eq!((scopes.register("%q12"), scopes.register("%q1")), (Some(RegisterId(2)), None));
    }

    #[test]
    fn many_families_take_no_longer_than_few() {
        let names: Vec<String> = (0..120_000).map(|at| format!("%f{at}x")).collect();
        let mut scopes = Scopes::new();
        names.iter().for_each(|name| scopes.family(name, 2, Type::B32));
        let start = std::time::Instant::now();
        assert!(names.iter().all(|name| scopes.register(&format!("{name}1")).is_some()));
        assert!(start.elapsed().as_secs() < 15, "{:?}", start.elapsed());
    }

    #[test]
    fn a_label_is_found_from_inside_its_scope() {
        let mut scopes = Scopes::new();
        assert!(scopes.label("top", 0) && !scopes.label("top", 1));
        scopes.open();
        let inner = scopes.current();
        assert!(scopes.label("again", 5));
        scopes.close();
        scopes.open();
        assert!(scopes.label("again", 9));
        assert_eq!((scopes.target(inner, "again"), scopes.target(inner, "top")), (Some(5), Some(0)));
        assert_eq!((scopes.target(scopes.current(), "again"), scopes.target(0, "again")), (Some(9), None));
    }
}
