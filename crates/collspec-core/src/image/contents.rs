//! Memory contents described by their parts: large memory is never stored as one image, and copies of it share their bytes.
use super::held::{Held, Period};
use super::poison;
use crate::num;
use crate::plan::inputs::Filled;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Contents of at most this many bytes are stored as plain bytes.
const FLAT: usize = 64 << 10;

/// A sequence of bytes. More than `FLAT` of them are stored as pieces, which are shared with other contents or computed on demand.
#[derive(Clone, Debug)]
pub enum Contents {
    /// Plain bytes.
    Flat(Vec<u8>),
    /// Consecutive pieces.
    Pieces(Vec<Piece>),
}

/// A piece of contents; it starts at the end of the piece before it.
#[derive(Clone, Debug)]
pub struct Piece {
    /// One past its last byte.
    end: usize,
    source: Source,
    /// Its first byte in the source.
    from: usize,
}

#[derive(Clone, Debug)]
enum Source {
    Zeros,
    Bytes(Arc<Held>),
    /// A period that repeats.
    Repeated(Arc<Period>),
    Filled(Arc<Filled>),
    /// The pattern of this key.
    Pattern(u64),
    Poison(Arc<Poison>),
}

/// Poison of bytes that are written later: it differs from the first values written and from the values at the end.
#[derive(Debug)]
struct Poison {
    first: Contents,
    /// `None` if it is the same, or any value is right at the end.
    last: Option<Contents>,
}

impl From<Vec<u8>> for Contents {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.len() <= FLAT { Self::Flat(bytes) } else { Arc::new(Held::from(bytes)).into() }
    }
}

impl From<Arc<Held>> for Contents {
    fn from(bytes: Arc<Held>) -> Self {
        Self::of(bytes.len(), Source::Bytes(bytes))
    }
}

impl Contents {
    /// Contents of `len` zero bytes.
    pub fn zeros(len: usize) -> Self {
        if len <= FLAT { Self::Flat(vec![0; len]) } else { Self::of(len, Source::Zeros) }
    }

    /// Contents with guards around them, whose image has `start` bytes before them.
    pub fn guarded(&self, alloc: usize, start: usize, guard: usize) -> Self {
        let end = start + self.len();
        if end + guard <= FLAT {
            let mut bytes = Vec::with_capacity(end + guard);
            poison::append_guard(&mut bytes, alloc, 0..start);
            bytes.resize(end, 0);
            self.copy_to(0, &mut bytes[start..]);
            poison::append_guard(&mut bytes, alloc, end..end + guard);
            return Self::Flat(bytes);
        }
        let mut image = poison::guard(alloc, 0, start);
        image.append(self);
        image.append(&poison::guard(alloc, end, guard));
        image
    }

    /// Contents that repeat the period, which must not be empty.
    pub fn repeated(period: Vec<u8>, len: usize) -> Self {
        if len <= FLAT && !period.is_empty() {
            let mut bytes = period;
            let filled = bytes.len();
            bytes.resize(len, 0);
            num::repeat_period(&mut bytes, filled);
            return Self::Flat(bytes);
        }
        Self::of(len, Source::Repeated(Arc::new(Period::new(period))))
    }

    /// The contents that a fill describes.
    pub fn filled(filled: Filled, len: usize) -> Self {
        Self::of(len, Source::Filled(Arc::new(filled)))
    }

    /// Bytes from `from` on of the pattern of a key (see [`poison::fill`]).
    pub fn pattern(key: u64, from: usize, len: usize) -> Self {
        if len <= FLAT {
            let mut bytes = vec![0; len];
            poison::fill(&mut bytes, key, from);
            return Self::Flat(bytes);
        }
        Self::Pieces(vec![Piece { end: len, source: Source::Pattern(key), from }]).compact()
    }

