//! The table itself.
use super::*;

macro_rules! keys {
    ($($k:literal),* $(,)?) => { &["in", "out", "comm", "groups", "stream", "after", "graph", "error", $($k),*] };
}

use Extent::{One, PerRank};

/// The collective of NCCL that implements `all_reduce` and `barrier`.
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
    bandwidth: Bandwidth::TwiceOthers,
    algorithms: &["Ring", "Tree", "CollnetChain", "CollnetDirect", "NVLS", "NVLSTree", "SingleTree"],
};

/// The collective of NCCL that implements `broadcast` and, called once for each rank, `all_gather_v`.
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
    bandwidth: Bandwidth::Whole,
    algorithms: &["Ring", "SingleTree"],
};

/// The collective of NCCL that implements `reduce` and, called once for each rank, `reduce_scatter_v`.
pub const REDUCE: Collective = Collective {
    call: NcclCall::Reduce,
    reduces: true,
    rooted: true,
    send: One,
    recv: One,
    readers: Who::All,
    writers: Who::Root,
    in_place: InPlace::Same,
    rule: Rule::Reduced,
    bandwidth: Bandwidth::Whole,
    algorithms: &["Ring", "SingleTree"],
};

/// `send`, which the plan makes of other steps too.
const SEND: Op =
    op("send", Kind::Send, &["in", "peer", "comm", "groups", "stream", "after", "graph", "error", "null_pointers"]);

/// `group`, which the form `grouped` puts around steps.
pub const GROUP: Op = op("group", Kind::Group, &["steps", "error"]);

/// `loop`, which the form `captured` puts around steps.
pub const LOOP: Op = op("loop", Kind::Loop, &["steps"]);

/// `launch`, which the form `captured` inserts after steps.
pub const LAUNCH: Op = op("launch", Kind::Graph(GraphOp::Launch), &["graph", "stream", "after"]);

/// `release`, which the form `captured` inserts after launches.
pub const RELEASE: Op = op("release", Kind::Graph(GraphOp::Release), &["graph"]);

/// Every operation of the language.
pub static TABLE: &[Op] = &[
    collective("all_reduce", keys!("reduce", "scalar", "in_place", "null_pointers", "algorithm"), ALL_REDUCE),
    collective("reduce", keys!("reduce", "scalar", "root", "in_place", "null_pointers", "algorithm"), REDUCE),
    collective("broadcast", keys!("root", "count", "dtype", "in_place", "null_pointers", "algorithm"), BROADCAST),
    collective(
        "all_gather",
        keys!("in_place", "null_pointers", "algorithm"),
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
            bandwidth: Bandwidth::Others,
            algorithms: &["Ring", "CollnetDirect", "NVLS", "PAT"],
        },
    ),
    collective(
        "gather",
        keys!("root", "in_place", "null_pointers", "algorithm"),
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
            bandwidth: Bandwidth::Others,
            algorithms: &[],
        },
    ),
    collective(
        "reduce_scatter",
        keys!("reduce", "scalar", "in_place", "null_pointers", "algorithm"),
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
            bandwidth: Bandwidth::Others,
            algorithms: &["Ring", "CollnetDirect", "NVLS", "PAT"],
        },
    ),
    collective(
        "scatter",
        keys!("root", "count", "dtype", "in_place", "null_pointers", "algorithm"),
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
            bandwidth: Bandwidth::Others,
            algorithms: &[],
        },
    ),
    collective(
        "all_to_all",
        keys!("null_pointers", "algorithm"),
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
            bandwidth: Bandwidth::Others,
            algorithms: &[],
        },
    ),
    op("all_gather_v", Kind::Composite(Composite::AllGatherV), keys!("null_pointers")),
    op("all_to_all_v", Kind::Composite(Composite::AllToAllV), keys!("counts", "null_pointers")),
    op(
        "reduce_scatter_v",
        Kind::Composite(Composite::ReduceScatterV),
        keys!("counts", "reduce", "scalar", "null_pointers"),
    ),
    op("barrier", Kind::Composite(Composite::Barrier), &["comm", "groups", "stream", "after", "graph", "error"]),
    SEND,
    op(
        "recv",
        Kind::Recv,
        &["out", "peer", "count", "dtype", "comm", "groups", "stream", "after", "graph", "error", "null_pointers"],
    ),
    op("send_recv", Kind::SendRecv, keys!("peer", "to", "from", "null_pointers")),
    op("map", Kind::Map, &["out", "expr", "count", "dtype", "stream", "after", "graph", "comm", "groups"]),
    GROUP,
    LOOP,
    op("wait", Kind::Host(Host::Wait), &["stream", "error"]),
    op("sleep", Kind::Host(Host::Sleep), &["seconds"]),
    op("exit", Kind::Host(Host::Exit), &["status"]),
    op("init", Kind::Comm(CommOp::Init), &["new", "groups", "ids", "config", "error"]),
    op("split", Kind::Comm(CommOp::Split), &["new", "comm", "color", "key", "config", "error"]),
    op("finalize", Kind::Comm(CommOp::Finalize), &["comm", "error"]),
    op("destroy", Kind::Comm(CommOp::Destroy), &["comm", "error"]),
    op("abort", Kind::Comm(CommOp::Abort), &["comm", "error"]),
    op("shrink", Kind::Comm(CommOp::Shrink), &["new", "comm", "without", "abort", "config", "error"]),
    op("grow", Kind::Comm(CommOp::Grow), &["new", "comm", "with", "config", "error"]),
    op("revoke", Kind::Comm(CommOp::Revoke), &["comm", "error"]),
    op("suspend", Kind::Comm(CommOp::Suspend), &["comm", "error"]),
    op("resume", Kind::Comm(CommOp::Resume), &["comm", "error"]),
    op(
        "put",
        Kind::OneSided(OneSided::Put),
        &["in", "out", "peer", "context", "signal_index", "flags", "comm", "groups", "stream", "after", "error"],
    ),
    op(
        "signal",
        Kind::OneSided(OneSided::Signal),
        &["peer", "context", "signal_index", "flags", "comm", "groups", "stream", "after", "error"],
    ),
    op(
        "wait_signal",
        Kind::OneSided(OneSided::WaitSignal),
        &["peer", "signals", "context", "signal_index", "comm", "groups", "stream", "after", "error"],
    ),
    LAUNCH,
    RELEASE,
    op("register", Kind::Registration(RegistrationOp::Register), &["in", "register", "comm", "groups", "error"]),
    op("deregister", Kind::Registration(RegistrationOp::Deregister), &["in", "comm", "groups", "error"]),
];

/// The entry of that name.
pub fn find(name: &str) -> Option<&'static Op> {
    TABLE.iter().find(|op| op.name == name)
}

const fn op(name: &'static str, kind: Kind, keys: &'static [&'static str]) -> Op {
    Op { name, kind, keys }
}
const fn collective(name: &'static str, keys: &'static [&'static str], c: Collective) -> Op {
    op(name, Kind::Collective(c), keys)
}
