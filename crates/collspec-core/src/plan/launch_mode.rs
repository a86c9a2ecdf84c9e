//! Warns of NCCL_LAUNCH_MODE = GROUP where ranks would wait for each other in it. In that mode NCCL lets the ranks of a communicator in one
//! process launch their kernels together: a launch waits for the one of the same number on every other rank, and a rank that waits for
//! its kernel, or connects to another rank before its launch, may wait for a call that the other one only makes after that launch.
use super::deadlock::{cycle, sentences};
use super::lower::LoweredProgram;
use super::simulate;
use crate::scenario::{Case, Diagnostic, EnvValue, EnvVar, Placement};

/// A warning, if ranks of a program that otherwise finishes wait for each other's launches.
pub fn warning(lowered: &LoweredProgram) -> Option<Diagnostic> {
    let case = &lowered.unrolled.case;
    let variable = group_mode(case).filter(|_| case.placement != Placement::Processes)?;
    let waiting = cycle(simulate::play_launches_together(lowered)?.waiting);
    if waiting.is_empty() {
        return None;
    }
    let lines = sentences(&waiting, |w| lowered.unrolled.steps[w.step as usize].label.clone());
    let text = format!(
        "with NCCL_LAUNCH_MODE = GROUP a launch waits for those of the other ranks in the process, and NCCL may wait without end: {}",
        lines.join("; ")
    );
    Some(Diagnostic::warning(variable.name.span, text).help(
        "let every rank make as many calls or groups, in the same order, or leave the variable out (NVIDIA/nccl#787)",
    ))
}

fn group_mode(case: &Case) -> Option<&EnvVar> {
    let is_group = |value: &EnvValue| match value {
        EnvValue::All(text) => text.eq_ignore_ascii_case("group"),
        EnvValue::PerRank(texts) => texts.iter().any(|text| text.eq_ignore_ascii_case("group")),
    };
    case.env.iter().find(|v| v.name.value == "NCCL_LAUNCH_MODE" && is_group(&v.value))
}