    /// Poison for bytes that are `first` after the first write and `last` at the end, where that is known.
    pub fn poison(first: Self, last: Option<Self>) -> Self {
        let last = last.filter(|last| !first.is_same_as(last));
        if first.len() <= FLAT {
            let mut bytes = vec![0; first.len()];
            copy_poison(&first, last.as_ref(), 0, &mut bytes);
            return Self::Flat(bytes);
        }
        if let (None, Some(Piece { end, source: Source::Repeated(period), from })) = (&last, first.only_piece()) {
            let source = Source::Repeated(Arc::clone(period.complement()));
            return Self::Pieces(vec![Piece { end: *end, source, from: *from }]).compact();
        }
        Self::of(first.len(), Source::Poison(Arc::new(Poison { first, last })))
    }

    fn of(len: usize, source: Source) -> Self {
        Self::Pieces(vec![Piece { end: len, source, from: 0 }]).compact()
    }

    fn compact(self) -> Self {
        if let Self::Pieces(_) = self
            && self.len() <= FLAT
        {
            return Self::Flat(self.to_vec());
        }
        self
    }

    /// The piece, if there is exactly one.
    fn only_piece(&self) -> Option<&Piece> {
        match self {
            Self::Pieces(pieces) => <&[Piece; 1]>::try_from(pieces.as_slice()).ok().map(|[piece]| piece),
            Self::Flat(_) => None,
        }
    }

    /// A number of bytes after which the contents repeat, if this is known without reading them.
    pub fn period(&self) -> Option<usize> {
        match &self.only_piece()?.source {
            Source::Zeros => Some(1),
            Source::Repeated(period) => Some(period.len()),
            _ => None,
        }
    }

    /// Bytes of memory that these contents take. Memory that other contents share is counted in full for each of them.
    pub fn held_bytes(&self) -> usize {
        let of = |piece: &Piece| match &piece.source {
            Source::Bytes(bytes) => bytes.len(),
            Source::Repeated(period) => period.held_bytes(),
            _ => 0,
        };
        match self {
            Self::Flat(bytes) => bytes.len(),
            Self::Pieces(pieces) => pieces.iter().map(of).sum(),
        }
    }

