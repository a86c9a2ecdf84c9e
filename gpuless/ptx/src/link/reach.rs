//! The shared memory that a kernel reaches: by its own names, and by those of the functions and variables that it reaches.
use super::names::{FunctionId, Symbol, VariableId};
use super::program::Program;
use crate::error::Error;
use crate::module::{Space, Value};
use crate::text::{Lexer, TokenKind};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Memory that each block of a kernel has once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SharedMemory {
    /// A variable outside functions.
    Variable(VariableId),
    /// The variables that a function's body declares.
    Own(FunctionId),
}

impl Program {
    /// The shared memory that a kernel reaches, transitively, except that whose size a launch decides. A function counts as reached if
    /// its name occurs, called or not.
    ///
    /// # Errors
    ///
    /// A variable's declaration cannot be read.
    pub fn shared_memory(&self, kernel: FunctionId) -> Result<BTreeSet<SharedMemory>, Error> {
        let all = self.all_shared_memory()?;
        let mut found = BTreeSet::new();
        let mut seen = FxHashSet::from_iter([Symbol::Function(kernel)]);
        let mut ahead = vec![Symbol::Function(kernel)];
        while let Some(symbol) = ahead.pop() {
            let mut reach = |symbol| {
                if seen.insert(symbol) {
                    ahead.push(symbol);
                }
            };
            match symbol {
                Symbol::Function(id) => {
                    found.extend(all.get(&SharedMemory::Own(id)));
                    self.each_symbol(id, |symbol| {
                        reach(symbol);
                        if let Symbol::Variable(id) = symbol {
                            found.extend(all.get(&SharedMemory::Variable(id)));
                        }
                        // Most kernels soon refer to everything, and then the rest of a large program need not be searched.
                        found.len() < all.len()
                    });
                }
                Symbol::Variable(id) => {
                    found.extend(all.get(&SharedMemory::Variable(id)));
                    // A variable that cannot be read has no address, and ends the function that uses it.
                    for value in self.variable(id).into_iter().flat_map(|variable| &variable.values) {
                        if let Value::Address(name, _) = value {
                            self.resolve(self.unit_of_variable(id), name).into_iter().for_each(&mut reach);
                        }
                    }
                }
                Symbol::DynamicShared => {}
            }
            if found.len() == all.len() {
                break;
            }
        }
        Ok(found)
    }

    /// All shared memory of the program.
    pub(super) fn find_shared_memory(&self) -> Result<FxHashSet<SharedMemory>, Error> {
        let mut all = FxHashSet::default();
        for id in self.variables() {
            if self.space_of(id)? == Some(Space::Shared) {
                all.insert(SharedMemory::Variable(id));
            }
        }
        // A function that cannot be read cannot run either.
        let declares = |id: &FunctionId| {
            self.may_declare_shared(*id) && self.function(*id).is_ok_and(|function| function.shared.align > 0)
        };
        all.extend(self.functions().filter(declares).map(SharedMemory::Own));
        Ok(all)
    }

    /// Calls `f` for the definitions that names in a function's body refer to, except for those that it declares itself, until `f` returns
    /// false. The body is not decoded for this, which would take many times as long.
    fn each_symbol(&self, id: FunctionId, mut f: impl FnMut(Symbol) -> bool) {
        let Ok((unit, body)) = self.body(id) else { return };
        let signature = self.signature(id).ok();
        let parameters = signature.iter().flat_map(|head| head.parameters.iter().chain(&head.results));
        // Names that hide others, with the depth of the braces that contain them.
        let mut own: Vec<(&str, usize)> = parameters.map(|parameter| (parameter.name.as_str(), 0)).collect();
        let (mut depth, mut begins, mut declares) = (0usize, true, false);
        let mut lexer = Lexer::new(unit, body.start, body.end);
        // Text that is not a token ends the function before it runs.
        while let Ok(token) = lexer.next_token() {
            let text = lexer.text(token);
            let next = unit.text().as_bytes().get(token.end);
            match token.kind {
                TokenKind::End => return,
                TokenKind::Mark(b'{') => depth += 1,
                TokenKind::Mark(b'}') => {
                    depth = depth.saturating_sub(1);
                    while own.last().is_some_and(|(_, within)| *within > depth) {
                        own.pop();
                    }
                }
                TokenKind::Mark(b';') => declares = false,
                TokenKind::Dotted if begins => declares = matches!(text, ".reg" | ".local" | ".shared" | ".param"),
                // Registers, and opcodes.
                TokenKind::Name if text.starts_with('%') || next == Some(&b'.') => {}
                // `.reg .b32 s<4>;` declares s0 to s3, and no s.
                TokenKind::Name if declares && unit.text()[token.end..].trim_start().starts_with('<') => {}
                TokenKind::Name => match self.resolve(self.unit_of(id), text) {
                    Some(_) if declares || next == Some(&b':') => own.push((text, depth)),
                    Some(symbol) if !own.iter().any(|(name, _)| *name == text) && !f(symbol) => return,
                    _ => {}
                },
                _ => {}
            }
            begins = matches!(token.kind, TokenKind::Mark(b'{' | b'}' | b';' | b':'));
        }
    }
}
