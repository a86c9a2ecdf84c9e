//! Counts and types: inputs give theirs, outputs follow from their step, a receive's from the send that it meets.
use super::eval::elements;
use super::inputs;
use super::item::{BufferSlice, ItemKind, Open, Program};
use super::rank_op::{RankCollective, RankMap, RankOp};
use super::ranks_hint::who_runs;
use super::types::{BufId, CommId};
use crate::num::DType;
use crate::ops::Extent;
use crate::scenario::{Diagnostic, Span, dedupe};
use rustc_hash::FxHashMap;

/// The lengths and types of buffers once everything is resolved.
#[derive(Debug, Default)]
pub struct Sizes {
    /// Counts by buffer and rank; `None` where the rank lacks the buffer.
    pub counts: Vec<Vec<Option<u64>>>,
    /// Element types by buffer.
    pub dtypes: Vec<Option<DType>>,
    /// The number of elements that an item (rank, index) writes.
    pub lens: FxHashMap<(usize, usize), u64>,
}

/// A pair of ranks: (communicator, sender, receiver), as ranks of the communicator.
type Pair = (CommId, usize, usize);

/// Limit on buffers times ranks of a case; tables of buffers have an entry for each rank.
const MAX_PLACES: usize = 2_000_000;

/// Finds all counts and types.
pub fn resolve(p: &mut Program) -> Result<Sizes, Vec<Diagnostic>> {
    let places = p.names.len().saturating_mul(p.n);
    if places > MAX_PLACES {
        let text = format!("{} buffers on {} ranks are {places}: more than {MAX_PLACES}", p.names.len(), p.n);
        return Err(vec![Diagnostic::new(p.case.world_size.span, text).help("fewer buffers, or fewer ranks")]);
    }
    let mut r = Resolver {
        counts: vec![vec![None; p.n]; p.names.len()],
        dtypes: p.names.iter().map(|b| b.dtype).collect(),
        roots: FxHashMap::default(),
        meets: FxHashMap::default(),
        lens: FxHashMap::default(),
        open: FxHashMap::default(),
        changed: false,
        diags: Vec::new(),
        p,
    };
    r.inputs();
    r.match_messages();
    r.match_roots();
    r.slice_only();
    if !r.diags.is_empty() {
        return Err(r.diags);
    }
    let mut open: Vec<(usize, usize)> = r.p.order.clone();
    loop {
        r.changed = false;
        let before = open.len();
        let mut rest = Vec::new();
        for at in open {
            match r.item(at) {
                Ok(true) => {}
                Ok(false) => rest.push(at),
                Err(d) => r.diags.push(d),
            }
        }
        open = rest;
        if !r.diags.is_empty() {
            return Err(dedupe(r.diags));
        }
        if open.is_empty() || (open.len() == before && !r.changed) {
            break;
        }
    }
    // Consequences of reading a buffer too early are not reported in addition.
    r.diags.extend(open.iter().filter_map(|at| r.read_too_early(*at)).collect::<Vec<_>>());
    if !r.diags.is_empty() {
        return Err(dedupe(r.diags));
    }
    for at in open {
        if let Some(d) = r.unresolved(at) {
            r.diags.push(d);
        }
    }
    if !r.diags.is_empty() {
        return Err(dedupe(r.diags));
    }
    Ok(Sizes { counts: r.counts, dtypes: r.dtypes, lens: r.lens })
}

struct Resolver<'a> {
    p: &'a Program,
    counts: Vec<Vec<Option<u64>>>,
    dtypes: Vec<Option<DType>>,
    /// For items that read the root's buffer, the root's item of the same call.
    roots: FxHashMap<(usize, usize), (usize, usize)>,
    /// For each receive, the send that it meets.
    meets: FxHashMap<(usize, usize), (usize, usize)>,
    lens: FxHashMap<(usize, usize), u64>,
    /// Writes to slices with an open end that are not resolved yet: until then the buffer may still grow.
    open: FxHashMap<(BufId, usize), usize>,
    changed: bool,
    diags: Vec<Diagnostic>,
}

