//! The JSON that a command writes with --json and reads again with --against.
use super::output;
use anyhow::Context;
use collspec_core::files;
use collspec_core::printable::write_json;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Limit on the bytes of a file.
const MOST_BYTES: u64 = 64 << 20;

/// Writes to the file of --json, or to `out` if it is `-`. True if `out` is still free for text.
///
/// # Errors
///
/// Writing fails.
pub fn write(out: &mut impl Write, option: &Option<PathBuf>, value: &impl Serialize) -> anyhow::Result<bool> {
    let Some(path) = option else { return Ok(true) };
    let mut content = Vec::new();
    write_json(&mut content, value)?;
    content.push(b'\n');
    match output::file(option) {
        Some(_) => output::replace(path, &content)?,
        None => out.write_all(&content)?,
    }
    Ok(output::file(option).is_some())
}

/// Reads what --json of a command wrote.
///
/// # Errors
///
/// The file cannot be read, or is another one.
pub fn read<T: DeserializeOwned>(path: &Path, command: &str) -> anyhow::Result<T> {
    let text = files::read_text(path, MOST_BYTES).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not a file that `collspec {command} --json` wrote", path.display()))
}
