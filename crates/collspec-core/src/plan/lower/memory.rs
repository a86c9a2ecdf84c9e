//! The memory of a rank's operations: the parts of buffers, and the pointers that calls pass.
use super::super::eval::elements;
use super::super::item::BufferSlice;
use super::super::place::has;
use super::super::resolve::shown;
use super::super::types::{Alloc, BufId, Buffer, Place, Region};
use super::Lowering;
use super::call::factor_bytes;
use crate::job::Ptr;
use crate::num::DType;
use crate::scenario::{Diagnostic, Span};

impl Lowering {
    fn name(&self, buf: BufId) -> String {
        shown(&self.lowered.placed.buffers[buf].name)
    }

    pub(super) fn dtype(&self, buf: BufId) -> DType {
        self.lowered.placed.buffers[buf].dtype
    }

    /// The part of a buffer that a rank reads or writes.
    pub(super) fn region(&self, slice: &BufferSlice, rank: usize, reads: bool) -> Result<Region, Diagnostic> {
        let buffer = &self.lowered.placed.buffers[slice.buf];
        let Some(place) = buffer.places[rank] else {
            let text = if has(&self.lowered.unrolled, slice.buf, rank) {
                format!(
                    "{} is {} on rank {rank}, where no step has written it",
                    self.name(slice.buf),
                    if reads { "read" } else { "used" }
                )
            } else {
                format!("rank {rank} has no {}", self.name(slice.buf))
            };
            return Err(Diagnostic::new(slice.span, text).related(buffer.span, "first named here"));
        };
        if let (true, Some(by)) = (reads, self.taken.get(&(slice.buf, rank))) {
            let text = format!("{} has given its memory to an in-place step on rank {rank}", self.name(slice.buf));
            return Err(Diagnostic::new(slice.span, text).related(*by, "here").help("read that step's `out` instead"));
        }
        let end = slice.end.unwrap_or(place.count);
        if end > place.count || slice.start > end {
            let text = format!(
                "the slice [{}:{end}] is not inside {}, which has {} on rank {rank}",
                slice.start,
                self.name(slice.buf),
                elements(place.count)
            );
            return Err(Diagnostic::new(slice.span, text));
        }
        Ok(Region { buf: slice.buf, rank, start: slice.start, len: end - slice.start })
    }

    /// The part of a buffer that an item writes: a slice that leaves its end open is as long as the data.
    pub(super) fn output(&self, at: (usize, usize), slice: &BufferSlice) -> Result<Region, Diagnostic> {
        let mut region = self.region(slice, at.0, false)?;
        if let (None, Some(len)) = (slice.end, self.lowered.placed.sizes.lens.get(&at)) {
            region.len = region.len.min(*len);
        }
        Ok(region)
    }

    pub(super) fn ptr(&self, region: &Region) -> Ptr {
        let buffer = &self.lowered.placed.buffers[region.buf];
        match buffer.places[region.rank] {
            Some(place) => {
                Ptr::At { alloc: place.alloc as u32, byte: place.offset + region.start * buffer.dtype.size() as u64 }
            }
            None => Ptr::Null,
        }
    }

    /// Memory that no call may read or write.
    pub(super) fn scrap(&mut self, rank: usize) -> Ptr {
        let alloc = *self.scrap[rank].get_or_insert_with(|| {
            self.lowered.placed.allocs.push(Alloc {
                rank,
                lead: 0,
                payload: 256,
                label: "#scrap".to_owned(),
                window: false,
                scrap: true,
            });
            (self.lowered.placed.allocs.len() - 1) as u32
        });
        Ptr::At { alloc, byte: 0 }
    }

    /// Device memory for a premul_sum's factor: the place that NCCL reads, which receives its value in stream order, and the
    /// place from which it is copied.
    pub(super) fn factor(&mut self, rank: usize, dtype: DType, bits: u64) -> Ptr {
        let bytes = factor_bytes(dtype, bits);
        let n = self.lowered.unrolled.n;
        let buffers = &mut self.lowered.placed.buffers;
        let buf = *self.factors.entry((dtype, bits)).or_insert_with(|| {
            let name = format!("#scalar{}", buffers.len());
            buffers.push(Buffer { name, dtype, span: Span::default(), places: vec![None; n], input: None });
            buffers.len() - 1
        });
        let place = match buffers[buf].places[rank] {
            Some(place) => place,
            None => {
                let alloc = self.lowered.placed.allocs.len();
                self.lowered.placed.allocs.push(Alloc {
                    rank,
                    lead: 0,
                    payload: 2 * bytes.len() as u64,
                    label: buffers[buf].name.clone(),
                    window: false,
                    scrap: false,
                });
                let place = Place { alloc, offset: 0, count: 2 };
                buffers[buf].places[rank] = Some(place);
                self.lowered.constants.push((buf, rank, bytes.repeat(2)));
                place
            }
        };
        Ptr::At { alloc: place.alloc as u32, byte: 0 }
    }
}
