//! Copies initial images into the arena, and final ones out of it: large ones block by block, and those that are as expected not
//! at all.
use super::Error;
use crate::job::AllocSpec;
use crate::job::arena::Arena;
use collspec_core::image::blocks::{BLOCK, copying, each_block, each_part};
use collspec_core::image::contents::Contents;
use collspec_core::oracle::Forecast;
use std::borrow::Cow;
use std::io;
use std::sync::Mutex;

/// Images of at least this size are compared block by block.
const LARGE: u64 = 1 << 20;
/// Number of bytes that one thread writes to the arena before another one may take its turn at the descriptor.
const PART: usize = 1 << 20;

/// The images of a job's allocations.
pub trait Images: Sync {
    /// The initial image of an allocation.
    fn initial(&self, alloc: usize) -> Option<Cow<'_, Contents>>;
    /// Like [`Images::right`], if an image equal to the right one need not be kept.
    fn only_last(&self, alloc: usize) -> Option<Contents>;
    /// True if these bytes equal an image that need not be kept.
    fn is_only_last(&self, alloc: usize, bytes: &[u8]) -> bool;
    /// The final image, if there is only one right one.
    fn right(&self, alloc: usize) -> Option<Contents>;
}

impl Images for Vec<Vec<u8>> {
    fn initial(&self, alloc: usize) -> Option<Cow<'_, Contents>> {
        self.get(alloc).map(|image| Cow::Owned(Contents::from(image.clone())))
    }
    fn only_last(&self, _: usize) -> Option<Contents> {
        None
    }
    fn is_only_last(&self, _: usize, _: &[u8]) -> bool {
        false
    }
    fn right(&self, _: usize) -> Option<Contents> {
        None
    }
}

/// The images according to a forecast.
pub struct ForecastImages<'a> {
    /// The expected results, from which images are made.
    pub forecast: &'a Forecast,
    /// True if final images equal to the expected ones need not be kept.
    pub in_place: bool,
}

impl Images for ForecastImages<'_> {
    fn initial(&self, alloc: usize) -> Option<Cow<'_, Contents>> {
        self.forecast.initial.get(alloc).map(Cow::Borrowed)
    }
    fn only_last(&self, alloc: usize) -> Option<Contents> {
        if self.in_place { self.right(alloc) } else { None }
    }
    fn is_only_last(&self, alloc: usize, bytes: &[u8]) -> bool {
        self.in_place && self.forecast.is_only_last_image(alloc, bytes)
    }
    fn right(&self, alloc: usize) -> Option<Contents> {
        self.forecast.only_last_image(alloc)
    }
}

/// The initial image of an allocation, if it has one.
///
/// # Errors
///
/// The image does not have the length of its place: ranks would begin with bytes of something else.
pub fn initial<'a>(images: &'a dyn Images, alloc: usize, spec: &AllocSpec) -> Result<Option<Cow<'a, Contents>>, Error> {
    let image = images.initial(alloc);
    match image.as_ref().map(|image| image.len() as u64).filter(|bytes| *bytes != spec.image) {
        Some(bytes) => Err(Error::ImageLength { alloc, rank: spec.rank, bytes, place: spec.image }),
        None => Ok(image),
    }
}

/// Puts the initial image in its place.
///
/// # Errors
///
/// The image does not have the length of its place, the arena does not contain the place, or there is not enough memory.
pub fn put_initial(arena: &Arena, images: &dyn Images, alloc: usize, spec: &AllocSpec) -> Result<(), Error> {
    let Some(image) = initial(images, alloc, spec)? else { return Ok(()) };
    if spec.image < LARGE {
        let bytes = image.get(0..image.len()).unwrap_or_default();
        return Ok(arena.mapping().write(spec.initial, &bytes)?);
    }
    let room = || vec![0; BLOCK];
    each_part(image.len(), PART, copying(image.len()), room, |room, part| {
        let mut writer = arena.writer();
        for from in part.clone().step_by(BLOCK) {
            let block = from..part.end.min(from + BLOCK);
            let bytes = image.bytes(block.clone(), room);
            if bytes.len() != block.len() {
                // The place would keep the contents that an earlier case has left in it.
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            writer.put(spec.initial + from as u64, bytes)?;
        }
        Ok(())
    })
    .map_err(Error::Resources)
}

/// Returns the final image, or `None` if it is as expected. Every byte is read only once: if a late write changes one in the
/// meantime, the first value counts. To that end, small images are copied to `room`, which grows as needed.
///
/// # Errors
///
/// The arena does not contain the image, or there is not enough memory for a copy.
pub fn take_last(
    arena: &Arena,
    images: &dyn Images,
    alloc: usize,
    spec: &AllocSpec,
    room: &mut Vec<u8>,
) -> Result<Option<Vec<u8>>, Error> {
    if spec.image < LARGE {
        let len = spec.image as usize;
        room.resize(room.len().max(len), 0);
        let bytes = &mut room[..len];
        arena.mapping().copy_to(spec.last, bytes)?;
        return Ok((!images.is_only_last(alloc, bytes)).then(|| bytes.to_vec()));
    }
    let Some(expected) = images.only_last(alloc).filter(|expected| expected.len() as u64 == spec.image) else {
        return Ok(Some(arena.mapping().read(spec.last, spec.image)?));
    };
    let own = || (vec![0; BLOCK], vec![0; BLOCK]);
    // The blocks found to be right; the others are kept as they were read.
    let wrong = Mutex::new(Vec::new());
    each_block(expected.len(), copying(expected.len()), own, |(actual, right), range| {
        let (start, actual) = (range.start, &mut actual[..range.len()]);
        arena.take(spec.last + start as u64, actual)?;
        if actual != expected.bytes(range, right) {
            let mut wrong = wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            wrong.push((start, actual.to_vec()));
        }
        Ok::<(), std::io::Error>(())
    })
    .map_err(Error::Resources)?;
    let wrong = wrong.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if wrong.is_empty() {
        return Ok(None);
    }
    let mut image = Vec::new();
    let none = crate::job::arena::ReadError::Memory { len: expected.len() };
    image.try_reserve_exact(expected.len()).map_err(|_| none)?;
    image.resize(expected.len(), 0);
    expected.copy_to(0, &mut image);
    for (at, block) in wrong {
        image[at..at + block.len()].copy_from_slice(&block);
    }
    Ok(Some(image))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_is_not_as_long_as_its_place_is_an_error() {
        let spec = |image| AllocSpec { rank: 3, start: 0, from_library: false, image, initial: 64, last: 64 };
        let images = vec![vec![7u8; 16]];
        assert_eq!(initial(&images, 0, &spec(16)).unwrap().map(|image| image.len()), Some(16));
        assert!(initial(&images, 1, &spec(16)).unwrap().is_none(), "one that the job does not have");
        for place in [0, 15, 17] {
            let error = initial(&images, 0, &spec(place)).unwrap_err();
            let words = format!("the initial image of allocation 0, of rank 3, has 16 bytes, and its place {place}");
            assert_eq!(error.to_string(), words);
        }
    }
}
