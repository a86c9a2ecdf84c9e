//! The payload of an entry: read, and decompressed.
use super::error::FatbinError;
use super::header::{Compression, Entry};
use crate::elf::Source;
use std::io::Read;

/// Limit on a unit's text in bytes. The largest of NCCL has 5 MB.
pub const MAX_TEXT: u64 = 256 << 20;
/// A byte of LZ4 decompresses to at most this many bytes of text.
const LZ4_RATIO: u64 = 255;

pub(super) fn read(source: &Source, entry: &Entry) -> Result<Vec<u8>, FatbinError> {
    for (size, what) in [(entry.stored_size, "stored"), (entry.text_size, "decompressed")] {
        if size > MAX_TEXT {
            return Err(entry.damaged(format!("its text has {size} bytes {what}, more than {MAX_TEXT}")));
        }
    }
    let mut stored = zeros(entry, entry.stored_size)?;
    source.read_at(entry.place, &mut stored).map_err(|error| entry.damaged(format!("it cannot be read: {error}")))?;
    match entry.compression() {
        Compression::None => Ok(stored),
        Compression::Lz4 => lz4(entry, &stored),
        Compression::Zstd => zstd(entry, &stored),
    }
}

fn zeros(entry: &Entry, size: u64) -> Result<Vec<u8>, FatbinError> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(size as usize)
        .map_err(|_| entry.damaged(format!("there is no memory for {size} bytes")))?;
    bytes.resize(size as usize, 0);
    Ok(bytes)
}

fn lz4(entry: &Entry, stored: &[u8]) -> Result<Vec<u8>, FatbinError> {
    let says = entry.text_size;
    if says > (stored.len() as u64).saturating_mul(LZ4_RATIO) {
        return Err(entry.damaged(format!("{says} bytes cannot come of {} bytes of LZ4", stored.len())));
    }
    let mut text = zeros(entry, says)?;
    let size = lz4_flex::block::decompress_into(stored, &mut text);
    let size = size.map_err(|error| entry.damaged(format!("its LZ4 is damaged: {error}")))?;
    whole(entry, size)?;
    Ok(text)
}

fn zstd(entry: &Entry, stored: &[u8]) -> Result<Vec<u8>, FatbinError> {
    let damaged = |error: &dyn std::fmt::Display| entry.damaged(format!("its Zstandard is damaged: {error}"));
    let frame = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(stored, MAX_TEXT);
    let mut text = Vec::new();
    let frame = frame.map_err(|error| damaged(&error))?;
    frame.take(entry.text_size.saturating_add(1)).read_to_end(&mut text).map_err(|error| damaged(&error))?;
    whole(entry, text.len())?;
    Ok(text)
}

fn whole(entry: &Entry, size: usize) -> Result<(), FatbinError> {
    if size as u64 == entry.text_size {
        return Ok(());
    }
    Err(entry.damaged(format!("its header says {} bytes of text, and there are {size} or more", entry.text_size)))
}
