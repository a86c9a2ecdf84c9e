//! A step in plain English.
use super::picture::{list, number, ranks_in_words};
use super::reduction;
use collspec_core::expr::ExprNode;
use collspec_core::ops::{Collective, CommOp, Rule, Who};
use collspec_core::plan::{Buffer, CollectiveEvent, Event, Plan, PlanStep, Region};
use collspec_core::scenario::{
    BufferRef, CollectiveStep, CommCreation, CommDef, Expr, NumberByRank, NumberByRankKind, OneSidedCall, Ranks,
    RegisterKind, Step, StepComm, StepKind,
};
use std::collections::BTreeSet;

/// Limit on the messages and communicators that are listed.
const LISTED: usize = 6;

/// A step with what happens in it: its events in the round that is shown.
pub struct Happening<'a> {
    pub plan: &'a Plan,
    pub step: &'a Step,
    pub planned: Option<&'a PlanStep>,
    pub events: Vec<&'a Event>,
}

/// The buffer's name, with its type unless that is the usual one.
pub fn typed(buffer: &Buffer) -> String {
    match buffer.dtype {
        collspec_core::num::DType::F32 => buffer.name.clone(),
        dtype => format!("{} ({})", buffer.name, dtype.name()),
    }
}

impl Happening<'_> {
    /// The step in a paragraph.
    pub fn words(&self) -> String {
        let mut words = self.what();
        if let Some(others) = self.calls_elsewhere() {
            words.push_str(&format!(" {others}"));
        } else if self.events.is_empty() && self.step.op.kind.transfers() && self.step.error.is_none() {
            words.push_str(match &self.step.graph {
                Some(_) => " No launch of the graph runs it.",
                None if matches!(self.step.kind, StepKind::Barrier) => "",
                None => " It is not known to finish.",
            });
        }
        if let Some(graph) = &self.step.graph {
            words.push_str(&format!(" It is captured into graph `{}` and runs when that is launched.", graph.value));
        }
        if !self.step.after.is_empty() {
            let on = self.step.after.iter().map(|stream| format!("`{}`", stream.value));
            let on: Vec<String> = on.collect();
            words.push_str(&format!(" Its stream first waits for {}.", list(on.into_iter(), LISTED)));
        }
        if self.planned.is_some_and(|planned| !planned.error.is_empty()) {
            words.push_str(" The file expects the call to return an error on some or all ranks.");
        }
        words
    }

    /// A sentence on a collective whose ranks call it in several steps: it is shown in the first of these.
    fn calls_elsewhere(&self) -> Option<String> {
        let label = |step: u32| self.plan.steps.get(step as usize).map_or("", |step| step.label.as_str());
        if let Some(collective) = self.first_collective() {
            let others: BTreeSet<&str> = collective
                .calls
                .iter()
                .filter(|call| call.step != collective.first.step)
                .map(|call| label(call.step))
                .collect();
            let names = list(others.iter().map(|label| (*label).to_owned()), LISTED);
            return (!others.is_empty()).then(|| {
                format!("Not all ranks call it in this step: the others do, with their own buffers, in {names}.")
            });
        }
        let span = &self.planned.filter(|_| self.events.is_empty())?.span;
        let is_this = |step: u32| self.plan.steps.get(step as usize).is_some_and(|step| step.span == *span);
        let shown = self.plan.events.iter().find_map(|event| match event {
            Event::Collective(collective) if collective.calls.iter().any(|call| is_this(call.step)) => Some(collective),
            _ => None,
        })?;
        Some(format!(
            "It is the call of some ranks for the collective of {}, and is shown there.",
            label(shown.first.step)
        ))
    }

    fn what(&self) -> String {
        let name = self.step.op.name;
        match &self.step.kind {
            StepKind::Collective(keys) => self.collective(keys),
            StepKind::AllGatherV { input, output } => format!(
                "all_gather_v{}: every rank ends with all ranks' {}, which may have different lengths, one after the other in {}. \
                 NCCL has no such call: it is a group of one broadcast from each rank.",
                self.over(),
                quoted(input),
                quoted(output)
            ),
            StepKind::AllToAllV { input, output, .. } => format!(
                "all_to_all_v{}: every rank cuts its {} into one block for each rank, of different lengths, and ends with the blocks \
                 that are meant for it, in rank order, in {}. NCCL has no such call: it is a group of sends and receives.",
                self.over(),
                quoted(input),
                quoted(output)
            ),
            StepKind::ReduceScatterV { input, output, .. } => format!(
                "reduce_scatter_v{}: all ranks' {} are reduced ({}) and cut into one block for each rank, of different lengths; \
                 each rank ends with its block in {}. NCCL has no such call: it is a group of one reduce to each rank.",
                self.over(),
                quoted(input),
                self.noun(),
                quoted(output)
            ),
            StepKind::Barrier => {
                format!("barrier{}: no rank continues before all of them have arrived. No buffer changes.", self.over())
            }
            StepKind::Send { input, .. } => format!("send: {}.", self.messages(Some(input))),
            StepKind::Recv { output, .. } => format!("recv: {}, into {}.", self.messages(None), quoted(output)),
            StepKind::SendRecv { input, output, .. } => format!(
                "send_recv: every rank sends and receives at the same time, so that none waits for another one's turn: {}, into {}.",
                self.messages(Some(input)),
                quoted(output)
            ),
            StepKind::Map { output, expr, .. } => format!(
                "map: {} without any message: element i of {} is {}{}.",
                self.computing(),
                quoted(output),
                code(&expr.text),
                self.meanings(expr)
            ),
            StepKind::Wait { stream: Some(stream) } => {
                format!("wait: the host waits until the work enqueued on stream {} so far is done.", code(stream))
            }
            StepKind::Wait { stream: None } => "wait: the host waits until all enqueued work is done.".into(),
            StepKind::Sleep { seconds } => format!("sleep: {} pause for {} s.", self.who(), amount(seconds)),
            StepKind::Exit { status } => format!("exit: the process of {} ends here ({status:?}).", self.who()),
            StepKind::NewComm(new) => self.new_comm(new),
            StepKind::Comm(op) => format!("{name}: {}.", comm_words(*op, &self.comm())),
            StepKind::OneSided(step) => self.one_sided(&step.call),
            StepKind::Register { memory, how } => format!(
                "register: the memory of {} is registered with communicator {}{}. No data moves.",
                quoted(memory),
                self.comm(),
                if *how == RegisterKind::Window { " as a window, into which other ranks can put data" } else { "" }
            ),
            StepKind::Deregister { memory } => format!("deregister: the registration of {} ends.", quoted(memory)),
            StepKind::Launch { graph } => {
                format!("launch: everything that was captured into graph {} runs, in one call.", code(graph))
            }
            StepKind::Release { graph } => format!("release: graph {} is destroyed.", code(graph)),
            StepKind::Group(_) => {
                "group: its steps are one call for NCCL; none waits for another inside the group.".into()
            }
            StepKind::Loop(_) => "loop: its steps are repeated.".into(),
        }
    }

    fn first_collective(&self) -> Option<&CollectiveEvent> {
        self.events.iter().find_map(|event| match event {
            Event::Collective(collective) => Some(collective),
            _ => None,
        })
    }

    fn noun(&self) -> &'static str {
        self.first_collective().map_or("sum", reduction::noun)
    }

    /// ` over ranks 0 to 3`, or the communicators.
    fn over(&self) -> String {
        let comms: BTreeSet<usize> = self.events.iter().filter_map(|event| super::effects::comm_of(event)).collect();
        let members =
            |comm: &usize| self.plan.comms.get(*comm).map_or_else(String::new, |c| ranks_in_words(&c.members));
        let words: Vec<String> = comms.iter().map(members).collect();
        match words.as_slice() {
            [] => format!(" in communicator {}", self.comm()),
            [one] => format!(" over {one}"),
            _ => format!(" in each of {} communicators ({})", words.len(), some(&words)),
        }
    }

    fn collective(&self, keys: &CollectiveStep) -> String {
        let op: &Collective = keys.op;
        let event = self.first_collective();
        let with = if op.reduces { format!(" with {}", self.noun()) } else { String::new() };
        let input = quoted(&keys.input);
        let output = keys.output.as_ref().map_or_else(|| input.clone(), quoted);
        let root = event.map_or_else(
            || "the root".to_owned(),
            |event| {
                let root = event.first.op.root();
                let members = self.plan.comms.get(event.comm()).map(|comm| comm.members.as_slice()).unwrap_or_default();
                let several = self
                    .events
                    .iter()
                    .filter_map(|event| super::effects::comm_of(event))
                    .collect::<BTreeSet<_>>()
                    .len()
                    > 1;
                match members.get(root) {
                    Some(world) if !several => format!("rank {world}"),
                    _ => format!("rank {root} of each communicator"),
                }
            },
        );
        let count = event.map(CollectiveEvent::count);
        let blocks = |of: &str| {
            let each = count.map_or(String::new(), |count| format!(" of {}", number(count, "element")));
            format!("{of} is cut into one block{each} for each rank")
        };
        let noun = self.noun();
        let what = match (op.rule, op.writers) {
            (Rule::Reduced, Who::All) => {
                format!("every rank ends with the {noun} of all ranks' {input}, element by element, in {output}")
            }
            (Rule::Reduced, Who::Root) => format!(
                "{root} ends with the {noun} of all ranks' {input}, element by element, in {output}; the others only contribute"
            ),
            (Rule::ReducedBlock, _) => format!(
                "{}, and each rank ends with one block in {output}: the first rank with the first",
                blocks(&format!("the {noun} of all ranks' {input}"))
            ),
            (Rule::RootCopy, _) => format!("every rank ends with a copy of {root}'s {input} in {output}"),
            (Rule::RootBlock, _) => format!(
                "{}, and each rank ends with one block in {output}: the first rank with the first",
                blocks(&format!("{root}'s {input}"))
            ),
            (Rule::Concat, Who::All) => {
                format!("every rank ends with all ranks' {input}, one after the other in rank order, in {output}")
            }
            (Rule::Concat, Who::Root) => format!(
                "{root} ends with all ranks' {input}, one after the other in rank order, in {output}; the others only contribute"
            ),
            (Rule::Transpose, _) => format!(
                "{}; block j goes to rank j, where the blocks that arrive stand in rank order in {output}",
                blocks(&format!("every rank's {input}"))
            ),
        };
        let in_place = event.is_some_and(|event| event.calls.iter().any(|call| {
            matches!((call.op.send, call.op.recv), (Some(Region { buf: a, .. }), Some(Region { buf: b, .. })) if call.op.in_place || a == b)
        }));
        let in_place = if in_place { " It works in place: input and output share their memory." } else { "" };
        let zero = if count == Some(0) { " There are no elements, so nothing moves." } else { "" };
        format!("{}{with}{}: {what}.{in_place}{zero}", self.step.op.name, self.over())
    }

    /// The step's messages: number of elements, sender and receiver.
    fn messages(&self, input: Option<&BufferRef>) -> String {
        let mut routes: Vec<(usize, usize, u64)> = Vec::new();
        for event in &self.events {
            let op = match event {
                Event::Sent { call, .. } if input.is_some() => &call.op,
                Event::Received { call, .. } if input.is_none() => &call.op,
                _ => continue,
            };
            let members = self.plan.comms.get(op.comm).map(|comm| comm.members.as_slice()).unwrap_or_default();
            let Some(peer) = usize::try_from(op.peer).ok().and_then(|peer| members.get(peer)) else { continue };
            let (from, to) = if input.is_some() { (op.memory.rank, *peer) } else { (*peer, op.memory.rank) };
            routes.push((from, to, op.size.count));
        }
        routes.sort_unstable();
        let of = input.map_or(String::new(), |input| format!(" of {}", quoted(input)));
        let go = if input.is_some() { ("goes", "go") } else { ("comes", "come") };
        let Some((_, _, count)) = routes.first() else {
            let verb = if input.is_some() { "send" } else { "wait for messages" };
            return format!("{} {verb}{of}", self.who());
        };
        if routes.iter().all(|(_, _, other)| other == count) {
            let verb = if *count == 1 { go.0 } else { go.1 };
            let routes = routes.iter().map(|(from, to, _)| format!("{from} to {to}"));
            return format!("{}{of} {verb} from rank {}", number(*count, "element"), list(routes, LISTED));
        }
        let routes =
            routes.iter().map(|(from, to, count)| format!("{} from {from} to {to}", number(*count, "element")));
        format!("messages{of} {}: {}", go.1, list(routes, LISTED))
    }

    fn computing(&self) -> String {
        let ranks: BTreeSet<usize> = self.events.iter().flat_map(|event| super::frame::ranks_of(event)).collect();
        let ranks: Vec<usize> = ranks.into_iter().collect();
        match ranks.as_slice() {
            [] => "a rank computes".into(),
            [one] => format!("rank {one} computes"),
            all if all.len() == self.plan.n => "every rank computes by itself,".into(),
            some => format!("{} compute by themselves,", ranks_in_words(some)),
        }
    }

    /// What names in an expression stand for.
    fn meanings(&self, expr: &Expr) -> String {
        let named = |name: &str| {
            let mut found = false;
            expr.node.visit(&mut |node| found |= matches!(node, ExprNode::Name(other) if other == name));
            found
        };
        let reads = self.events.iter().flat_map(|event| event.reads()).map(|region| region.buf);
        let whole = reads.map(|buf| &self.plan.buffers[buf].name).any(|name| named(name));
        let mut words = Vec::new();
        if whole {
            words.push("a buffer's name stands for its element i".to_owned());
        }
        if named("t") {
            words.push("t is the round".to_owned());
        }
        if words.is_empty() { String::new() } else { format!(" ({})", list(words.into_iter(), LISTED)) }
    }

    fn who(&self) -> String {
        match &self.step.ranks {
            Ranks::All => "all ranks".into(),
            Ranks::List(ranks) => {
                let ranks: Vec<usize> = ranks.iter().filter_map(|rank| usize::try_from(rank.value).ok()).collect();
                ranks_in_words(&ranks)
            }
            Ranks::Expr(expr) => format!("the ranks with {}", code(&expr.value.text)),
        }
    }

    fn comm(&self) -> String {
        match &self.step.comm {
            StepComm::Comm(name) => code(&name.value),
            StepComm::Groups(groups) => format!("of {} groups", groups.value.len()),
        }
    }

    fn new_comm(&self, new: &CommDef) -> String {
        let name = code(&new.name.value);
        let parts: Vec<String> = self
            .plan
            .comms
            .iter()
            .filter(|comm| comm.name.as_deref() == Some(&new.name.value))
            .map(|comm| ranks_in_words(&comm.members))
            .collect();
        let parts = match parts.len() {
            0 => String::new(),
            1 => format!(": {}", parts[0]),
            n => format!(": {n} communicators ({})", some(&parts)),
        };
        match &new.creation {
            CommCreation::Groups(_) => format!("init: communicator {name} is made{parts}."),
            CommCreation::Split { comm, .. } => format!(
                "split: ranks of {} with the same colour become one communicator, {name}{parts}.",
                code(&comm.value)
            ),
            CommCreation::Shrink { comm, without, .. } => {
                let who = match &without.value {
                    Ranks::List(ranks) => {
                        format!(" without ranks {}", list(ranks.iter().map(|rank| rank.value.to_string()), LISTED))
                    }
                    _ => " without some ranks".into(),
                };
                format!("shrink: {name} is communicator {}{who}{parts}.", code(&comm.value))
            }
            CommCreation::Grow { comm, .. } => {
                format!("grow: {name} is communicator {} with further ranks{parts}.", code(&comm.value))
            }
        }
    }

    fn one_sided(&self, call: &OneSidedCall) -> String {
        match call {
            OneSidedCall::Put { input, output, .. } => format!(
                "put: {} into {} there, whose ranks make no call; a signal follows the data.",
                self.messages(Some(input)),
                quoted(output)
            ),
            OneSidedCall::Signal { peer } => {
                format!("signal: {} send a signal without data to rank {}.", self.who(), amount(peer))
            }
            OneSidedCall::WaitSignal { .. } => format!(
                "wait_signal: {} wait on the stream until signals of other ranks have arrived; then the data that was put before them is there.",
                self.who()
            ),
        }
    }
}

