//! Reads `register`: the way memory is registered with communicators.
use super::case::{RegisterByRank, RegisterKind, Spanned};
use super::diagnostic::Diagnostic;
use super::reader::PointReader;
use super::tree::{TomlKind, TomlValue};
use crate::suggest::nearest;

/// Reads a word for all ranks, or a list with one word per rank of the world.
pub(crate) fn register_by_rank(reader: &mut PointReader<'_>, val: &TomlValue) -> Option<RegisterByRank> {
    let words = reader.texts("register", val)?;
    let mut kinds = Vec::with_capacity(words.len());
    for word in &words {
        kinds.push(register_kind(reader, word)?);
    }
    if !matches!(val.kind, TomlKind::Array(_)) {
        let kind = kinds.first().copied().unwrap_or_default();
        return Some(RegisterByRank { span: val.span, kinds: vec![kind; reader.world.max(1)] });
    }
    if reader.world > 0 && kinds.len() != reader.world {
        let message = format!("`register` has {} entries for {} ranks", kinds.len(), reader.world);
        reader.report(Diagnostic::new(val.span, message).help("write one entry for each rank of the world"));
        return None;
    }
    Some(RegisterByRank { span: val.span, kinds })
}

/// Reads the word in a step.
pub(crate) fn register_word(reader: &mut PointReader<'_>, val: &TomlValue) -> Option<RegisterKind> {
    let word = reader.text("register", val)?;
    let kind = register_kind(reader, &word)?;
    if kind == RegisterKind::None {
        let d = Diagnostic::new(word.span, "a step that registers nothing has no use");
        reader.report(d.help("write \"local\" or \"window\""));
        return None;
    }
    Some(kind)
}

fn register_kind(reader: &mut PointReader<'_>, word: &Spanned<String>) -> Option<RegisterKind> {
    const WORDS: [(&str, RegisterKind); 3] =
        [("none", RegisterKind::None), ("local", RegisterKind::Local), ("window", RegisterKind::Window)];
    let found = WORDS.iter().find(|(name, _)| *name == word.value).map(|(_, kind)| *kind);
    if found.is_none() {
        let d = Diagnostic::new(word.span, "`register` must be \"none\", \"local\" or \"window\"");
        reader.report(match nearest(&word.value, WORDS.map(|(name, _)| name)) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None => d,
        });
    }
    found
}