impl Resolver<'_> {
    fn inputs(&mut self) {
        let case = self.p.case.clone();
        for (id, name) in self.p.names.iter().enumerate() {
            if name.name == super::place::BARRIER_IN || name.name == super::place::BARRIER_OUT {
                self.counts[id] = vec![Some(1); self.p.n];
            }
            let Some(def) = name.input.and_then(|i| case.inputs.get(i)) else { continue };
            for rank in 0..self.p.n {
                match inputs::count(&case, def, rank) {
                    Ok(count) => self.counts[id][rank] = count,
                    // The other ranks mostly show the same mistake.
                    Err(d) => {
                        self.diags.push(d);
                        break;
                    }
                }
            }
        }
    }

    fn match_messages(&mut self) {
        let mut sends: FxHashMap<Pair, Vec<(usize, usize)>> = FxHashMap::default();
        let mut recvs: FxHashMap<Pair, Vec<(usize, usize)>> = FxHashMap::default();
        for &(rank, index) in &self.p.order {
            let item = &self.p.items[rank][index];
            if item.fails {
                continue;
            }
            match &item.kind {
                ItemKind::Op(RankOp::Send(message)) => {
                    if let Ok(peer) = usize::try_from(message.peer.value) {
                        sends.entry((message.comm, message.rank, peer)).or_default().push((rank, index));
                    }
                }
                ItemKind::Op(RankOp::Recv(message)) => {
                    if let Ok(peer) = usize::try_from(message.peer.value) {
                        recvs.entry((message.comm, peer, message.rank)).or_default().push((rank, index));
                    }
                }
                _ => {}
            }
        }
        for (pair, list) in recvs {
            let from = sends.get(&pair).map_or(&[][..], Vec::as_slice);
            self.meets.extend(list.into_iter().zip(from.iter().copied()));
        }
    }

    /// For calls in which only the root's buffer determines the count: finds the root's call with the same number on the communicator.
    fn match_roots(&mut self) {
        let mut calls: FxHashMap<(CommId, usize), Vec<(usize, usize)>> = FxHashMap::default();
        for &(rank, index) in &self.p.order {
            let item = &self.p.items[rank][index];
            if let (ItemKind::Op(RankOp::Collective(c)), false) = (&item.kind, item.fails) {
                calls.entry((c.comm, c.rank)).or_default().push((rank, index));
            }
        }
        for ((comm, _), list) in &calls {
            for (number, at) in list.iter().enumerate() {
                let ItemKind::Op(RankOp::Collective(c)) = &self.p.items[at.0][at.1].kind else { continue };
                let Ok(root) = usize::try_from(c.root.value) else { continue };
                if let Some(found) = calls.get(&(*comm, root)).and_then(|l| l.get(number)) {
                    self.roots.insert(*at, *found);
                }
            }
        }
    }

    /// An output that is only written by slices is as long as the farthest one.
    fn slice_only(&mut self) {
        let n = self.p.n;
        let mut whole = vec![vec![false; n]; self.p.names.len()];
        let mut farthest: FxHashMap<(BufId, usize), u64> = FxHashMap::default();
        for &(rank, index) in &self.p.order {
            let kind = &self.p.items[rank][index].kind;
            for slice in kind.writes() {
                let explicit = slice.end.or_else(|| kind.written_count().map(|c| slice.start.saturating_add(c)));
                match (slice.sliced, explicit) {
                    (true, Some(end)) => {
                        let far = farthest.entry((slice.buf, rank)).or_insert(0);
                        *far = (*far).max(end);
                    }
                    (true, None) if self.p.names[slice.buf].input.is_none() => {
                        *self.open.entry((slice.buf, rank)).or_insert(0) += 1;
                    }
                    (true, None) => {}
                    (false, _) => whole[slice.buf][rank] = true,
                }
            }
        }
        for ((buf, rank), end) in farthest {
            let input = self.p.names[buf].input.is_some();
            if !whole[buf][rank] && !input && self.counts[buf][rank].is_none() {
                self.counts[buf][rank] = Some(end);
            }
        }
    }

    fn len(&self, slice: &BufferSlice, rank: usize) -> Option<u64> {
        match slice.end {
            Some(end) => Some(end - slice.start),
            None => self.whole(slice.buf, rank).map(|c| c.saturating_sub(slice.start)),
        }
    }

    /// Number of elements of a buffer, once nothing can make it longer.
    fn whole(&self, buf: BufId, rank: usize) -> Option<u64> {
        let grows = self.open.get(&(buf, rank)).is_some_and(|writes| *writes > 0);
        self.counts[buf][rank].filter(|_| !grows)
    }

    fn set(
        &mut self,
        at: (usize, usize),
        slice: &BufferSlice,
        count: u64,
        dtype: Option<DType>,
    ) -> Result<(), Diagnostic> {
        let rank = at.0;
        self.lens.insert(at, count);
        let name = &self.p.names[slice.buf].name;
        if let Some(dtype) = dtype {
            match self.dtypes[slice.buf] {
                None => {
                    self.dtypes[slice.buf] = Some(dtype);
                    self.changed = true;
                }
                Some(before) if before != dtype => {
                    let text = format!("`{name}` is {}, but what is written here is {}", before.name(), dtype.name());
                    return Err(
                        Diagnostic::new(slice.span, text).help("write to a separate buffer, or make the types equal")
                    );
                }
                Some(_) => {}
            }
        }
        if slice.sliced {
            // Slices that leave the end open take the length that the step writes.
            let end = slice.end.unwrap_or(slice.start.saturating_add(count));
            if end - slice.start != count {
                let text =
                    format!("the slice has {}, but {} are written on rank {rank}", elements(end - slice.start), count);
                return Err(Diagnostic::new(slice.span, text));
            }
            if slice.end.is_none() && self.p.names[slice.buf].input.is_none() {
                let far = self.counts[slice.buf][rank].unwrap_or(0).max(end);
                self.counts[slice.buf][rank] = Some(far);
                self.changed = true;
                if let Some(writes) = self.open.get_mut(&(slice.buf, rank)) {
                    *writes = writes.saturating_sub(1);
                }
            }
            return Ok(());
        }
        match self.counts[slice.buf][rank] {
            None => {
                self.counts[slice.buf][rank] = Some(count);
                self.changed = true;
                Ok(())
            }
            Some(before) if before != count => {
                let text = format!("`{name}` has {} on rank {rank}, but this step writes {count}", elements(before));
                Err(Diagnostic::new(slice.span, text).help("write to a slice of it, or to a separate buffer"))
            }
            Some(_) => Ok(()),
        }
    }

    /// True once everything that follows from the item has been derived.
    fn item(&mut self, at: (usize, usize)) -> Result<bool, Diagnostic> {
        let (rank, index) = at;
        let p = self.p;
        let item = &p.items[rank][index];
        match &item.kind {
            ItemKind::Op(RankOp::Collective(c)) => self.collective(at, c),
            ItemKind::AllGatherV { comm, input, pieces, output, .. } => {
                let Some(dtype) = self.dtypes[input.buf] else { return Ok(false) };
                let mut sum = 0u64;
                for (at, &member) in p.comms.list[*comm].members.iter().enumerate() {
                    let Some(len) = self.len(pieces.get(at).unwrap_or(input), member) else { return Ok(false) };
                    sum = sum.saturating_add(len);
                }
                self.set(at, output, sum, Some(dtype)).map(|()| true)
            }
            ItemKind::Declare { output, count, like } => {
                let dtype = self.dtypes[*like];
                if output.buf == *like && self.counts[output.buf][rank].is_some() {
                    return self.exact_input(output, rank, *count);
                }
                self.set(at, output, *count, dtype).map(|()| dtype.is_some())
            }
            ItemKind::Op(RankOp::Send(_) | RankOp::OneSided(_))
            | ItemKind::Register { .. }
            | ItemKind::Deregister { .. }
            | ItemKind::RegistrationPoint(_)
            | ItemKind::Captured { .. }
            | ItemKind::Call(_) => Ok(true),
            ItemKind::Op(RankOp::Recv(message)) => {
                let sent = self.meets.get(&at).and_then(|(r, i)| match &p.items[*r][*i].kind {
                    ItemKind::Op(RankOp::Send(sent)) => {
                        Some((self.len(&sent.memory, *r), self.dtypes[sent.memory.buf]))
                    }
                    _ => None,
                });
                let (output, written) = (&message.memory, message.size);
                let count =
                    written.count.or_else(|| sent.and_then(|s| s.0)).or_else(|| output.end.map(|e| e - output.start));
                let dtype = written.dtype.or_else(|| sent.and_then(|s| s.1)).or(self.dtypes[output.buf]);
                let (Some(count), Some(dtype)) = (count, dtype) else { return Ok(false) };
                self.set(at, output, count, Some(dtype)).map(|()| true)
            }
            ItemKind::Op(RankOp::Map(map)) => {
                let (first, output) = (map.reads.first(), &map.out);
                let dtype = map
                    .size
                    .dtype
                    .or_else(|| first.and_then(|read| self.dtypes[read.buf]))
                    .or_else(|| first.is_none().then_some(self.dtypes[output.buf].unwrap_or(DType::F32)));
                let count = match map.size.count.or(output.end.map(|e| e - output.start)) {
                    Some(count) => Some(count),
                    None => self.map_count(item.span, map, rank)?,
                };
                let (Some(count), Some(dtype)) = (count, dtype) else { return Ok(false) };
                self.set(at, output, count, Some(dtype)).map(|()| true)
            }
        }
    }

    /// The number of elements of a map that does not give it: that of the buffers named without an index, or otherwise of the first
    /// buffer named.
    fn map_count(&self, span: Span, map: &RankMap<Open>, rank: usize) -> Result<Option<u64>, Diagnostic> {
        let name = |read: &BufferSlice| self.p.names[read.buf].name.as_str();
        let bare = map.expr.bare_names();
        let whole: Vec<&BufferSlice> = map.reads.iter().filter(|read| bare.contains(&name(read))).collect();
        let Some(first) = whole.first().copied().or(map.reads.first()) else { return Ok(None) };
        let Some(count) = self.whole(first.buf, rank) else { return Ok(None) };
        for other in whole.into_iter().skip(1).filter(|other| other.buf != map.out.buf) {
            let Some(have) = self.whole(other.buf, rank) else { return Ok(None) };
            if have != count {
                let text = format!(
                    "`{}` has {} and `{}` has {have} on rank {rank}, so it is not clear how many this map makes",
                    name(first),
                    elements(count),
                    name(other),
                );
                let help = match (count, have) {
                    (1, _) => format!("write `{}[0]` for its only element, or `count`", name(first)),
                    (_, 1) => format!("write `{}[0]` for its only element, or `count`", name(other)),
                    _ => {
                        format!("write `count`, or index one of them, as in `{}[i % {}]`", name(other), have.min(count))
                    }
                };
                return Err(Diagnostic::new(span, text).help(help));
            }
        }
        Ok(Some(count))
    }

    /// Checks that an input of all_to_all_v with its own count agrees with `counts`.
    fn exact_input(&self, slice: &BufferSlice, rank: usize, count: u64) -> Result<bool, Diagnostic> {
        let have = self.len(slice, rank).unwrap_or(count);
        if have == count {
            return Ok(true);
        }
        let name = &self.p.names[slice.buf].name;
        Err(Diagnostic::new(
            slice.span,
            format!("`{name}` has {} on rank {rank}, but its row of `counts` adds up to {count}", elements(have)),
        ))
    }

    fn collective(&mut self, at: (usize, usize), c: &RankCollective<Open>) -> Result<bool, Diagnostic> {
        let (rank, index) = at;
        let p = self.p;
        let n = p.comms.list[c.comm].members.len();
        // The source of the count: the rank's own input, or the root's.
        let root = usize::try_from(c.root.value).unwrap_or(usize::MAX);
        let own = c.op.readers.includes(c.rank, root);
        let source = if own { Some(at) } else { self.roots.get(&at).copied().or(Some(at)) };
        let Some((from, i)) = source else { return Ok(false) };
        let ItemKind::Op(RankOp::Collective(giver)) = &p.items[from][i].kind else { return Ok(false) };
        let Some(input) = &giver.send else {
            return Err(Diagnostic::new(
                p.items[rank][index].span,
                format!("this step needs `in` on rank {}", giver.rank),
            ));
        };
        if p.names[input.buf].input.is_some() && self.counts[input.buf][from].is_none() {
            return Err(self.no_count(input, from));
        }
        let Some(len) = self.len(input, from) else { return Ok(false) };
        let Some(dtype) = self.dtypes[input.buf] else { return Ok(false) };
        let k = match c.op.send {
            Extent::One => len,
            Extent::PerRank if len % n as u64 != 0 => {
                let name = shown(&p.names[input.buf].name);
                let text = format!(
                    "{name} has {} on rank {from}, which is not a multiple of {n}, the number of ranks",
                    elements(len)
                );
                let span = p.names[input.buf].input.map_or(input.span, |_| p.names[input.buf].span);
                return Err(Diagnostic::new(span, text)
                    .related(p.items[rank][index].span, "this step deals it out in equal blocks")
                    .help(multiples(len, n as u64)));
            }
            Extent::PerRank => len / n as u64,
        };
        let of_root = (k, dtype);
        let (k, dtype) = (c.size.count.unwrap_or(k), c.size.dtype.unwrap_or(dtype));
        if own && of_root != (k, dtype) {
            let text = format!("the root passes its `in`, which does not have {k} {}", dtype.name());
            return Err(Diagnostic::new(p.items[rank][index].span, text)
                .help("`count` and `dtype` are for ranks that pass something else than the root"));
        }
        let Some(out) = c.op.recv.elements(k, n) else {
            return Err(Diagnostic::new(
                p.items[rank][index].span,
                format!("the result would have {k} x {n} elements"),
            ));
        };
        match &c.recv {
            Some(output) => self.set(at, output, out, Some(dtype)).map(|()| true),
            None if c.op.writers.includes(c.rank, root) => {
                Err(Diagnostic::new(p.items[rank][index].span, "this step needs `out`")
                    .help("or `in_place = true`, and the result takes the input's memory"))
            }
            None => Ok(true),
        }
    }

    fn no_count(&self, input: &BufferSlice, rank: usize) -> Diagnostic {
        let name = shown(&self.p.names[input.buf].name);
        Diagnostic::new(
            self.p.names[input.buf].span,
            format!("nothing says how many elements {name} has on rank {rank}"),
        )
        .help("add `count`")
    }

    /// Reports a map that reads elements which only it or later steps write.
    fn read_too_early(&self, at: (usize, usize)) -> Option<Diagnostic> {
        let (rank, index) = at;
        let items = self.p.items.get(rank)?;
        let item = items.get(index)?;
        let ItemKind::Op(RankOp::Map(map)) = &item.kind else { return None };
        let buf = map.reads.first()?.buf;
        let writes = |i: &super::item::Item| i.kind.writes().iter().any(|slice| slice.buf == buf);
        let first = items.iter().position(writes).filter(|first| *first >= index)?;
        let name = self.p.names.get(buf).filter(|name| name.input.is_none())?.name.as_str();
        let writer = items.get(first)?.span;
        let d = Diagnostic::new(item.span, format!("`{name}` is read here, and no step before writes it"));
        if writer != item.span {
            return Some(d.related(writer, "this step writes it").help("move that step before this one"));
        }
        let input = self.p.names.iter().find(|other| other.input.is_some());
        let start = input.map(|input| {
            format!("before with `{{ op = \"map\", expr = \"0 * {}\", out = \"{name}\" }}`, or ", input.name)
        });
        Some(d.help(format!(
            "start it {}in `inputs`: `inputs.{name} = {{ each = 0, count = 4 }}`",
            start.unwrap_or_default()
        )))
    }

    fn unresolved(&self, at: (usize, usize)) -> Option<Diagnostic> {
        let item = &self.p.items[at.0][at.1];
        let rank = at.0;
        let missing = |slice: &BufferSlice| {
            let name = &self.p.names[slice.buf];
            if self.written_by(slice.buf, rank) {
                return Diagnostic::new(
                    slice.span,
                    format!("nothing says how many elements `{}` has on rank {rank}", name.name),
                )
                .help("add `count` where it is made");
            }
            let text = format!("`{}` is read on rank {rank}, where no step has written it", name.name);
            Diagnostic::new(slice.span, text).help("write it in an earlier step, or give it in `inputs`")
        };
        match &item.kind {
            ItemKind::Op(RankOp::Collective(c)) => {
                let source = self.roots.get(&at).copied().unwrap_or(at);
                let ItemKind::Op(RankOp::Collective(giver)) = &self.p.items[source.0][source.1].kind else {
                    return None;
                };
                let input = c.send.as_ref().filter(|_| source == at).or(giver.send.as_ref())?;
                Some(missing(input))
            }
            ItemKind::AllGatherV { input, .. } => Some(missing(input)),
            ItemKind::Op(RankOp::Recv(message)) if !self.meets.contains_key(&at) => {
                let (open, key) = match message.size.count {
                    Some(_) => ("what type of elements comes", "`dtype`"),
                    None => ("how many elements come", "`count` and `dtype`"),
                };
                let text = format!(
                    "no send of rank {} meets this recv on rank {rank}, so nothing says {open}",
                    message.peer.value
                );
                let hint = who_runs(&self.p.case, item.span);
                let help = hint.unwrap_or_else(|| format!("add the send, or {key} to receive without one"));
                Some(Diagnostic::new(item.span, text).help(help))
            }
            ItemKind::Op(RankOp::Recv(message)) => {
                let text = format!("nothing says how many elements rank {rank} receives here");
                Some(Diagnostic::new(message.memory.span, text).help("add `count`"))
            }
            ItemKind::Op(RankOp::Map(map)) => match map.reads.first() {
                Some(read) => Some(missing(&BufferSlice { buf: read.buf, ..map.out })),
                None => Some(
                    Diagnostic::new(item.span, "nothing says how many elements this map makes").help("add `count`"),
                ),
            },
            ItemKind::Declare { output, .. } => Some(missing(output)),
            ItemKind::Op(RankOp::Send(_) | RankOp::OneSided(_))
            | ItemKind::Register { .. }
            | ItemKind::Deregister { .. }
            | ItemKind::RegistrationPoint(_)
            | ItemKind::Captured { .. }
            | ItemKind::Call(_) => None,
        }
    }

    fn written_by(&self, buf: BufId, rank: usize) -> bool {
        let writes = |i: &super::item::Item| i.kind.writes().iter().any(|slice| slice.buf == buf);
        self.p.names[buf].input.is_some() || self.p.items[rank].iter().any(writes)
    }
}

/// The nearest lengths that can be divided evenly.
fn multiples(len: u64, n: u64) -> String {
    let above = (len / n + 1).saturating_mul(n);
    match len / n * n {
        0 => format!("give it {above} elements"),
        below => format!("give it {below} or {above} elements"),
    }
}

/// A buffer's name as shown in messages.
pub fn shown(name: &str) -> String {
    format!("`{name}`")
}
