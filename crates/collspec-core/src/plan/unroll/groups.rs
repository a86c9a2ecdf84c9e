//! Checks what a group contains, including its inner groups: either operations, or steps that create communicators, or steps that end
//! them; and each communicator takes part in at most one step of the group that creates or ends communicators. NCCL begins the calls
//! of a group together at its end, in an undocumented order, and does not say what other mixtures do.
use super::super::comms::{Named, Use};
use super::super::types::StepId;
use super::{Member, Unroll};
use crate::ops::{CommOp, Kind};
use crate::scenario::{Diagnostic, Span, Step, StepComm, StepKind};
use std::collections::{BTreeSet, HashMap};

/// The outermost group that is open.
pub(super) struct OpenGroup {
    span: Span,
    /// The kind of the steps so far, and the first of them.
    holds: Option<(Holds, Span)>,
    /// The communicators that a step makes, ends, or makes another one of.
    changed: HashMap<String, Span>,
    /// For each rank: true if its communicators so far are non-blocking, and the first step that uses one.
    nonblocking: HashMap<usize, (bool, Span)>,
    /// True if the group should fail.
    fails: bool,
    /// The calls of ranks on non-blocking communicators.
    calls: Vec<NonblockingCall>,
    /// The names of communicators that the group makes, with what each stood for before.
    made: Vec<(String, Option<Named>)>,
    /// The ranks on which a call that makes one of them is to fail.
    unmade: BTreeSet<usize>,
}

/// A rank's call on a non-blocking communicator that has a name.
struct NonblockingCall {
    comm: String,
    world: usize,
    op: Option<CommOp>,
    at: Span,
    fails: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Operations,
    MakesCommunicators,
    EndsCommunicators,
}

impl Holds {
    fn of(kind: &Kind) -> Option<Self> {
        match kind {
            Kind::Group | Kind::Loop => None,
            Kind::Comm(CommOp::Init | CommOp::Split | CommOp::Shrink | CommOp::Grow) => Some(Self::MakesCommunicators),
            Kind::Comm(_) => Some(Self::EndsCommunicators),
            _ => Some(Self::Operations),
        }
    }

    fn phrase(self) -> &'static str {
        match self {
            Self::Operations => "is an operation",
            Self::MakesCommunicators => "makes a communicator",
            Self::EndsCommunicators => "ends a communicator",
        }
    }
}

/// The communicators that a step makes, ends, or makes another one of.
fn changed(step: &Step) -> Vec<&str> {
    match (&step.kind, &step.comm) {
        (StepKind::NewComm(new), _) => [new.name.value.as_str()].into_iter().chain(new.creation.parent()).collect(),
        (StepKind::Comm(_), StepComm::Comm(name)) => vec![&name.value],
        _ => Vec::new(),
    }
}

impl<'a> Unroll<'a> {
    /// Begins a group; true if it is the outermost.
    pub(super) fn open_group(&mut self, step: &Step) -> bool {
        if let Some(group) = &mut self.group {
            group.fails |= step.error.is_some();
            return false;
        }
        self.group = Some(OpenGroup {
            span: step.span,
            holds: None,
            changed: HashMap::new(),
            nonblocking: HashMap::new(),
            fails: step.error.is_some(),
            calls: Vec::new(),
            made: Vec::new(),
            unmade: BTreeSet::new(),
        });
        true
    }

    /// Records that a step of a group is about to make communicators of this name, which is to fail on some ranks.
    pub(super) fn note_made(&mut self, name: &str, failing: impl Iterator<Item = usize>) {
        if let Some(group) = &mut self.group {
            group.made.push((name.to_owned(), self.program.comms.named(name)));
            group.unmade.extend(failing);
        }
    }

    /// Ends the outermost group. If it fails on a rank, all its non-blocking communicators keep the error, and none is made there.
    pub(super) fn close_group(&mut self, id: StepId) {
        let Some(group) = self.group.take() else { return };
        for (name, before) in &group.made {
            let unmade = (0..self.program.n).filter(|world| group.unmade.contains(world) || self.fails(id, *world));
            self.program.comms.unmake(name, before.as_ref(), &unmade.collect::<Vec<_>>());
        }
        for call in &group.calls {
            let fails = |other: &NonblockingCall| other.world == call.world && other.fails;
            if self.fails(id, call.world) || group.calls.iter().any(fails) {
                self.program.comms.keep_failure(&call.comm, call.world, call.op, call.at);
            }
        }
    }

