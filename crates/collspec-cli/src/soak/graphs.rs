//! Steps that are captured and launched.
use super::program::World;
use super::steps;

/// Captures a few steps, launches them, and sometimes launches them again after a step in between.
pub(super) fn captured(world: &mut World) -> Vec<String> {
    let graph = format!("g{}", world.name());
    let mut lines = vec!["{ op = \"wait\" }".to_owned()];
    let captured: Vec<String> = (0..world.rng.between(1, 3)).filter_map(|_| steps::plain(world)).collect();
    if captured.is_empty() {
        return Vec::new();
    }
    lines.extend(captured.iter().map(|step| with_graph(step, &graph)));
    match world.rng.below(4) {
        0 => lines.push(format!("{{ op = \"launch\", graph = \"{graph}\", times = {} }}", world.rng.between(2, 4))),
        1 => {
            lines.push(format!("{{ op = \"launch\", graph = \"{graph}\" }}"));
            lines.extend(steps::plain(world));
            lines.push(format!("{{ op = \"launch\", graph = \"{graph}\" }}"));
        }
        _ => lines.push(format!("{{ op = \"launch\", graph = \"{graph}\" }}")),
    }
    lines.push("{ op = \"wait\" }".to_owned());
    lines.push(format!("{{ op = \"release\", graph = \"{graph}\" }}"));
    lines
}

/// Adds the graph to a step, so that it is captured.
fn with_graph(step: &str, graph: &str) -> String {
    match step.strip_suffix(" }") {
        Some(keys) => format!("{keys}, graph = \"{graph}\" }}"),
        None => step.to_owned(),
    }
}
