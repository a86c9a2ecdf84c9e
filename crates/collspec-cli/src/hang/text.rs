//! A diagnosis for people.
use super::diagnosis::{Called, Cause, Diagnosis, Finding, Waiting};
use crate::import::flight_recorder::State;
use collspec_core::judge::message::ranks_text;
use collspec_core::printable::one_line;
use std::fmt::Write;

/// Lines of a stack that are shown.
const MAX_LINES: usize = 6;
/// Groups of waiting ranks that are shown.
const MAX_WAITING: usize = 16;
/// Findings that are shown.
const MAX_FINDINGS: usize = 8;

pub fn text(diagnosis: &Diagnosis) -> String {
    let mut out = format!("{}\n", diagnosis.verdict);
    for (number, finding) in diagnosis.findings.iter().take(MAX_FINDINGS).enumerate() {
        if number > 0 {
            _ = writeln!(out, "\nAlso: {}", finding.sentence());
        }
        sides(finding, &mut out);
    }
    if diagnosis.findings.len() > MAX_FINDINGS {
        _ = writeln!(out, "\nand {} more, which --json lists", diagnosis.findings.len() - MAX_FINDINGS);
    }
    if let Some(last) = &diagnosis.last_common {
        _ = writeln!(out, "\nBefore that, all completed {}", call_text(&Called { progress: None, ..last.clone() }));
    }
    _ = writeln!(out, "\nWhere the ranks are now:");
    for waiting in diagnosis.waiting.iter().take(MAX_WAITING) {
        _ = writeln!(out, "  {}: {}", ranks_text(&waiting.ranks), waiting_text(waiting));
    }
    if diagnosis.waiting.len() > MAX_WAITING {
        _ = writeln!(out, "  and {} more groups of ranks, which --json lists", diagnosis.waiting.len() - MAX_WAITING);
    }
    if !diagnosis.remarks.is_empty() {
        _ = writeln!(out, "\nNot certain:");
        diagnosis.remarks.iter().for_each(|remark| _ = writeln!(out, "  {remark}"));
    }
    out
}

/// What each side of a finding called, and from where.
fn sides(finding: &Finding, out: &mut String) {
    let (ranks, others) = (ranks_text(&finding.ranks), ranks_text(&finding.others));
    let members = ranks_text(&finding.call.members);
    let communicators = match finding.alike {
        0 => String::new(),
        alike => format!(", and in {alike} more communicators"),
    };
    _ = writeln!(out, "  communicator {} of {members}{communicators}", finding.call.communicator);
    let mut side = |who: &str, does: &str, called: &Called| {
        _ = writeln!(out, "  {who} {does} {}", call_text(called));
        for line in called.stack.iter().take(MAX_LINES) {
            _ = writeln!(out, "      {} in {}", one_line(&line.path()), one_line(&line.function));
        }
    };
    let instead = finding.instead.as_ref();
    let wait = if finding.others.len() == 1 { "waits in" } else { "wait in" };
    let is_completed = |called: &Called| called.progress == Some(State::Completed);
    let mixed = matches!(finding.cause, Cause::LeftOut | Cause::Added)
        && is_completed(&finding.call)
        && instead.is_some_and(is_completed);
    match finding.cause {
        Cause::LeftOut => {
            side(&others, "called", &finding.call);
            instead.into_iter().for_each(|called| side(&ranks, "called next", called));
        }
        Cause::Added => {
            side(&ranks, "called", &finding.call);
            instead.into_iter().for_each(|called| side(&others, "called next", called));
        }
        Cause::Instead | Cause::MessagesDiffer => {
            side(&others, "called", &finding.call);
            instead.into_iter().for_each(|called| side(&ranks, "called", called));
        }
        Cause::Stopped => {
            side(&others, wait, &finding.call);
            instead.into_iter().for_each(|called| side(&ranks, "called last", called));
        }
        Cause::NoMessage | Cause::Order => {
            side(&others, wait, &finding.call);
            instead
                .into_iter()
                .for_each(|called| side(&ranks, if finding.ranks.len() == 1 { "is in" } else { "are in" }, called));
        }
        Cause::Unknown => {
            side(&others, wait, &finding.call);
            instead.into_iter().for_each(|called| side(&ranks, "called last", called));
        }
    }
    if mixed {
        out.push_str("  these calls have one size, so they completed, with data of different calls: results are wrong from here on\n");
    }
}

/// `all_reduce of 4 f32, call 9 of default_pg, started`.
pub fn call_text(called: &Called) -> String {
    let mut text = called.what.clone();
    if let Some(number) = &called.number {
        let word = if number.starts_with("message") { "" } else { "call " };
        _ = write!(text, ", {word}{number} of {}", called.communicator);
    }
    if let Some(progress) = called.progress {
        _ = write!(text, ", {}", progress.word());
    }
    text
}

pub fn waiting_text(waiting: &Waiting) -> String {
    let at = |called: &Called| {
        called
            .stack
            .first()
            .map_or_else(String::new, |line| format!("; {} in {}", line.place(), one_line(&line.function)))
    };
    match (&waiting.call, &waiting.last) {
        (Some(call), _) => format!("{}{}", call_text(call), at(call)),
        (None, Some(last)) => format!("in no call; the last was {}{}", call_text(last), at(last)),
        (None, None) if waiting.is_unknown => "nothing is known: there is no dump or log of this run".to_owned(),
        (None, None) => "in no call, and made none".to_owned(),
    }
}