    /// Number of bytes in the contents.
    #[allow(clippy::len_without_is_empty)] // no caller needs to know whether contents are empty
    pub fn len(&self) -> usize {
        match self {
            Self::Flat(bytes) => bytes.len(),
            Self::Pieces(pieces) => pieces.last().map_or(0, |piece| piece.end),
        }
    }

    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.copy_to(0, &mut bytes);
        bytes
    }

    /// Copies the bytes from `from` on. Places in `to` beyond the end stay unchanged.
    pub fn copy_to(&self, from: usize, mut to: &mut [u8]) {
        match self {
            Self::Flat(bytes) => {
                let bytes = bytes.get(from..).unwrap_or_default();
                let len = bytes.len().min(to.len());
                to[..len].copy_from_slice(&bytes[..len]);
            }
            Self::Pieces(pieces) => {
                let mut at = from;
                for (number, piece) in pieces.iter().enumerate().skip(pieces.partition_point(|p| p.end <= from)) {
                    let len = (piece.end - at).min(to.len());
                    let (part, rest) = to.split_at_mut(len);
                    piece.source.copy_to(piece.from + at - start(pieces, number), part);
                    if rest.is_empty() {
                        return;
                    }
                    (to, at) = (rest, piece.end);
                }
            }
        }
    }

    /// A range of bytes, copied only if they are not stored contiguously. `None` beyond the end.
    pub fn get(&self, range: Range<usize>) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Flat(bytes) => bytes.get(range).map(Cow::Borrowed),
            Self::Pieces(pieces) => {
                if range.start > range.end || range.end > self.len() {
                    return None;
                }
                let number = pieces.partition_point(|p| p.end <= range.start);
                if let Some(Piece { end, source, from }) = pieces.get(number)
                    && range.end <= *end
                    && let Some(bytes) = source.held(from + range.start - start(pieces, number), range.len())
                {
                    return Some(Cow::Borrowed(bytes));
                }
                let mut bytes = vec![0; range.len()];
                self.copy_to(range.start, &mut bytes);
                Some(Cow::Owned(bytes))
            }
        }
    }

    /// A range of bytes, borrowed or copied to `room`, which must not be shorter. Empty beyond the end.
    pub fn bytes<'a>(&'a self, range: Range<usize>, room: &'a mut [u8]) -> &'a [u8] {
        let Some(room) = room.get_mut(..range.len()).filter(|_| range.end <= self.len()) else { return &[] };
        let held = match self {
            Self::Flat(bytes) => bytes.get(range.clone()),
            Self::Pieces(pieces) => {
                let number = pieces.partition_point(|p| p.end <= range.start);
                let piece = pieces.get(number).filter(|piece| range.end <= piece.end);
                piece.and_then(|p| p.source.held(p.from + range.start - start(pieces, number), range.len()))
            }
        };
        match held {
            Some(bytes) => bytes,
            None => {
                self.copy_to(range.start, room);
                room
            }
        }
    }

    /// The byte at a position; zero beyond the end.
    #[cfg(test)]
    pub fn byte(&self, at: usize) -> u8 {
        let mut byte = [0];
        self.copy_to(at, &mut byte);
        byte[0]
    }

    /// A range of the bytes as contents; large ones are shared. `None` beyond the end.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if let Self::Pieces(pieces) = self
            && range.len() > FLAT
            && range.end <= self.len()
        {
            let first = pieces.partition_point(|p| p.end <= range.start);
            let mut parts = Vec::new();
            for (number, piece) in pieces.iter().enumerate().skip(first) {
                let begin = start(pieces, number);
                let from = piece.from + range.start.saturating_sub(begin);
                let end = piece.end.min(range.end) - range.start;
                parts.push(Piece { end, source: piece.source.clone(), from });
                if piece.end >= range.end {
                    break;
                }
            }
            return Some(Self::Pieces(parts));
        }
        self.get(range).map(|bytes| Self::from(bytes.into_owned()))
    }

    /// Appends other contents to these.
    pub fn append(&mut self, other: &Self) {
        let before = self.len();
        if before + other.len() <= FLAT
            && let Self::Flat(bytes) = self
        {
            bytes.resize(before + other.len(), 0);
            other.copy_to(0, &mut bytes[before..]);
            return;
        }
        let mut pieces = std::mem::replace(self, Self::Flat(Vec::new())).into_pieces();
        for piece in other.clone().into_pieces() {
            push(&mut pieces, 0, Piece { end: before + piece.end, ..piece });
        }
        *self = Self::Pieces(pieces);
    }

    /// Replaces a range by other contents. `None` beyond the end.
    pub fn write(&mut self, at: usize, new: &Self) -> Option<()> {
        let end = at.checked_add(new.len()).filter(|end| *end <= self.len())?;
        if at == end {
            return Some(());
        }
        match self {
            Self::Flat(bytes) => new.copy_to(0, bytes.get_mut(at..end)?),
            Self::Pieces(pieces) => {
                let (first, last) = (pieces.partition_point(|p| p.end <= at), pieces.partition_point(|p| p.end < end));
                let begin = start(pieces, first);
                if let (true, Some(Piece { source: Source::Bytes(bytes), from, .. })) =
                    (first == last, pieces.get_mut(first))
                    && new.len() <= FLAT
                    && let Some(bytes) = Arc::get_mut(bytes)
                {
                    let from = *from + at - begin;
                    new.copy_to(0, bytes.get_mut(from..from + end - at)?);
                    return Some(());
                }
                let mut middle = Vec::with_capacity(3);
                if begin < at {
                    middle.push(Piece { end: at, ..pieces.get(first)?.clone() });
                }
                for piece in new.clone().into_pieces() {
                    push(&mut middle, begin, Piece { end: at + piece.end, ..piece });
                }
                let rest = pieces.get(last)?;
                if rest.end > end {
                    let from = rest.from + end - start(pieces, last);
                    push(&mut middle, begin, Piece { end: rest.end, source: rest.source.clone(), from });
                }
                pieces.splice(first..=last, middle);
            }
        }
        Some(())
    }

    fn into_pieces(self) -> Vec<Piece> {
        match self {
            Self::Pieces(pieces) => pieces,
            Self::Flat(bytes) if bytes.is_empty() => Vec::new(),
            Self::Flat(bytes) => {
                vec![Piece { end: bytes.len(), source: Source::Bytes(Arc::new(bytes.into())), from: 0 }]
            }
        }
    }

    /// True if both have the same representation; equal bytes may be represented differently.
    fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Flat(a), Self::Flat(b)) => a == b,
            (Self::Pieces(a), Self::Pieces(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .zip(b)
                        .all(|(a, b)| a.end == b.end && a.from == b.from && a.source.is_same_as(&b.source))
            }
            _ => false,
        }
    }
}

