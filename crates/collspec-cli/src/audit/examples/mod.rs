//! For each fault a scenario that catches it, as shown in the audit's advice. The tests of the faults run the same scenarios.
pub mod algorithms;
pub mod communicators;
pub mod deaths;
pub mod graphs;
pub mod numbers;
pub mod order;
pub mod situations;
pub mod structure;
pub mod transport;
pub mod windows;

use super::FaultOrFlaw;

/// The id of a fault, and a scenario that passes without it and fails with it.
pub type Example = (&'static str, &'static str);

/// For each flaw of the judge, a fault whose scenario exposes it: with some fault, a judge with the flaw passes this scenario.
const EXPOSING: &[(&str, &str)] = &[
    ("J01", "F17"),
    ("J02", "F06"),
    ("J03", "F29"),
    ("J04", "F49-f32-sum"),
    ("J05", "F03"),
    ("J06", "F20"),
    ("J07", "F28"),
    ("J08", "F17b"),
    ("J09", "F64"),
    ("J09b", "F11"),
    ("J10", "F38"),
];

/// A scenario file that catches a fault; for a flaw of the judge one that, with some fault, exposes it.
pub fn scenario_for(item: FaultOrFlaw) -> Option<String> {
    let id = match item {
        FaultOrFlaw::Fault(fault) => fault.entry().id,
        FaultOrFlaw::Flaw(_) => EXPOSING.iter().find(|(flaw, _)| *flaw == item.id())?.1,
    };
    let of = |examples: &[Example]| examples.iter().find(|(fault, _)| *fault == id).map(|(_, text)| *text);
    let in_one_line = of(transport::EXAMPLES).or_else(|| of(numbers::EXAMPLES));
    let text = in_one_line.map(|text| text.replace("; ", "\n").replace('\'', "\""));
    let text = text.or_else(|| {
        of(order::EXAMPLES)
            .or_else(|| of(structure::EXAMPLES))
            .or_else(|| of(communicators::EXAMPLES))
            .or_else(|| of(algorithms::EXAMPLES))
            .or_else(|| of(graphs::EXAMPLES))
            .or_else(|| of(windows::EXAMPLES))
            .or_else(|| of(deaths::EXAMPLES))
            .map(str::to_owned)
    });
    let text = text.or_else(|| numbers::of_member(id).map(str::to_owned)).or_else(|| situations::of_member(id))?;
    Some(format!("{}\n", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_and_every_flaw_has_a_scenario() {
        let without: Vec<&str> =
            FaultOrFlaw::all().filter(|item| scenario_for(*item).is_none()).map(FaultOrFlaw::id).collect();
        assert_eq!(without, Vec::<&str>::new());
    }
}
