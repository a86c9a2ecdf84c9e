//! `algSelection` of a call's configuration: which algorithms and protocols the call may take.
use super::{Algorithm, Protocol};
use crate::op::Kind;
use nccl_sys::ALGORITHM_NAMES;

/// The algorithms that a call allows, one bit for each entry of [`ALGORITHM_NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    allowed: u64,
    /// True if the call fails when none of them is available. Otherwise the library chooses in that case.
    pub forced: bool,
}

const _: () = assert!(ALGORITHM_NAMES.len() <= 64, "a bit for every name");

fn bits(holds: impl Fn(&str, &[&str]) -> bool) -> u64 {
    let named = ALGORITHM_NAMES.iter().enumerate().filter(|(_, entry)| holds(entry.name, entry.functions));
    named.fold(0, |bits, (at, _)| bits | 1 << at)
}

/// The beginning of an algorithm's names, and their ends by protocol; those that this library has.
fn name_of(algorithm: Algorithm, protocol: Protocol) -> Option<String> {
    let family = match algorithm {
        Algorithm::Ring => "RING",
        Algorithm::Tree => "TREE",
        Algorithm::SingleTree | Algorithm::Direct => return None,
    };
    let protocol = match protocol {
        Protocol::Simple => "SIMPLE",
        Protocol::Ll128 => "LL128",
        Protocol::Ll => "LL",
    };
    Some(format!("{family}_{protocol}"))
}

impl Selection {
    /// Reads terms separated by `,`, one of which must hold. Each term consists of names joined by `+` that must all hold; a `^` before
    /// a name excludes it; white space does not count. Names are prefixes of NCCL's, in any case.
    ///
    /// # Errors
    ///
    /// A name is not a prefix of any, a term has no name or names that exclude each other, or the operation has none of the selected
    /// algorithms.
    pub(crate) fn parse(text: &str, kind: Kind, forced: bool) -> Result<Self, String> {
        let text: String = text.split_ascii_whitespace().collect();
        let all = bits(|_, _| true);
        let mut allowed = 0;
        for term in text.split(',') {
            let mut of_term = all;
            for factor in term.split('+') {
                let word = factor.trim_start_matches('^');
                let meant = bits(|name, _| {
                    let start = name.bytes().zip(word.bytes()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
                    !word.is_empty() && start == word.len()
                });
                if meant == 0 || factor.len() > word.len() + 1 {
                    return Err(format!("algSelection names an unknown algorithm, `{}`", factor.escape_debug()));
                }
                of_term &= if factor.starts_with('^') { all & !meant } else { meant };
            }
            if of_term == 0 {
                return Err(format!("`{}` in algSelection names no algorithm", term.escape_debug()));
            }
            allowed |= of_term;
        }
        allowed &= bits(|_, functions| functions.contains(&kind.function()));
        if allowed == 0 {
            return Err(format!("algSelection names no algorithm of {}", kind.name()));
        }
        Ok(Self { allowed, forced })
    }

    fn admits(self, algorithm: Algorithm, protocol: Protocol) -> bool {
        let name = name_of(algorithm, protocol);
        name.is_some_and(|name| self.allowed & bits(|known, _| known == name) != 0)
    }

    /// The first admitted algorithm that serves the operation, with the first protocol; `None` if there is none.
    pub(crate) fn choose(self, kind: Kind) -> Option<(Algorithm, Protocol)> {
        let protocols = [Protocol::Simple, Protocol::Ll128, Protocol::Ll];
        let pairs = kind.algorithms().iter().flat_map(|algorithm| protocols.map(|protocol| (*algorithm, protocol)));
        pairs.into_iter().find(|(algorithm, protocol)| self.admits(*algorithm, *protocol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Algorithm::{Ring, Tree};
    use Protocol::{Ll, Ll128, Simple};

    #[test]
    fn the_first_that_is_admitted_is_taken() {
        let chosen = |text: &str, kind| Selection::parse(text, kind, true).map(|selection| selection.choose(kind));
        let reduced = |text: &str| chosen(text, Kind::AllReduce);
        assert_eq!(reduced("RING"), Ok(Some((Ring, Simple))));
        assert_eq!(reduced("tree_LL128"), Ok(Some((Tree, Ll128))));
        assert_eq!(reduced("tree_ll + ^tree_ll128"), Ok(Some((Tree, Ll))));
        assert_eq!(reduced(" tree , ring "), Ok(Some((Ring, Simple))));
        assert_eq!(reduced("^ring"), Ok(Some((Tree, Simple))));
        assert_eq!(reduced("nvls"), Ok(None));
        assert_eq!(chosen("pat,ring_ll", Kind::AllGather), Ok(Some((Ring, Ll128))));
        assert_eq!(chosen("ring", Kind::Broadcast), Ok(Some((Ring, Simple))));
        for (text, kind) in [
            ("rings", Kind::AllReduce),
            ("", Kind::AllReduce),
            ("^", Kind::AllReduce),
            ("^^ring", Kind::AllReduce),
            ("ring,", Kind::AllReduce),
            ("ring+tree", Kind::AllReduce),
            ("tree", Kind::AllGather),
            ("ring", Kind::AlltoAll),
        ] {
            assert!(chosen(text, kind).is_err(), "{text}");
        }
    }
}
