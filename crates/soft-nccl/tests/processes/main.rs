//! Ranks in several processes: this program starts itself again as `part`, with a role.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
#[path = "../common/mod.rs"]
mod common;
mod failures;
mod operations;
mod waiting;
use common::parts::{Orders, Part};
use common::unique_id;
use nccl_sys::{ncclDataType_t, ncclRedOp_t, ncclResult_t};

const OK: ncclResult_t = ncclResult_t::Success;
const I32: ncclDataType_t = ncclDataType_t::Int32;
const SUM: ncclRedOp_t = ncclRedOp_t::Sum;

/// The role of this process. Started as a plain test it does nothing.
#[test]
fn part() {
    let Some(orders) = Orders::own() else { return };
    let (n, ranks, id) = (orders.number("n"), orders.ranks(), orders.id());
    match orders.text("role") {
        "suite" => operations::whole_suite(id, n, &ranks, &orders),
        "split" => operations::splits(id, n, &ranks),
        "big" => operations::big(id, n, &ranks),
        "many" => operations::many(id, n, &ranks, orders.number("times")),
        "speed" => operations::speed(id, n, &ranks),
        "mismatch" => waiting::mismatch(id, n, &ranks),
        "left" => waiting::left(id, n, &ranks),
        "eager" => waiting::eager(id, &ranks),
        "send_first" => waiting::send_first(id, &ranks),
        "hoard" => waiting::hoard(id, &ranks),
        "survive" => failures::survive(id, n, &ranks),
        "quit" => failures::quit(id, n, &ranks),
        "refused" => failures::refused(id, &ranks, &orders),
        role => panic!("no role {role}"),
    }
}

/// Runs a role in several other processes; this one only made the id.
fn run(role: &str, parts: &[&[usize]], more: &str) {
    let n = parts.iter().map(|ranks| ranks.len()).sum();
    let id = unique_id();
    let parts: Vec<Part> = parts.iter().map(|ranks| Part::start(role, &id, n, ranks, more)).collect();
    parts.into_iter().for_each(Part::done);
}
