//! The table itself.
use super::*;

macro_rules! keys {
    ($($k:literal),* $(,)?) => { &["in", "out", "comm", "groups", "stream", "after", "graph", "error", $($k),*] };
}

fn shared(n: f64) -> f64 {
    (n - 1.0) / n
}
fn twice_shared(n: f64) -> f64 {
    2.0 * (n - 1.0) / n
}
fn one(_: f64) -> f64 {
    1.0
}

use Extent::{One, PerRank};

/// NCCL's collective behind `all_reduce` and `barrier`.
pub const ALL_REDUCE: Collective = Collective {
    call: NcclCall::AllReduce,
    reduces: true,
    rooted: false,
    send: One,
    recv: One,
    readers: Who::All,
    writers: Who::All,
    in_place: InPlace::Same,
    rule: Rule::Reduced,
    algorithms: &["Ring", "Tree", "CollnetChain", "CollnetDirect", "NVLS", "NVLSTree", "SingleTree"],
    bandwidth: twice_shared,
};

/// NCCL's collective behind `broadcast` and, once for each rank, `all_gather_v`.
pub const BROADCAST: Collective = Collective {
    call: NcclCall::Broadcast,
    reduces: false,
    rooted: true,
    send: One,
    recv: One,
    readers: Who::Root,
    writers: Who::All,
    in_place: InPlace::Same,
    rule: Rule::RootCopy,
    algorithms: &["Ring", "SingleTree"],
    bandwidth: one,
};

/// `send`, which the plan makes of other steps too.
pub const SEND: Op = op(
    "send",
    Kind::Send,
    &["in", "peer", "comm", "groups", "stream", "after", "graph", "error", "null_pointers"],
    "sends `in` to `peer`",
);

/// `group`, which the form `grouped` puts around steps.
pub const GROUP: Op = op("group", Kind::Group, &["steps", "error"], "one NCCL group call of its steps");

