//! Algorithms that collectives request.
use super::rng::Rng;

/// Algorithms that only all_reduce has.
const TREES: &[&str] =
    &["\"tree\"", "\"tree_simple\"", "\"tree_ll\"", "\"tree,ring\"", "\"^ring\"", "{ prefer = \"tree_simple\" }"];
const RINGS: &[&str] = &[
    "\"ring\"",
    "\"ring_simple\"",
    "\"ring_ll\"",
    "\"ring_ll128\"",
    "\"ring_ll + ^ring_ll128\"",
    "\"^tree\"",
    "\"auto\"",
    "{ prefer = \"ring_simple\" }",
    "{ prefer = \"pat\" }",
    "{ prefer = \"nvls\" }",
];

/// The key for a collective that has a choice of algorithms, in some draws; else nothing.
pub(super) fn key(rng: &mut Rng, op: &str) -> String {
    let has_choice = matches!(op, "all_reduce" | "reduce" | "reduce_scatter" | "broadcast" | "all_gather");
    if !has_choice || !rng.percent(10) {
        return String::new();
    }
    let trees = op == "all_reduce" && rng.percent(50);
    format!(", algorithm = {}", rng.pick(if trees { TREES } else { RINGS }))
}
