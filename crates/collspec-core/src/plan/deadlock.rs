//! Finds programs that cannot finish: simulates once with sends that wait for their receives, and if that gets stuck, once
//! more with sends that never wait. The events come in the order of the simulation that got further.
use super::item::lenient;
use super::lower::LoweredProgram;
use super::registration;
use super::simulate::{self, Played};
use super::types::{Event, Foresight, Waiting};
use crate::job::{Call, CallKind};
use crate::scenario::{Case, Diagnostic, ExpectedOutcome, Placement, Span, dedupe};

mod advice;
mod silent_partners;
mod waiting;

pub use waiting::{cycle, sentences, some_ranks};

/// The order of events, and the ranks that wait.
#[derive(Debug)]
pub struct Analysis {
    pub events: Vec<Event>,
    pub foresight: Foresight,
    /// The reason the data is undefined, if it is.
    pub undefined: Option<String>,
    /// The ranks that wait for each other if they connect at the first collective of each communicator, in a program that
    /// otherwise completes.
    pub connecting: Vec<Waiting>,
}

/// Simulates a program.
///
/// # Errors
///
/// Calls that do not match, or programs that may or must hang, unless the file declares this.
pub fn analyse(lowered: &LoweredProgram) -> Result<Analysis, Vec<Diagnostic>> {
    let case = &lowered.unrolled.case;
    if case.placement == Placement::OneThread {
        simulate::check_one_thread(lowered)?;
        registration::check_one_thread(lowered)?;
    }
    simulate::check_size(lowered).map_err(|diagnostic| vec![diagnostic])?;
    let mut played = simulate::play(lowered, false);
    let mut foresight = Foresight::Completes;
    if !played.waiting.is_empty() {
        let first = cycle(std::mem::take(&mut played.waiting));
        played = simulate::play(lowered, true);
        foresight = if played.waiting.is_empty() {
            Foresight::MayBlock(first)
        } else {
            Foresight::Stuck(cycle(std::mem::take(&mut played.waiting)))
        };
    }
    let mut connecting = Vec::new();
    if foresight == Foresight::Completes && played.mismatches.is_empty() {
        let (sure, unsure) = hosts_that_wait(lowered);
        if !sure.is_empty() {
            foresight = Foresight::MayBlock(sure);
        } else if case.may_hang() && !unsure.is_empty() {
            foresight = Foresight::MayBlock(unsure);
        } else {
            connecting = unsure;
        }
    }
    if !played.mismatches.is_empty() {
        // What waits after calls that do not match does so because of them.
        foresight = Foresight::Completes;
    }
    let mut undefined = lowered.undefined.clone();
    if let Some(lone) = simulate::lone_message_to_oneself(lowered).filter(|_| !lowered.unrolled.exits) {
        let fails = |e: &ExpectedOutcome| matches!(e, ExpectedOutcome::Error(_));
        if !case.outcome.as_ref().is_some_and(|outcome| outcome.value.iter().any(fails)) {
            return Err(vec![lone]);
        }
        undefined.get_or_insert(lone.message);
        return Ok(Analysis { events: played.events, foresight: Foresight::Completes, undefined, connecting });
    }
    accept(case, lowered, &foresight, &played, &mut undefined)?;
    Ok(Analysis { events: played.events, foresight, undefined, connecting })
}

/// The ranks whose hosts wait for each other, or for a rank that never comes, while NCCL connects ranks or ends communicators. The second
/// list has those that wait only if NCCL connects at the first collective of a communicator, which depends on the machine and its settings.
fn hosts_that_wait(lowered: &LoweredProgram) -> (Vec<Waiting>, Vec<Waiting>) {
    match simulate::play_hosts(lowered, true) {
        Some(hosts) if hosts.waiting.is_empty() => (Vec::new(), Vec::new()),
        Some(hosts) => {
            let sure = simulate::play_hosts(lowered, false).map_or_else(Vec::new, |hosts| hosts.waiting);
            (cycle(sure), cycle(hosts.waiting))
        }
        // The crash of a process that exits ends the waiting.
        None if lowered.unrolled.exits => (Vec::new(), Vec::new()),
        None => silent_partners::connect_to_the_silent(lowered),
    }
}