/// Every operation of the language.
pub static TABLE: &[Op] = &[
    collective(
        "all_reduce",
        keys!("reduce", "scalar", "in_place", "null_pointers"),
        "every rank gets the reduction of all inputs",
        ALL_REDUCE,
    ),
    collective(
        "reduce",
        keys!("reduce", "scalar", "root", "in_place", "null_pointers"),
        "the root gets the reduction of all inputs",
        Collective {
            call: NcclCall::Reduce,
            reduces: true,
            rooted: true,
            send: One,
            recv: One,
            readers: Who::All,
            writers: Who::Root,
            in_place: InPlace::Same,
            rule: Rule::Reduced,
            algorithms: &["Ring", "SingleTree"],
            bandwidth: one,
        },
    ),
    collective("broadcast", keys!("root", "in_place", "null_pointers"), "every rank gets the root's input", BROADCAST),
    collective(
        "all_gather",
        keys!("in_place", "null_pointers"),
        "every rank gets all inputs in rank order",
        Collective {
            call: NcclCall::AllGather,
            reduces: false,
            rooted: false,
            send: One,
            recv: PerRank,
            readers: Who::All,
            writers: Who::All,
            in_place: InPlace::SendInRecv,
            rule: Rule::Concat,
            algorithms: &["Ring", "CollnetDirect", "NVLS", "PAT"],
            bandwidth: shared,
        },
    ),
    collective(
        "gather",
        keys!("root", "in_place", "null_pointers"),
        "the root gets all inputs in rank order",
        Collective {
            call: NcclCall::Gather,
            reduces: false,
            rooted: true,
            send: One,
            recv: PerRank,
            readers: Who::All,
            writers: Who::Root,
            in_place: InPlace::SendInRecv,
            rule: Rule::Concat,
            algorithms: &[],
            bandwidth: shared,
        },
    ),
    collective(
        "reduce_scatter",
        keys!("reduce", "scalar", "in_place", "null_pointers"),
        "rank r gets block r of the reduction",
        Collective {
            call: NcclCall::ReduceScatter,
            reduces: true,
            rooted: false,
            send: PerRank,
            recv: One,
            readers: Who::All,
            writers: Who::All,
            in_place: InPlace::RecvInSend,
            rule: Rule::ReducedBlock,
            algorithms: &["Ring", "CollnetDirect", "NVLS", "PAT"],
            bandwidth: shared,
        },
    ),
    collective(
        "scatter",
        keys!("root", "in_place", "null_pointers"),
        "rank r gets block r of the root's input",
        Collective {
            call: NcclCall::Scatter,
            reduces: false,
            rooted: true,
            send: PerRank,
            recv: One,
            readers: Who::Root,
            writers: Who::All,
            in_place: InPlace::RecvInSend,
            rule: Rule::RootBlock,
            algorithms: &[],
            bandwidth: shared,
        },
    ),
    collective(
        "all_to_all",
        keys!("null_pointers"),
        "block j of rank r arrives as block r of rank j",
        Collective {
            call: NcclCall::AlltoAll,
            reduces: false,
            rooted: false,
            send: PerRank,
            recv: PerRank,
            readers: Who::All,
            writers: Who::All,
            in_place: InPlace::Never,
            rule: Rule::Transpose,
            algorithms: &[],
            bandwidth: shared,
        },
    ),
    op(
        "all_gather_v",
        Kind::Composite(Composite::AllGatherV),
        keys!("null_pointers"),
        "as all_gather, with inputs of different length",
    ),
    op(
        "all_to_all_v",
        Kind::Composite(Composite::AllToAllV),
        keys!("counts", "null_pointers"),
        "as all_to_all, with pieces of different length",
    ),
    op(
        "barrier",
        Kind::Composite(Composite::Barrier),
        &["comm", "groups", "stream", "after", "graph", "error"],
        "an all_reduce of one element, then `wait`",
    ),
    SEND,
    op(
        "recv",
        Kind::Recv,
        &["out", "peer", "count", "dtype", "comm", "groups", "stream", "after", "graph", "error", "null_pointers"],
        "receives `out` from `peer`",
    ),
    op("send_recv", Kind::SendRecv, keys!("peer", "to", "from", "null_pointers"), "a send and a receive in one group"),
    op(
        "map",
        Kind::Map,
        &["out", "expr", "count", "dtype", "stream", "after", "graph", "comm", "groups"],
        "element i of `out` from an expression, on the rank itself",
    ),
    GROUP,
    op("loop", Kind::Loop, &["steps"], "its steps, one after the other, `times` over"),
    op("wait", Kind::Host(Host::Wait), &["stream"], "the host waits for the rank's work, or that of `stream`"),
    op("sleep", Kind::Host(Host::Sleep), &["seconds"], "the host sleeps"),
    op("exit", Kind::Host(Host::Exit), &[], "the process ends"),
    op("init", Kind::Comm(CommOp::Init), &["new", "groups", "config", "error"], "makes communicators by unique ids"),
    op("split", Kind::Comm(CommOp::Split), &["new", "comm", "color", "key", "config", "error"], "splits `comm`"),
    op("finalize", Kind::Comm(CommOp::Finalize), &["comm", "error"], "flushes and ends the use of `comm`"),
    op("destroy", Kind::Comm(CommOp::Destroy), &["comm", "error"], "frees `comm`"),
    op("abort", Kind::Comm(CommOp::Abort), &["comm", "error"], "frees `comm` and drops what it does"),
    later(
        "put",
        &["in", "out", "peer", "comm", "groups", "stream", "after", "graph", "error"],
        "writes `out` on the peer, a registered window",
    ),
    later("signal", &["peer", "comm", "groups", "stream", "after", "graph", "error"], "signals the peer"),
    later(
        "wait_signal",
        &["peer", "signals", "comm", "groups", "stream", "after", "graph", "error"],
        "waits for signals of the peer",
    ),
    later("launch", &["graph", "stream", "after"], "runs a graph"),
    later("shrink", &["new", "comm", "without", "abort", "config", "error"], "a communicator without some ranks"),
    later("grow", &["new", "comm", "with", "config", "error"], "a communicator with more ranks"),
    later("revoke", &["comm", "error"], "ends what `comm` does"),
    later("register", &["in", "register", "comm", "error"], "registers a buffer"),
    later("deregister", &["in", "comm", "error"], "ends a registration"),
];

/// The entry of that name.
pub fn find(name: &str) -> Option<&'static Op> {
    TABLE.iter().find(|op| op.name == name)
}

const fn op(name: &'static str, kind: Kind, keys: &'static [&'static str], doc: &'static str) -> Op {
    Op { name, kind, keys, doc, missing: None }
}
const fn collective(name: &'static str, keys: &'static [&'static str], doc: &'static str, c: Collective) -> Op {
    op(name, Kind::Collective(c), keys, doc)
}
const fn later(name: &'static str, keys: &'static [&'static str], doc: &'static str) -> Op {
    Op { name, kind: Kind::Later, keys, doc, missing: Some("not yet supported") }
}
