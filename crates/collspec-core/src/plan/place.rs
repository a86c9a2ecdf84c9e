//! Assigns buffers to allocations: each buffer of a rank has separate memory, except that `in` and `out` of an in-place call share it.
use super::cost::{of_image, too_much_memory};
use super::eval::{Names, Ranked, among};
use super::item::{ItemKind, Open, Program};
use super::limits::Limits;
use super::rank_op::{RankCollective, RankOp};
use super::resolve::{Sizes, shown};
use super::types::{Alloc, BufId, Buffer, Place};
use crate::num::DType;
use crate::ops::InPlace;
use crate::scenario::{Diagnostic, NumberByRank, Span, dedupe};

/// The barrier's own buffers.
pub const BARRIER_IN: &str = "#barrier_in";
/// The buffer for the result of a barrier's all_reduce.
pub const BARRIER_OUT: &str = "#barrier_out";

/// The buffers with their allocations.
#[derive(Debug)]
pub struct PlacedBuffers {
    pub buffers: Vec<Buffer>,
    pub allocs: Vec<Alloc>,
    pub sizes: Sizes,
}

/// A buffer of one rank within a group that shares an allocation: its first byte, relative.
#[derive(Clone, Copy)]
struct Member {
    group: usize,
    at: i128,
}

/// The bytes that a group's buffers span, relative as [`Member::at`].
#[derive(Clone, Default)]
struct Extent {
    rank: usize,
    first: i128,
    end: i128,
    buffers: Vec<BufId>,
}

/// Lays out all buffers.
pub fn place(p: &Program, sizes: Sizes, limits: &Limits) -> Result<PlacedBuffers, Vec<Diagnostic>> {
    let mut diags = Vec::new();
    let dtypes: Vec<DType> = sizes.dtypes.iter().map(|d| d.unwrap_or(DType::F32)).collect();
    let mut members: Vec<Vec<Option<Member>>> = vec![vec![None; p.n]; p.names.len()];
    let mut groups = 0;
    for &(rank, index) in &p.order {
        let item = &p.items[rank][index];
        if let ItemKind::Op(RankOp::Collective(c)) = &item.kind
            && c.in_place
        {
            diags.extend(share(p, &sizes, &dtypes, &mut members, &mut groups, rank, c, item.span).err());
        }
    }
    if !diags.is_empty() {
        return Err(dedupe(diags));
    }
    let mut spans: Vec<Extent> = vec![Extent::default(); groups];
    least(p, &sizes, &dtypes, &members, groups, limits)?;
    for (buf, dtype) in dtypes.iter().enumerate() {
        for (rank, slot) in members[buf].iter_mut().enumerate() {
            let Some(count) = sizes.counts[buf][rank] else { continue };
            let bytes = count.saturating_mul(dtype.size() as u64);
            let member = *slot.get_or_insert_with(|| {
                groups += 1;
                spans.push(Extent::default());
                Member { group: groups - 1, at: 0 }
            });
            let extent = &mut spans[member.group];
            if extent.buffers.is_empty() {
                *extent = Extent { rank, first: member.at, end: member.at, buffers: Vec::new() };
            }
            extent.first = extent.first.min(member.at);
            extent.end = extent.end.max(member.at + i128::from(bytes));
            extent.buffers.push(buf);
        }
    }
    let mut allocs = Vec::new();
    let mut places = vec![vec![None; p.n]; p.names.len()];
    for Extent { rank, first, end, buffers } in spans {
        let mut lead = 0;
        for &buf in &buffers {
            let at = members[buf][rank].map_or(0, |m| m.at - first);
            if at == 0 {
                match offset(p, buf, rank, dtypes[buf]) {
                    Ok(bytes) => lead = lead.max(bytes),
                    Err(d) => diags.push(d),
                }
            }
            let count = sizes.counts[buf][rank].unwrap_or(0);
            places[buf][rank] = Some(Place { alloc: allocs.len(), offset: u64::try_from(at).unwrap_or(0), count });
        }
        let label = match buffers[..] {
            [only] => p.names[only].name.clone(),
            _ => buffers.iter().map(|b| p.names[*b].name.as_str()).collect::<Vec<_>>().join(", "),
        };
        allocs.push(Alloc {
            rank,
            lead,
            payload: u64::try_from(end - first).unwrap_or(0),
            label,
            window: false,
            scrap: false,
        });
    }
    if !diags.is_empty() {
        return Err(dedupe(diags));
    }
    let buffers = p
        .names
        .iter()
        .zip(places)
        .zip(dtypes)
        .map(|((name, places), dtype)| Buffer {
            name: name.name.clone(),
            dtype,
            span: name.span,
            places,
            input: name.input,
        })
        .collect();
    Ok(PlacedBuffers { buffers, allocs, sizes })
}

/// Refuses buffers that need too much memory in any layout, before data structures are built for each of them.
fn least(
    p: &Program,
    sizes: &Sizes,
    dtypes: &[DType],
    members: &[Vec<Option<Member>>],
    groups: usize,
    limits: &Limits,
) -> Result<(), Vec<Diagnostic>> {
    let mut shared = vec![0u64; groups];
    let (mut total, mut most) = (0u64, (0u64, 0));
    for (buf, dtype) in dtypes.iter().enumerate() {
        let mut own = 0u64;
        for (rank, slot) in members[buf].iter().enumerate() {
            let Some(count) = sizes.counts[buf][rank] else { continue };
            let Some(bytes) = count.checked_mul(dtype.size() as u64).filter(|b| *b <= limits.memory) else {
                let text = format!(
                    "{} has {count} elements on rank {rank}: more than the limit of {}",
                    shown(&p.names[buf].name),
                    human(limits.memory)
                );
                let help = format!("a smaller count; `{}` raises the limit", limits.set_by.name("max-memory"));
                return Err(vec![Diagnostic::new(p.names[buf].span, text).help(help)]);
            };
            let image = of_image(bytes);
            own = own.saturating_add(image);
            match slot {
                Some(member) => shared[member.group] = shared[member.group].max(image),
                None => total = total.saturating_add(image),
            }
        }
        most = most.max((own, buf));
    }
    let total = shared.into_iter().fold(total, u64::saturating_add);
    let (own, buf) = most;
    match p.names.get(buf) {
        Some(name) if total > limits.memory => {
            let what = format!("{} on all ranks", shown(&name.name));
            Err(vec![too_much_memory(&what, name.span, own, total, limits)])
        }
        _ => Ok(()),
    }
}