/// Warns that ranks wait for each other at first collectives: adds to the warning about the same calls, if there is one.
pub fn warn_of_connecting(lowered: &LoweredProgram, waiting: &[Waiting], warnings: &mut Vec<Diagnostic>) {
    let Some(first) = waiting.first() else { return };
    let place = |w: &Waiting| lowered.unrolled.steps[w.step as usize].span;
    let tells = |warning: &Diagnostic, span: Span| {
        warning.span == span || warning.related.iter().any(|(other, _)| *other == span)
    };
    if let Some(known) = warnings.iter_mut().find(|warning| waiting.iter().all(|w| tells(warning, place(w)))) {
        known.message +=
            "; and these ranks wait for each other if they connect at the first collective of each communicator";
        return;
    }
    let lines = sentences(waiting, |w| lowered.unrolled.steps[w.step as usize].label.clone());
    let text = format!("these ranks may wait for each other while NCCL connects them: {}", lines.join("; "));
    let warning = Diagnostic::warning(place(first), text)
        .help("let all ranks make a collective of each communicator first, in the same order");
    let others = waiting.iter().skip(1).filter(|w| place(w) != place(first));
    warnings.push(others.fold(warning, |warning, w| warning.related(place(w), format!("rank {} waits here", w.rank))));
}

/// Refuses a program whose predicted end is not the one in the file. Where the file admits misuse, the reason why
/// the data is undefined is stored in `undefined` instead.
fn accept(
    case: &Case,
    lowered: &LoweredProgram,
    foresight: &Foresight,
    played: &Played,
    undefined: &mut Option<String>,
) -> Result<(), Vec<Diagnostic>> {
    let lenient = lenient(case);
    let expects = |f: fn(&ExpectedOutcome) -> bool| case.outcome.as_ref().is_some_and(|list| list.value.iter().any(f));
    if lowered.unrolled.exits {
        undefined.get_or_insert_with(|| "a process ends on purpose".to_owned());
        if !expects(|e| *e == ExpectedOutcome::Crash) {
            let exits = |call: &&Call| matches!(call.kind, CallKind::Exit { .. });
            let exit = lowered.programs.iter().flatten().find(exits);
            let span = exit.map_or(case.span, |call| lowered.unrolled.steps[call.step as usize].span);
            return Err(vec![
                Diagnostic::new(span, "a process that exits counts as a crash")
                    .help("add `outcome = \"crash\"`; with `placement = \"processes\"` a rank can end alone, and the others go on"),
            ]);
        }
        return Ok(());
    }
    if let Some(first) = played.mismatches.first() {
        if !lenient {
            return Err(dedupe(played.mismatches.clone()));
        }
        undefined.get_or_insert_with(|| first.message.clone());
        return Ok(());
    }
    match foresight {
        Foresight::Completes => {}
        Foresight::MayBlock(waiting) => {
            if !lenient {
                let (text, cure) = advice::against_blocking(waiting);
                let help = format!("{cure}, or say `outcome = [\"hang\", \"ok\"]` to run it all the same");
                return Err(vec![stuck(lowered, waiting, text, &help)]);
            }
        }
        Foresight::Stuck(waiting) => {
            undefined.get_or_insert_with(|| "it cannot finish".to_owned());
            let aborted = waiting.iter().any(|w| w.what == simulate::MAY_BE_ABORTED);
            let names_one_ending =
                aborted && expects(|e| *e == ExpectedOutcome::Hang) && !expects(|e| *e == ExpectedOutcome::Ok);
            if !lenient || names_one_ending {
                return Err(vec![stuck(
                    lowered,
                    waiting,
                    if aborted { "this program may not finish" } else { "this program cannot finish" },
                    &advice::against(case, waiting, |step| lowered.unrolled.steps[step as usize].span),
                )]);
            }
            if aborted {
                refuse_results(case)?;
            }
        }
    }
    Ok(())
}

/// Refuses `expect` and `assert` in a program that may or may not finish: if it hangs, there are no results to check them against.
fn refuse_results(case: &Case) -> Result<(), Vec<Diagnostic>> {
    let said = case.expect.first().map(|expected| expected.target.span).or(case.asserts.first().map(|a| a.span));
    let Some(span) = said else { return Ok(()) };
    let text = "this program may or may not finish, so that nothing can be said of its results";
    Err(vec![Diagnostic::new(span, text).help(
        "leave the expectation out, or let every rank wait for its operations before it aborts the communicator",
    )])
}

fn stuck(lowered: &LoweredProgram, waiting: &[Waiting], text: &str, help: &str) -> Diagnostic {
    let place = |w: &Waiting| lowered.unrolled.steps[w.step as usize].span;
    let lines = sentences(waiting, |w| lowered.unrolled.steps[w.step as usize].label.clone());
    let span = waiting.first().map_or(lowered.unrolled.case.span, place);
    let mut diagnostic = Diagnostic::new(span, format!("{text}: {}", lines.join("; "))).help(help);
    let mut told = vec![span];
    for w in waiting.iter().skip(1) {
        if !told.contains(&place(w)) {
            told.push(place(w));
            diagnostic = diagnostic.related(place(w), format!("rank {} waits here", w.rank));
        }
    }
    diagnostic
}
