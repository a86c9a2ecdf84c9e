//! The operations that a case used of the library, with their types, sizes and ranks.
use crate::num::DType;
use crate::plan::{Event, Plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An operation of one type between the ranks of communicators of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedOperation {
    /// Its word in the language.
    pub operation: String,
    /// The element type of NCCL's call; that of a step's inputs may be another after a `map`.
    #[serde(rename = "type")]
    pub dtype: String,
    /// Number of ranks of the communicator.
    pub ranks: usize,
    /// Number of calls. A message counts once, where it is sent.
    pub calls: u64,
    /// Bytes of the smallest and of the largest call, each measured by the larger of what a rank passes and what it receives.
    pub bytes: (u64, u64),
}

/// Word, type and ranks.
type Key<'a> = (&'a str, DType, usize);

/// The operations of a plan, by word, type and ranks.
pub(super) fn used_operations(plan: &Plan) -> Vec<UsedOperation> {
    let mut all: BTreeMap<Key<'_>, (u64, (u64, u64))> = BTreeMap::new();
    for event in &plan.events {
        let (comm, dtype, elements) = match event {
            Event::Collective(collective) => {
                let sent = collective.sends().flatten().map(|region| region.len).max();
                let received = collective.recvs().flatten().map(|write| write.region.len).max();
                (collective.comm(), collective.dtype(), sent.max(received).unwrap_or(0))
            }
            Event::Sent { call, .. } => (call.op.comm, call.op.size.dtype, call.op.memory.len),
            Event::Received { .. } | Event::Map(_) | Event::Undefined { .. } => continue,
        };
        let label = plan.steps.get(event.step() as usize).map_or("", |step| &step.label);
        let operation = operation_of(label).unwrap_or(label);
        let ranks = plan.comms.get(comm).map_or(0, |comm| comm.members.len());
        let bytes = elements.saturating_mul(dtype.size() as u64);
        let (calls, range) = all.entry((operation, dtype, ranks)).or_insert((0, (bytes, bytes)));
        *calls += 1;
        *range = (range.0.min(bytes), range.1.max(bytes));
    }
    let entry = |((operation, dtype, ranks), (calls, bytes)): (Key<'_>, _)| UsedOperation {
        operation: operation.to_owned(),
        dtype: dtype.name().to_owned(),
        ranks,
        calls,
        bytes,
    };
    all.into_iter().map(entry).collect()
}

/// The operation in a step's label, without its round or its graph: `all_reduce` of `step 3 (all_reduce, round 2) in step 4
/// (launch)`.
pub fn operation_of(step: &str) -> Option<&str> {
    let (_, name) = step.split_once('(')?;
    name.split([',', ')']).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::test_case::planned_case;

    #[test]
    fn an_operation_stays_the_same_in_rounds_and_graphs() {
        for (step, operation) in [
            ("step 3 (all_reduce)", Some("all_reduce")),
            ("step 2.1 (all_reduce, round 12)", Some("all_reduce")),
            ("step 1 (all_reduce) in step 2 (launch)", Some("all_reduce")),
            ("step 1 (map) in the launch of `g` after the last step", Some("map")),
            ("the registration", None),
        ] {
            assert_eq!(operation_of(step), operation, "{step}");
        }
    }

    #[test]
    fn a_type_that_a_map_makes_is_that_of_the_calls_that_use_it() {
        let case = planned_case(
            "world_size = 4\ninputs.x = { each = \"rank\", count = 8, dtype = \"bf16\" }\n\
             comms.half = { color = \"rank / 2\" }\nsteps = [\n\
             { op = \"all_gather\", in = \"x\", out = \"all\" },\n\
             { op = \"map\", expr = \"x + 1\", out = \"wide\", dtype = \"f32\" },\n\
             { op = \"all_reduce\", in = \"wide\", out = \"sum\", times = 3 },\n\
             { op = \"send_recv\", comm = \"half\", in = \"x\", out = \"moved\", to = \"(rank + 1) % 2\", from = \"(rank + 1) % 2\" },\n]\n",
        );
        let found: Vec<_> = used_operations(&case.plan)
            .into_iter()
            .map(|used| (used.operation, used.dtype, used.ranks, used.calls, used.bytes))
            .collect();
        let used = |operation: &str, dtype: &str, ranks, calls, bytes| {
            (operation.to_owned(), dtype.to_owned(), ranks, calls, (bytes, bytes))
        };
        assert_eq!(
            found,
            [
                used("all_gather", "bf16", 4, 1, 64),
                used("all_reduce", "f32", 4, 3, 32),
                used("send_recv", "bf16", 2, 4, 16)
            ]
        );
    }
}