    /// Records calls that fail on non-blocking communicators, which keep the error. A communicator that has lost a rank
    /// reports the death.
    pub(super) fn note_failures(&mut self, step: &Step, id: StepId, members: &[Member<'a>]) {
        let StepComm::Comm(name) = &step.comm else { return };
        let op = match step.op.kind {
            Kind::Collective(_) | Kind::Composite(_) | Kind::Send | Kind::Recv | Kind::OneSided(_) => None,
            Kind::Comm(op @ (CommOp::Finalize | CommOp::Suspend | CommOp::Resume)) => Some(op),
            _ => return,
        };
        let changes = matches!(op, Some(CommOp::Suspend | CommOp::Resume));
        for Member { world, comm, .. } in members {
            if !self.program.comms.is_nonblocking(*comm, *world) || self.has_lost_a_rank(*comm) {
                continue;
            }
            // What a suspend is refused for without regard to its own state, such as shared resources, is not kept.
            let standing = self.program.comms.standing(&name.value, *world);
            let is_kept = !changes || standing.is_some_and(|standing| standing.allows(&step.op.kind) != Use::Fine);
            let fails = self.fails(id, *world) && is_kept;
            match &mut self.group {
                Some(group) => {
                    group.calls.push(NonblockingCall {
                        comm: name.value.clone(),
                        world: *world,
                        op,
                        at: step.span,
                        fails,
                    });
                }
                None if fails => self.program.comms.keep_failure(&name.value, *world, op, step.span),
                None => {}
            }
        }
    }

    /// Refuses a step that cannot be in the open group together with those before it.
    ///
    /// # Errors
    ///
    /// The diagnostic names the step, and the one that it conflicts with.
    pub(super) fn check_in_group(&mut self, step: &Step) -> Result<(), Diagnostic> {
        let (Some(group), Some(holds)) = (&mut self.group, Holds::of(&step.op.kind)) else { return Ok(()) };
        if self.registers && holds != Holds::Operations {
            let text = "memory is registered with communicators when they are made, and deregistered before they end, neither of \
                        which can be in a group";
            return Err(Diagnostic::new(step.span, text)
                .related(group.span, "the group")
                .help("in a program that registers memory, move this step out of the group"));
        }
        let (first, at) = *group.holds.get_or_insert((holds, step.span));
        if first != holds {
            let text = format!(
                "`{}` {}, and another step of its group {}: a group holds either operations, or steps that make communicators, or \
                 steps that end them",
                step.op.name,
                holds.phrase(),
                first.phrase()
            );
            return Err(Diagnostic::new(step.span, text)
                .related(at, "the other step")
                .help("end the group before this step, and begin another one"));
        }
        for name in changed(step) {
            if let Some(other) = group.changed.insert(name.to_owned(), step.span) {
                let text =
                    format!("two steps of a group make or end the communicator `{name}`, or make another one of it");
                return Err(Diagnostic::new(step.span, text)
                    .related(other, "the other step")
                    .help("the calls of a group begin together when it ends: end the group between the two steps"));
            }
        }
        Ok(())
    }

    /// Refuses blocking and non-blocking communicators in one group that creates or ends them, unless both this step and the group
    /// should fail. NCCL accepts operations on both.
    ///
    /// # Errors
    ///
    /// The step, and one on a communicator of the other kind.
    pub(super) fn check_blocking_in_group(
        &mut self,
        step: &Step,
        id: StepId,
        members: &[Member<'a>],
    ) -> Result<(), Diagnostic> {
        if matches!(Holds::of(&step.op.kind), None | Some(Holds::Operations)) || self.program.lenient() {
            return Ok(());
        }
        let comms: Vec<(usize, usize)> = match &step.kind {
            // Calls on a parent count as the parent's.
            StepKind::NewComm(new) if new.creation.parent().is_none() => {
                let made = self.program.comms.of_name(&new.name.value);
                let of = |member: &Member<'a>| Some((member.world, made.get(member.world).copied().flatten()?.0));
                members.iter().filter_map(of).collect()
            }
            _ => members.iter().map(|member| (member.world, member.comm)).collect(),
        };
        for (world, comm) in comms {
            let (own, fails) = (self.program.comms.is_nonblocking(comm, world), self.fails(id, world));
            let Some(group) = &mut self.group else { return Ok(()) };
            let (first, at) = *group.nonblocking.entry(world).or_insert((own, step.span));
            if first != own && !(fails && group.fails) {
                return Err(Diagnostic::new(step.span, "blocking and non-blocking communicators are in one group")
                    .related(at, "the other step")
                    .help("NCCL refuses this call and so the group: if that is meant, write `error = \"invalid_argument\"` on both"));
            }
        }
        Ok(())
    }
}