fn comm_words(op: CommOp, comm: &str) -> String {
    match op {
        CommOp::Finalize => {
            format!("outstanding work of communicator {comm} is completed, so that it can be destroyed")
        }
        CommOp::Destroy => format!("communicator {comm} ends"),
        CommOp::Abort => format!("communicator {comm} ends at once; operations that are not done are given up"),
        CommOp::Revoke => format!("communicator {comm} stops its operations and accepts no new ones"),
        CommOp::Suspend => format!("communicator {comm} gives its memory back until it is resumed"),
        CommOp::Resume => format!("communicator {comm} can be used again"),
        CommOp::Init | CommOp::Split | CommOp::Shrink | CommOp::Grow => format!("communicator {comm} is made"),
    }
}

fn quoted(buffer: &BufferRef) -> String {
    match &buffer.slice {
        None => code(&buffer.name),
        Some((from, to)) => {
            let bound = |bound: &Option<Expr>| bound.as_ref().map_or_else(String::new, |expr| expr.text.to_string());
            code(&format!("{}[{}:{}]", buffer.name, bound(from), bound(to)))
        }
    }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// The first ones, and how many more there are.
fn some(words: &[String]) -> String {
    let more = words.len().saturating_sub(LISTED);
    let more = if more > 0 { format!("; … {more} more") } else { String::new() };
    format!("{}{more}", words.iter().take(LISTED).cloned().collect::<Vec<_>>().join("; "))
}

fn amount(number: &NumberByRank) -> String {
    match &number.kind {
        NumberByRankKind::Int(value) => value.to_string(),
        NumberByRankKind::Float(value) => value.to_string(),
        NumberByRankKind::Expr(expr) => code(&expr.text),
        NumberByRankKind::List(_) => "different numbers by rank:".into(),
    }
}
