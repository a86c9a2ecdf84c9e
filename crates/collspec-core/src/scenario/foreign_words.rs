//! Words of torch.distributed, MPI, NCCL and nccl-tests, and others that newcomers try, with their equivalents in a scenario.
//! The messages about unknown words consult this table before they look for a typo.
mod table;

pub(super) use table::SIZES_AS_AXIS;

use super::keys::KeyPlace;
use table::FOREIGN_WORDS;

/// A word that does not belong to the language, with advice on what to write.
#[derive(Debug)]
pub(super) struct ForeignWord {
    /// Its spellings, in the form returned by [`simplified`].
    words: &'static [&'static str],
    /// The kind of place in which it occurs.
    place: WordPlace,
    /// The language's word for it; empty if no word could keep the value.
    pub ours: &'static str,
    /// The suggested text, in which `{}` is the value. Empty if only the word has to change.
    pub help: &'static str,
}

/// The kind of place in which a foreign word occurs.
#[derive(Clone, Copy, Debug)]
enum WordPlace {
    /// A key of this kind of table.
    Key(KeyPlace),
    /// A key of steps with one of these operations.
    KeyOf(&'static [&'static str]),
    /// The value of `op`.
    Op,
    /// The value of `reduce`.
    Reduction,
    /// The value of `dtype`.
    Dtype,
    /// A name in an expression.
    Name,
}

/// The word in lower case, without the prefixes and suffixes of other programs, and without separators.
pub(super) fn simplified(word: &str) -> String {
    let mut rest = word.trim();
    while let Some(shorter) = PREFIXES.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        rest = shorter;
    }
    let rest = rest.strip_suffix("_perf").unwrap_or(rest);
    rest.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_ascii_lowercase()).collect()
}

/// Prefixes of the words of other programs.
const PREFIXES: &[&str] = &[
    "torch.",
    "distributed.",
    "dist.",
    "ReduceOp.",
    "RedOpType.",
    "numpy.",
    "np.",
    "jnp.",
    "jax.",
    "lax.",
    "MPI.",
    "MPI_",
    "nccl",
    "_",
];

impl ForeignWord {
    fn is(&self, simple: &str) -> bool {
        self.words.contains(&simple)
    }

    /// The suggested text. `value` is the key's value in the file.
    pub fn advice(&self, ours: &str, value: &str) -> String {
        match self.help {
            "" => format!("write `{ours} = {value}`"),
            help => help.replacen("{}", value, 1),
        }
    }
}

/// The entry of a key. `op` is the step's operation; `taken` returns true for keys that are already present.
pub(super) fn key(
    place: KeyPlace,
    op: Option<&str>,
    word: &str,
    taken: impl Fn(&str) -> bool,
) -> Option<&'static ForeignWord> {
    let simple = simplified(word);
    let here = |entry: &&ForeignWord| {
        entry.is(&simple)
            && match entry.place {
                WordPlace::Key(at) => at == place,
                WordPlace::KeyOf(ops) => place == KeyPlace::Step && op.is_some_and(|op| ops.contains(&op)),
                _ => false,
            }
    };
    // Advice on an operation takes precedence over advice on steps.
    let special = |entry: &&ForeignWord| matches!(entry.place, WordPlace::KeyOf(_));
    let all: Vec<_> = FOREIGN_WORDS.iter().filter(here).collect();
    let sorted = all.iter().filter(|e| special(e)).chain(all.iter().filter(|e| !special(e)));
    let free = sorted.clone().find(|entry| !taken(entry.ours)).copied();
    free.or_else(|| sorted.last().copied())
}

/// The entry for an operation.
pub(super) fn operation(word: &str) -> Option<&'static ForeignWord> {
    value(word, |place| matches!(place, WordPlace::Op))
}

/// The entry for a reduction.
pub(super) fn reduction_word(word: &str) -> Option<&'static ForeignWord> {
    value(word, |place| matches!(place, WordPlace::Reduction))
}

