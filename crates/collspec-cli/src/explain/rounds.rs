//! The messages that the software library really sends for each step, round by round.
//!
//! The case runs on the software library, which writes every message down (COLLSPEC_SOFT_TRACE). Steps are told apart by names that
//! are given to them for this run.
use super::fold::shown_ranks;
use super::outline::Outline;
use super::picture::{Cell, Explanation, Panel, Row, StepPicture, number, ranks_in_words};
use collspec_core::judge::Status;
use collspec_core::plan::{self, Limits, Plan};
use collspec_core::scenario::forms::FORMS;
use collspec_core::scenario::{Case, Placement, Spanned, Step, StepKind, all_steps};
use collspec_run::run::PoolLimits;
use collspec_suite::suite::{Reading, RunOptions, Runner};
use serde::Deserialize;
use soft_nccl::MOST_TRACED_MESSAGES;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Limit on the rounds that are shown, and on the bytes of the file of messages.
const MOST_ROUNDS: u64 = 10;
const MOST_BYTES: u64 = 256 << 20;

/// Why the rounds cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("--algorithm {0}: {1}")]
    NoAlgorithm(String, String),
    #[error("the case cannot be run to show its rounds: {0}")]
    Plan(String),
    #[error("the messages of the software library: {0}")]
    Trace(#[from] std::io::Error),
    #[error("the messages of the software library: {0}")]
    Line(#[from] serde_json::Error),
    #[error(transparent)]
    Run(#[from] collspec_run::run::Error),
}

/// A message, as the software library writes it down; ranks are those of the communicator.
#[derive(Clone, Debug, Deserialize)]
struct Message {
    comm: u64,
    tag: u32,
    sequence: u64,
    operation: String,
    algorithm: String,
    round: u64,
    from: usize,
    to: usize,
    bytes: u64,
}

/// The case with all collectives that can use it on this algorithm.
///
/// # Errors
///
/// There is no such algorithm, or no operation has it.
pub fn with_algorithm(case: &Case, algorithm: &str) -> Result<Case, Error> {
    let refuse = |why: &str| Error::NoAlgorithm(algorithm.to_owned(), why.to_owned());
    let form = FORMS.iter().find(|form| form.name == algorithm && ALGORITHMS.contains(&form.name));
    let form = form.ok_or_else(|| refuse("the algorithms are ring, tree and single_tree"))?;
    let mut free = case.clone();
    free.env.retain(|variable| variable.name.value != "NCCL_ALGO");
    free.form = None;
    for_all_steps(&mut free.steps, &mut |step| {
        if let StepKind::Collective(keys) = &mut step.kind {
            keys.algorithm = None;
        }
    });
    let mut formed = form.apply(&free).map_err(refuse)?;
    (formed.name, formed.form) = (case.name.clone(), case.form.clone());
    Ok(formed)
}

/// The forms that choose an algorithm.
const ALGORITHMS: [&str; 3] = ["ring", "tree", "single_tree"];

/// Runs the case and adds the messages of each step to its explanation.
///
/// # Errors
///
/// The case cannot be run, or its messages cannot be read.
pub fn add(explanation: &mut Explanation, case: &Case, limits: Limits) -> Result<(), Error> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("messages.jsonl");
    let case = Arc::new(with_names(case));
    let plan = plan::plan(&case, &limits).map_err(|wrong| {
        Error::Plan(wrong.into_iter().next().map_or_else(String::new, |diagnostic| diagnostic.message))
    })?;
    let mut options = RunOptions { reading: Reading { limits, ..Reading::default() }, ..RunOptions::default() };
    options.variables.push(("COLLSPEC_SOFT_TRACE".to_owned(), file.display().to_string()));
    let verdict = Runner::soft(options)?.with_pool_limits(PoolLimits::of(0)).run_case(&case);
    if verdict.status != Status::Pass {
        let reason = verdict.reason.unwrap_or_else(|| "no reason".into());
        explanation.about.push(format!("To show its rounds the case had to run, and that did not succeed: {reason}."));
    }
    if all_steps(&case.steps).any(|step| step.graph.is_some()) {
        explanation.about.push("The messages of graphs are not shown.".into());
    }
    let messages = read(&file)?;
    if messages.len() as u64 >= MOST_TRACED_MESSAGES {
        let most = number(MOST_TRACED_MESSAGES, "message");
        explanation.about.push(format!("It sends at least {most}: too many to show its rounds."));
        return Ok(());
    }
    let outline = Outline::of(&case, &plan);
    for (number, unit) in outline.units.iter().enumerate() {
        let Some(step) = explanation.steps.get_mut(number) else { break };
        for inner in 0..unit.inner.len() {
            let name = name_of(number, inner);
            let Some(tag) = plan.tags.iter().position(|tag| *tag == name) else { continue };
            // A worker that has run nothing begins to count at 1.
            let own = messages.iter().filter(|message| message.tag as usize == tag + 1).cloned().collect();
            add_to_step(step, &plan, first_round(own, unit.rounds.saturating_sub(unit.shown).max(1)));
        }
    }
    Ok(())
}

fn name_of(unit: usize, inner: usize) -> String {
    format!("#{unit}.{inner}")
}

/// The case with a name for each step, and without what its run would be judged by in addition.
fn with_names(case: &Case) -> Case {
    let mut case = case.clone();
    (case.repeat, case.placement) = (1, Placement::default());
    case.asserts.clear();
    case.before.clear();
    case.comms_before.clear();
    let mut unit = 0;
    name_steps(&mut case.steps, &mut unit);
    case
}

/// Names the steps in the order of an [`Outline`].
fn name_steps(steps: &mut [Step], unit: &mut usize) {
    for step in steps {
        let span = step.span;
        if let StepKind::Loop(inner) = &mut step.kind {
            name_steps(inner, unit);
            continue;
        }
        let mut inner = 0;
        let mut name = |step: &mut Step| {
            if step.inner().is_empty() {
                // What is captured cannot be named.
                let is_named = step.op.kind.transfers() && step.graph.is_none();
                step.name = is_named.then(|| Spanned { span, value: name_of(*unit, inner) });
                inner += 1;
            }
        };
        for_all_steps(std::slice::from_mut(step), &mut name);
        *unit += 1;
    }
}

fn for_all_steps(steps: &mut [Step], visit: &mut impl FnMut(&mut Step)) {
    for step in steps {
        visit(step);
        for_all_steps(step.inner_mut(), visit);
    }
}

fn read(file: &std::path::Path) -> Result<Vec<Message>, Error> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = collspec_core::files::read_text(file, MOST_BYTES).map_err(std::io::Error::other)?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// The messages of the first of so many rounds of a step: of the collectives of a communicator, or the messages of a pair, the first.
fn first_round(messages: Vec<Message>, rounds: usize) -> Vec<Message> {
    let key = |message: &Message| {
        let pair = (message.operation == "Send").then_some((message.from, message.to));
        (message.comm, pair)
    };
    let mut sequences: BTreeMap<_, BTreeSet<u64>> = BTreeMap::new();
    for message in &messages {
        sequences.entry(key(message)).or_default().insert(message.sequence);
    }
    let last: BTreeMap<_, u64> = sequences
        .into_iter()
        .filter_map(|(key, all)| Some((key, *all.iter().nth((all.len() / rounds).max(1) - 1)?)))
        .collect();
    messages
        .into_iter()
        .filter(|message| last.get(&key(message)).is_some_and(|last| message.sequence <= *last))
        .collect()
}

fn add_to_step(step: &mut StepPicture, plan: &Plan, messages: Vec<Message>) {
    let comms: BTreeSet<u64> = messages.iter().map(|message| message.comm).collect();
    let shown = comms.len().min(super::MOST_PANELS);
    for comm in comms.iter().take(shown) {
        let own: Vec<&Message> = messages.iter().filter(|message| message.comm == *comm).collect();
        let members = usize::try_from(*comm).ok().and_then(|comm| plan.comms.get(comm));
        let members = members.map_or_else(Vec::new, |comm| comm.members.clone());
        step.panels.push(panel(&own, &members, comms.len() > 1 || members.len() < plan.n));
    }
    if comms.len() > shown {
        step.notes.push(format!("… {} with messages.", number((comms.len() - shown) as u64, "more communicator")));
    }
    if !messages.is_empty() {
        let rounds = messages.iter().map(|message| message.round).max().unwrap_or(0);
        let bytes = messages.iter().map(|message| message.bytes).sum();
        step.notes.push(format!(
            "The software library sent {} with {} in all, in {}; a round is as long as a chain of messages that wait for each other.",
            number(messages.len() as u64, "message"),
            number(bytes, "byte"),
            number(rounds, "round")
        ));
    }
}

fn panel(messages: &[&Message], members: &[usize], is_part: bool) -> Panel {
    let world = |rank: usize| members.get(rank).copied().unwrap_or(rank);
    let last = messages.iter().map(|message| message.round).max().unwrap_or(0);
    let rounds: Vec<u64> =
        (1..=last).filter(|round| last <= MOST_ROUNDS || *round < MOST_ROUNDS || *round == last).collect();
    // Bytes by rank, round and receiver.
    let mut sent: BTreeMap<(usize, u64), BTreeMap<usize, u64>> = BTreeMap::new();
    let (mut out, mut come): (BTreeMap<usize, u64>, BTreeMap<usize, u64>) = Default::default();
    for message in messages {
        *sent.entry((message.from, message.round)).or_default().entry(message.to).or_default() += message.bytes;
        *out.entry(message.from).or_default() += message.bytes;
        *come.entry(message.to).or_default() += message.bytes;
    }
    let all: Vec<usize> =
        (0..members.len().max(out.keys().chain(come.keys()).max().map_or(0, |rank| rank + 1))).collect();
    let shown = shown_ranks(&all, None);
    let mut columns: Vec<String> = rounds.iter().map(|round| format!("round {round}")).collect();
    if last > MOST_ROUNDS {
        let more = number(last - MOST_ROUNDS, "more round");
        columns.insert(columns.len() - 1, format!("… {more}"));
    }
    columns.extend(["sends, total".to_owned(), "receives, total".to_owned()]);
    let mut rows = Vec::new();
    let mut previous = None;
    for rank in shown {
        let hidden = rank - previous.map_or(0, |rank| rank + 1);
        if hidden > 0 {
            rows.push(Row::Gap(format!("… {}", number(hidden as u64, "more rank"))));
        }
        previous = Some(rank);
        let cells = |round: &u64| {
            let to = sent.get(&(rank, *round)).into_iter().flatten();
            to.map(|(to, bytes)| arrow(world(rank), world(*to), *bytes)).collect::<Vec<_>>()
        };
        let mut strips: Vec<Vec<Cell>> = rounds.iter().map(cells).map(few).collect();
        if last > MOST_ROUNDS {
            strips.insert(strips.len() - 1, Vec::new());
        }
        let total = |of: &BTreeMap<usize, u64>| vec![Cell::words(size(of.get(&rank).copied().unwrap_or(0)))];
        strips.extend([total(&out), total(&come)]);
        rows.push(Row::Rank(format!("rank {}", world(rank)), strips));
    }
    let algorithms: BTreeSet<&str> = messages
        .iter()
        .filter(|message| {
            ["AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter"].contains(&&*message.operation)
        })
        .map(|message| message.algorithm.as_str())
        .collect();
    let by = match algorithms.iter().copied().collect::<Vec<_>>().as_slice() {
        [] => "straight from rank to rank".to_owned(),
        list => format!("algorithm {}", list.join(", ")),
    };
    let of = if is_part { format!(" of {}", ranks_in_words(members)) } else { String::new() };
    Panel { title: Some(format!("messages{of}, {by} (→1 8 B: 8 bytes to rank 1)")), columns, rows }
}

/// The first cells, and how many more there are.
fn few(mut cells: Vec<Cell>) -> Vec<Cell> {
    const MOST: usize = 3;
    if cells.len() > MOST {
        let more = cells.len() - MOST + 1;
        cells.truncate(MOST - 1);
        cells.push(Cell::words(format!("… {more} more")));
    }
    cells
}

fn arrow(from: usize, to: usize, bytes: u64) -> Cell {
    // Two parts, so that it is not labelled: the row says who sends.
    let parts = vec![(format!("→{to}"), Some(from)), (format!(" {}", size(bytes)), Some(from))];
    Cell { parts, from: vec![from], plain: false }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..=9999 => format!("{bytes} B"),
        10_000..=10_239_999 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64),
    }
}