impl PartialEq<[u8]> for Contents {
    fn eq(&self, other: &[u8]) -> bool {
        if let Self::Flat(bytes) = self {
            return bytes == other;
        }
        let mut room = vec![0; FLAT.min(other.len())];
        self.len() == other.len()
            && other.chunks(FLAT).enumerate().all(|(number, chunk)| {
                let from = number * FLAT;
                self.bytes(from..from + chunk.len(), &mut room) == chunk
            })
    }
}

fn start(pieces: &[Piece], number: usize) -> usize {
    number.checked_sub(1).and_then(|before| pieces.get(before)).map_or(0, |piece| piece.end)
}

/// Appends a piece to those from `first` on, or extends the last one if the new piece continues it.
fn push(pieces: &mut Vec<Piece>, first: usize, piece: Piece) {
    let begin = pieces.len().checked_sub(2).and_then(|at| pieces.get(at)).map_or(first, |piece| piece.end);
    if let Some(last) = pieces.last_mut()
        && last.source.is_same_as(&piece.source)
        && last.from + (last.end - begin) == piece.from
    {
        last.end = piece.end;
        return;
    }
    pieces.push(piece);
}

impl Source {
    fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Zeros, Self::Zeros) => true,
            (Self::Bytes(a), Self::Bytes(b)) => Arc::ptr_eq(a, b),
            (Self::Repeated(a), Self::Repeated(b)) => Arc::ptr_eq(a, b),
            (Self::Filled(a), Self::Filled(b)) => Arc::ptr_eq(a, b),
            (Self::Pattern(a), Self::Pattern(b)) => a == b,
            (Self::Poison(a), Self::Poison(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// A range of bytes, if they are stored in one piece.
    fn held(&self, from: usize, len: usize) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => bytes.get(from..from.checked_add(len)?),
            Self::Repeated(period) => period.held(from, len),
            _ => None,
        }
    }

    fn copy_to(&self, from: usize, to: &mut [u8]) {
        match self {
            Self::Zeros => to.fill(0),
            Self::Bytes(bytes) => {
                if let Some(bytes) = bytes.get(from..from + to.len()) {
                    to.copy_from_slice(bytes);
                }
            }
            Self::Repeated(period) => period.copy_to(from, to),
            Self::Filled(filled) => filled.copy_to(from, to),
            Self::Pattern(key) => poison::fill(to, *key, from),
            Self::Poison(poison) => copy_poison(&poison.first, poison.last.as_ref(), from, to),
        }
    }
}