/// Bytes between the 256-byte boundary and a buffer's start.
fn offset(p: &Program, buf: BufId, rank: usize, dtype: DType) -> Result<u64, Diagnostic> {
    let own = p.names[buf].input.and_then(|i| p.case.inputs.get(i));
    let num: Option<&NumberByRank> = match own {
        Some(def) => def.offset.as_ref(),
        None => {
            let named = p.case.offsets.iter().find(|(name, _)| *name == p.names[buf].name);
            named.map(|(_, offset)| offset).or(p.case.offset.as_ref())
        }
    };
    let Some(num) = num else { return Ok(0) };
    let v = num.whole(&Names::world(&p.case, rank))?;
    match u64::try_from(v) {
        Ok(v) if v <= 1 << 20 => Ok(v * dtype.size() as u64),
        _ => Err(Diagnostic::new(
            num.span,
            format!("`offset` is {v} on rank {rank}; 0 to {} elements are possible", 1 << 20),
        )),
    }
}

#[expect(clippy::too_many_arguments, reason = "one loop's state, split off for its length")]
fn share(
    p: &Program,
    sizes: &Sizes,
    dtypes: &[DType],
    members: &mut [Vec<Option<Member>>],
    groups: &mut usize,
    rank: usize,
    c: &RankCollective<Open>,
    span: Span,
) -> Result<(), Diagnostic> {
    let root = usize::try_from(c.root.value).unwrap_or(usize::MAX);
    let (Some(input), Some(output)) = (&c.send, &c.recv) else { return Ok(()) };
    let inside = match c.op.in_place {
        InPlace::Never => return Err(Diagnostic::new(span, "this operation cannot run in place")),
        // Only the root has both a send and a receive buffer.
        InPlace::SendInRecv | InPlace::RecvInSend if c.op.rooted && c.rank != root => return Ok(()),
        _ => true,
    };
    if (input.buf == output.buf && !input.sliced && !output.sliced) || !inside {
        return Ok(());
    }
    if input.sliced || output.sliced {
        return Err(Diagnostic::new(output.span, "`in_place` needs whole buffers")
            .help("name the same slice in `in` and `out`, without `in_place`"));
    }
    let (Some(have), Some(come)) = (sizes.counts[input.buf][rank], sizes.counts[output.buf][rank]) else {
        return Ok(());
    };
    // An empty row on a rank other than a broadcast's root is not memory that can be shared.
    if c.op.in_place == InPlace::Same && have != come {
        return Ok(());
    }
    let size = dtypes[input.buf].size() as i128;
    let block = i128::from(have.min(come)) * size * c.rank as i128;
    // Offset of the start of `out` from the start of `in`.
    let delta = match c.op.in_place {
        InPlace::SendInRecv => -block,
        InPlace::RecvInSend => block,
        _ => 0,
    };
    let (a, b) = (members[input.buf][rank], members[output.buf][rank]);
    match (a, b) {
        (Some(a), Some(b)) if a.group == b.group && b.at - a.at == delta => Ok(()),
        (Some(_), Some(_)) => Err(Diagnostic::new(
            output.span,
            format!(
                "{} and {} already have separate memory on rank {rank}",
                shown(&p.names[input.buf].name),
                shown(&p.names[output.buf].name)
            ),
        )),
        (Some(a), None) => {
            members[output.buf][rank] = Some(Member { group: a.group, at: a.at + delta });
            fresh(p, output.buf, output.span)
        }
        (None, Some(b)) => {
            members[input.buf][rank] = Some(Member { group: b.group, at: b.at - delta });
            Ok(())
        }
        (None, None) => {
            let group = *groups;
            *groups += 1;
            members[input.buf][rank] = Some(Member { group, at: 0 });
            members[output.buf][rank] = Some(Member { group, at: delta });
            fresh(p, output.buf, output.span)
        }
    }
}

/// Checks that an in-place output does not have initial contents.
fn fresh(p: &Program, buf: BufId, span: Span) -> Result<(), Diagnostic> {
    match p.names[buf].input {
        Some(_) => {
            let text =
                format!("{} is in `inputs`, but in place it takes the memory of `in`", shown(&p.names[buf].name));
            Err(Diagnostic::new(span, text).related(p.names[buf].span, "given here"))
        }
        None => Ok(()),
    }
}

/// A number of bytes as readable text.
pub fn human(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, size) in UNITS {
        if bytes >= size {
            let tenths = bytes / size * 10 + bytes % size * 10 / size;
            return if tenths.is_multiple_of(10) {
                format!("{} {unit}", tenths / 10)
            } else {
                format!("{}.{} {unit}", tenths / 10, tenths % 10)
            };
        }
    }
    format!("{bytes} bytes")
}

/// True if a rank has a buffer that is given in the file.
pub fn has(p: &Program, buf: BufId, rank: usize) -> bool {
    let def = p.names[buf].input.and_then(|i| p.case.inputs.get(i));
    def.is_none_or(|d| among(&d.ranks, &p.case, rank).unwrap_or(true))
}
