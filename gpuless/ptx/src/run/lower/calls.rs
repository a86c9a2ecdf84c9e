//! Calls and barriers of the block.
use super::{Lowering, Refusal};
use crate::code::{Reduction, Source, Width};
use crate::module::Name;
use crate::run::handlers::control;
use crate::run::ready::{Bytes, CallSite, NOWHERE};

/// The function that CUDA's runtime provides for `printf`.
const PRINT: &str = "vprintf";

impl Lowering<'_> {
    pub(super) fn call(&mut self, target: &Source, results: &[Name], arguments: &[Name]) -> Result<(), Refusal> {
        let prints = matches!(target, Source::Symbol(Name::Outer(name), 0) if name == PRINT)
            && self.places.source(target, Width::W64).is_err();
        let target = if prints { NOWHERE } else { self.places.source(target, Width::W64)? };
        let bytes = |names: &[Name]| -> Result<Vec<Bytes>, Refusal> {
            let of = |name: &Name| self.layout.bytes_of(name).ok_or_else(|| self.places.no_parameter(name));
            names.iter().map(of).collect()
        };
        let site = CallSite { arguments: bytes(arguments)?, results: bytes(results)? };
        if prints {
            let number = self.ready.calls.len() as u64;
            self.ready.calls.push(site);
            self.push(control::print, |i| i.number = number);
            return Ok(());
        }
        let mut number = 0;
        if !site.arguments.is_empty() || !site.results.is_empty() {
            self.ready.calls.push(site);
            number = self.ready.calls.len() as u64;
        }
        self.push(control::call, |i| (i.a, i.number) = (target, number));
        Ok(())
    }

    pub(super) fn barrier(
        &mut self,
        number: &Source,
        threads: Option<&Source>,
        reduce: Option<&Reduction>,
    ) -> Result<(), Refusal> {
        let barrier = self.places.source(number, Width::W32)?;
        let threads = threads.map(|threads| self.places.source(threads, Width::W32)).transpose()?;
        let votes = reduce.map(|reduce| self.places.predicate(&reduce.predicate)).transpose()?;
        let mut flags = 0;
        flags |= if threads.is_some() { control::COUNTED } else { 0 };
        flags |= if votes.is_some() { control::VOTES } else { 0 };
        flags |= if reduce.is_some_and(|reduce| reduce.inverted) { control::INVERTED } else { 0 };
        self.push(control::barrier, |i| {
            (i.a, i.b, i.c, i.flags) = (barrier, threads.unwrap_or(0), votes.unwrap_or(0), flags);
        });
        if let Some(reduce) = reduce {
            let to = self.places.target(reduce.to).unwrap_or(NOWHERE);
            let kind = control::reduction_number(reduce.mode);
            self.push(control::barrier_result, |i| (i.to, i.a, i.number) = (to, barrier, kind));
        }
        Ok(())
    }
}