/// Copies the bytes from `from` on of the poison of these contents.
fn copy_poison(first: &Contents, last: Option<&Contents>, from: usize, to: &mut [u8]) {
    first.copy_to(from, to);
    to.iter_mut().for_each(|byte| *byte = !*byte);
    if let Some(last) = last {
        let mut data = vec![0; to.len()];
        last.copy_to(from, &mut data);
        poison::avoid(to, &data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn source() -> impl Strategy<Value = (Contents, Vec<u8>)> {
        let len = prop_oneof![1usize..100, FLAT - 3..FLAT + 4, 2 * FLAT..3 * FLAT];
        (0u8..6, len, any::<u8>()).prop_map(|(kind, len, seed)| {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8 ^ seed).collect();
            match kind {
                0 => (Contents::zeros(len), vec![0; len]),
                1 => {
                    let period: Vec<u8> = bytes.iter().copied().take(100).collect();
                    let all = period.iter().copied().cycle().take(len).collect();
                    (Contents::repeated(period, len), all)
                }
                2 => {
                    let mut all = vec![0; len + 5];
                    poison::fill(&mut all, u64::from(seed), 0);
                    (Contents::pattern(u64::from(seed), 5, len), all[5..].to_vec())
                }
                3 => {
                    let last: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
                    let poison = Contents::poison(Contents::from(bytes), Some(Contents::from(last.clone())));
                    (poison, last.iter().map(|byte| byte ^ 0x5a).collect())
                }
                4 => {
                    let period: Vec<u8> = bytes.iter().copied().take(100).collect();
                    let all = period.iter().copied().map(|byte| !byte).cycle().take(len).collect();
                    (Contents::poison(Contents::repeated(period, len), None), all)
                }
                _ => (Contents::from(bytes.clone()), bytes),
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// Compares with the obvious model: plain bytes.
        #[test]
        fn contents_are_their_bytes(parts in prop::collection::vec(source(), 1..5), places in prop::collection::vec((any::<u32>(), any::<u32>()), 1..12)) {
            let (mut contents, mut model) = (Contents::Flat(Vec::new()), Vec::new());
            for (part, bytes) in &parts {
                contents.append(part);
                model.extend_from_slice(bytes);
            }
            prop_assert_eq!(contents.len(), model.len());
            for (number, (a, b)) in places.into_iter().enumerate() {
                let (a, b) = (a as usize % (model.len() + 1), b as usize % (model.len() + 1));
                let range = a.min(b)..a.max(b);
                let part = contents.slice(range.clone()).expect("inside");
                prop_assert_eq!(&part.to_vec(), &model[range.clone()]);
                prop_assert!(*contents.get(range.clone()).expect("inside") == model[range.clone()]);
                prop_assert!(*contents.bytes(range.clone(), &mut vec![0; range.len() + 1]) == model[range.clone()]);
                // The bytes that were cut out are inserted somewhere else, or other bytes are, or a slice of a part is put at its own
                // position in that part, over pieces of the same part that are elsewhere.
                let (source, own) = &parts[(a + b) % parts.len()];
                let of_source = (range.start % own.len()).min(range.end % own.len())..own.len();
                let (at, new, bytes) = match number % 3 {
                    0 => ((a / 2).min(model.len() - range.len()), part, model[range].to_vec()),
                    1 => {
                        let bytes = vec![number as u8; range.len()];
                        ((a / 2).min(model.len() - range.len()), Contents::from(bytes.clone()), bytes)
                    }
                    _ => {
                        let slice = source.slice(of_source.clone()).expect("inside");
                        (of_source.start, slice, own[of_source].to_vec())
                    }
                };
                prop_assert!(contents.write(at, &new).is_some());
                model[at..at + bytes.len()].copy_from_slice(&bytes);
                prop_assert!(contents == *model);
            }
            prop_assert!(contents.get(0..model.len() + 1).is_none() && contents.slice(1..model.len() + 1).is_none());
        }
    }

    #[test]
    fn a_slice_written_over_a_shifted_copy_of_its_source_does_not_extend_that_copy() {
        let source = Contents::pattern(7, 0, 6 * FLAT);
        let mut contents = Contents::zeros(2 * FLAT);
        contents.append(&source);
        let mut right = contents.to_vec();
        let range = 3 * FLAT..6 * FLAT;
        contents.write(range.start, &source.slice(range.clone()).expect("inside")).expect("inside");
        right[range.clone()].copy_from_slice(&source.to_vec()[range]);
        assert!(contents == *right);
    }

    #[test]
    fn what_is_shared_is_not_changed_by_a_write() {
        let mut contents = Contents::from(vec![1; 3 * FLAT]);
        let part = contents.slice(0..2 * FLAT).expect("inside");
        contents.write(5, &Contents::from(vec![2; 10])).expect("inside");
        assert!(part == *vec![1; 2 * FLAT]);
        assert_eq!(contents.get(4..7).as_deref(), Some(&[1, 2, 2][..]));
        assert_eq!(contents.byte(3 * FLAT), 0, "beyond the end");
    }
}
