//! Removes graphs from a case: captured steps run in their place, or where the graph is launched.
use super::document::Document;
use super::passes::kept;
use super::trial::Trials;
use std::collections::BTreeSet;
use toml::{Table, Value};

/// The places where the steps of a removed graph run instead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Instead {
    /// At the places where they are captured.
    OfCaptures,
    /// At the places where the graph is launched.
    OfLaunches,
}

/// Leaves out a graph at a time, with its launches and releases.
pub(super) fn graphs(trials: &mut Trials<'_>, mut document: Document) -> Document {
    for name in names(&document) {
        let candidates = [Instead::OfCaptures, Instead::OfLaunches].map(|place| without_graph(&document, &name, place));
        if let Some(new) = candidates.into_iter().find_map(|new| kept(trials, new)) {
            document = new;
        }
        if trials.is_out_of_time() {
            break;
        }
    }
    document
}

/// The graphs that steps, or the file for all of its steps, name.
fn names(document: &Document) -> BTreeSet<String> {
    fn of_steps(steps: &[Value], names: &mut BTreeSet<String>) {
        for step in steps.iter().filter_map(Value::as_table) {
            names.extend(graph_of(step).map(str::to_owned));
            of_steps(inner(step), names);
        }
    }
    let mut names = BTreeSet::new();
    names.extend(graph_of(&document.0).map(str::to_owned));
    of_steps(inner(&document.0), &mut names);
    names
}

fn graph_of(table: &Table) -> Option<&str> {
    table.get("graph")?.as_str()
}

fn inner(table: &Table) -> &[Value] {
    table.get("steps").and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

fn op_of(step: &Table) -> &str {
    step.get("op").and_then(Value::as_str).unwrap_or_default()
}

/// The document whose steps run in place of a graph.
fn without_graph(document: &Document, name: &str, place: Instead) -> Document {
    let mut new = document.clone();
    // The file's own key applies to steps without one.
    let default = graph_of(&document.0) == Some(name);
    if default {
        new.0.remove("graph");
    }
    let graph = Graph { name, default };
    let mut captured = Vec::new();
    graph.captured(inner(&document.0), &mut captured);
    let (mut steps, launched) = graph.replaced(inner(&document.0), &captured, place);
    if place == Instead::OfLaunches && !launched {
        steps.extend(captured);
    }
    if let Some(Value::Array(list)) = new.0.get_mut("steps") {
        *list = steps;
    }
    new
}

struct Graph<'a> {
    name: &'a str,
    /// True if launches and releases without a name refer to this graph.
    default: bool,
}

impl Graph<'_> {
    fn is_of(&self, step: &Table) -> bool {
        match graph_of(step) {
            Some(name) => name == self.name,
            None => self.default && matches!(op_of(step), "launch" | "release"),
        }
    }

    /// The steps that are captured, without the graph.
    fn captured(&self, steps: &[Value], found: &mut Vec<Value>) {
        for step in steps.iter().filter_map(Value::as_table) {
            if !self.is_of(step) {
                self.captured(inner(step), found);
            } else if !matches!(op_of(step), "launch" | "release") {
                let mut step = step.clone();
                step.remove("graph");
                found.push(Value::Table(step));
            }
        }
    }

    /// The steps without the graph, and whether one of them was a launch.
    fn replaced(&self, steps: &[Value], captured: &[Value], place: Instead) -> (Vec<Value>, bool) {
        let (mut out, mut launched) = (Vec::new(), false);
        for value in steps {
            let Some(step) = value.as_table() else {
                out.push(value.clone());
                continue;
            };
            let mut step = step.clone();
            if !self.is_of(&step) {
                if !inner(&step).is_empty() {
                    let (steps, inside) = self.replaced(inner(&step), captured, place);
                    launched |= inside;
                    if steps.is_empty() {
                        continue;
                    }
                    step.insert("steps".to_owned(), Value::Array(steps));
                }
                out.push(Value::Table(step));
                continue;
            }
            match (op_of(&step), place) {
                ("launch", Instead::OfLaunches) => {
                    launched = true;
                    out.extend(in_place_of_launch(&step, captured));
                }
                ("launch" | "release", _) | (_, Instead::OfLaunches) => {}
                (_, Instead::OfCaptures) => {
                    step.remove("graph");
                    out.push(Value::Table(step));
                }
            }
        }
        (out, launched)
    }
}

/// The captured steps as often as a launch runs them.
fn in_place_of_launch(launch: &Table, captured: &[Value]) -> Vec<Value> {
    let Some(times) = launch.get("times") else { return captured.to_vec() };
    let mut looped = Table::new();
    looped.insert("op".to_owned(), Value::String("loop".to_owned()));
    looped.insert("times".to_owned(), times.clone());
    looped.insert("steps".to_owned(), Value::Array(captured.to_vec()));
    vec![Value::Table(looped)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str, name: &str, place: Instead) -> String {
        let steps = without_graph(&Document::read(text), name, place).to_string();
        steps
            .lines()
            .filter(|line| line.contains("op"))
            .map(|line| line.trim().to_owned())
            .collect::<Vec<_>>()
            .join("\n")
    }

    const TWO: &str = r#"
steps = [
  { op = "map", expr = "x + 1", out = "x", graph = "g" },
  { op = "group", steps = [{ op = "all_reduce", in = "x", out = "y", graph = "g" }] },
  { op = "broadcast", in = "x", out = "z", graph = "h" },
  { op = "loop", times = 2, steps = [{ op = "launch", graph = "g", times = 3 }] },
  { op = "launch", graph = "h" },
  { op = "release", graph = "g" },
]
"#;

    #[test]
    fn steps_run_where_they_were_captured() {
        assert_eq!(names(&Document::read(TWO)), BTreeSet::from(["g".to_owned(), "h".to_owned()]));
        let expected = r#"{ op = "map", expr = "x + 1", out = "x" },
{ op = "group", steps = [{ op = "all_reduce", in = "x", out = "y" }] },
{ op = "broadcast", in = "x", out = "z", graph = "h" },
{ op = "launch", graph = "h" },"#;
        assert_eq!(without(TWO, "g", Instead::OfCaptures), expected);
    }

    #[test]
    fn steps_run_where_they_were_launched() {
        let expected = r#"{ op = "map", expr = "x + 1", out = "x", graph = "g" },
{ op = "group", steps = [{ op = "all_reduce", in = "x", out = "y", graph = "g" }] },
{ op = "loop", times = 2, steps = [{ op = "launch", graph = "g", times = 3 }] },
{ op = "broadcast", in = "x", out = "z" },
{ op = "release", graph = "g" },"#;
        assert_eq!(without(TWO, "h", Instead::OfLaunches), expected);
        let rounds = without(TWO, "g", Instead::OfLaunches);
        let inner = r#"{ op = "loop", times = 3, steps = [{ op = "map", expr = "x + 1", out = "x" }, "#;
        assert!(rounds.contains(inner), "{rounds}");
        let unnamed = "graph = \"g\"\nsteps = [\n  { op = \"all_reduce\", in = \"x\", out = \"y\" },\n  { op = \"launch\" },\n]\n";
        assert_eq!(without(unnamed, "g", Instead::OfLaunches), "{ op = \"all_reduce\", in = \"x\", out = \"y\" },");
    }
}