/// The entry for an element type.
pub(super) fn dtype_word(word: &str) -> Option<&'static ForeignWord> {
    value(word, |place| matches!(place, WordPlace::Dtype))
}

/// The name in expressions that corresponds to a foreign one.
pub(super) fn name_in_expression(word: &str) -> Option<&'static str> {
    value(word, |place| matches!(place, WordPlace::Name)).map(|entry| entry.ours)
}

fn value(word: &str, place: impl Fn(WordPlace) -> bool) -> Option<&'static ForeignWord> {
    let simple = simplified(word);
    FOREIGN_WORDS.iter().find(|entry| place(entry.place) && entry.is(&simple))
}

/// The word of the language that differs from a foreign one only by what [`simplified`] removes.
pub(super) fn same_but_for_its_form<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let simple = simplified(word);
    known.into_iter().find(|ours| !simple.is_empty() && ours.chars().filter(|c| *c != '_').eq(simple.chars()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::BUILTIN_NAMES;
    use crate::num::DType;
    use crate::ops;
    use crate::scenario::keys;
    use nccl_sys::ncclRedOp_t;

    fn is_ours(place: WordPlace, word: &str) -> bool {
        match place {
            WordPlace::Key(KeyPlace::File) => keys::is_file_key(word) || word == "op",
            WordPlace::Key(place) => keys::find(place, word).is_some(),
            WordPlace::KeyOf(of) => of.iter().all(|op| ops::find(op).is_some_and(|op| keys::is_step_key(op, word))),
            WordPlace::Op => ops::find(word).is_some(),
            WordPlace::Reduction => ncclRedOp_t::KNOWN.iter().any(|op| op.name() == Some(word)),
            WordPlace::Dtype => DType::parse(word).is_some(),
            WordPlace::Name => BUILTIN_NAMES.contains(&word),
        }
    }

    #[test]
    fn every_word_is_foreign_and_leads_to_one_of_ours() {
        for entry in FOREIGN_WORDS {
            assert!(entry.ours.is_empty() || is_ours(entry.place, entry.ours), "{entry:?}");
            assert!(!(entry.ours.is_empty() && entry.help.is_empty()), "{entry:?}");
            for word in entry.words {
                assert_eq!(simplified(word), *word, "{entry:?}");
                // A key that one operation does not have may be a key of others.
                let foreign = matches!(entry.place, WordPlace::KeyOf(_)) || !is_ours(entry.place, word);
                assert!(foreign, "`{word}` of {entry:?} is a word of the language");
            }
        }
    }

    #[test]
    fn words_are_found_in_any_dress() {
        for (word, ours) in [
            ("MPI_Allreduce", "all_reduce"),
            ("ncclReduceScatter", "reduce_scatter"),
            ("torch.distributed.all_gather", "all_gather"),
            ("alltoall_perf", "all_to_all"),
            ("MPI_Alltoallv", "all_to_all_v"),
        ] {
            assert_eq!(same_but_for_its_form(word, ops::TABLE.iter().map(|o| o.name)), Some(ours), "{word}");
        }
        let found = |word| operation(word).map(|entry| entry.ours);
        assert_eq!([found("MPI_Bcast"), found("dist.isend"), found("banana")], [Some("broadcast"), Some("send"), None]);
        // The operation decides what a key means, and a key that is already present is not meant.
        let step = |op, word| key(KeyPlace::Step, Some(op), word, |_| false).map(|entry| entry.ours);
        assert_eq!(
            [step("broadcast", "src"), step("recv", "src"), step("send_recv", "src")],
            [Some("root"), Some("peer"), Some("from")]
        );
        let size = |taken: &'static str| key(KeyPlace::File, None, "size", move |k| k == taken).map(|entry| entry.ours);
        assert_eq!([size(""), size("world_size")], [Some("world_size"), Some("count")]);
    }
}
