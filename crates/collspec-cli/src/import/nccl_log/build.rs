//! A log that was read becomes the text of a scenario.
use super::super::accepted::{accepted, refusal};
use super::super::header::{counted, sources};
use super::super::source::Source;
use super::super::{Error, Imported};
use super::collect::{Collector, Told, release};
use super::world::{World, world};
use super::{Form, rounds, unique};
use std::path::Path;

/// What is said where a log or recording has no factor.
pub const FACTOR: &str = "guessed: the factor 1 of premul_sum, which is not in the log";

const NOT_LOGGED: &str = "not in any log: values (guessed: random), which collectives share a group, when a host waits, how often a graph runs";
const NOT_RECORDED: &str = "not in a recording: values (guessed: random), when a host waits, how often a graph runs";

/// What the first lines of the file say.
pub struct Facts {
    pub source: String,
    /// `From NCCL's log: 4 ranks on gpu07`.
    pub what: String,
    pub remarks: Vec<String>,
    pub world: World,
}

/// What a log says of a job.
///
/// # Errors
///
/// The log has no communicators or no calls, or more than a scenario can have.
pub fn facts(collector: &Collector, files: &[Source]) -> Result<Facts, Error> {
    if collector.processes.comms.is_empty() {
        let lines = collector.told.lines();
        return Err(Error::Input(format!(
            "no line says that a communicator begins ({lines} read): make the log with NCCL_DEBUG=INFO and \
             NCCL_DEBUG_SUBSYS=INIT,COLL, and import it from its beginning"
        )));
    }
    if !collector.has_calls() {
        return Err(Error::Input(
            "the log has communicators but no calls: make it with NCCL_DEBUG_SUBSYS=INIT,COLL".to_owned(),
        ));
    }
    let world = world(&collector.processes, &collector.used()).map_err(Error::Input)?;
    let mut remarks = world.remarks.clone();
    tell(&collector.told, &mut remarks);
    let mut source = sources(&files.iter().filter_map(Source::path).collect::<Vec<&Path>>());
    collector.told.versions.keys().for_each(|version| source.push_str(&format!(", NCCL {version}")));
    let from = if collector.is_recording { "a recording" } else { "NCCL's log" };
    let what = format!("From {from}: {} on {}", counted(world.size as u64, "rank"), hosts(collector));
    Ok(Facts { source, what, remarks, world })
}

/// The scenario of a log.
pub fn build(collector: &Collector, files: &[Source], form: Form) -> Result<Imported, Error> {
    let mut facts = facts(collector, files)?;
    facts.remarks.push(if collector.is_recording { NOT_RECORDED } else { NOT_LOGGED }.to_owned());
    let mut imported = match form {
        Form::Unique { bench } => unique::scenario(collector, facts, bench),
        Form::Rounds => rounds::scenario(collector, facts)?,
    };
    imported.text = accepted(imported.text, "import the log of a few rounds, or of fewer ranks")?;
    if let (Form::Unique { .. }, Some(refusal)) = (form, refusal(&imported.text)) {
        imported.tell_refused(&refusal.why);
    }
    Ok(imported)
}

fn hosts(collector: &Collector) -> String {
    let mut hosts: Vec<&str> = collector.processes.ranks.iter().map(|rank| rank.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    if let [one] = hosts.as_slice() { (*one).to_owned() } else { format!("{} hosts", hosts.len()) }
}

/// What could not be read, or is not in any log.
fn tell(told: &Told, remarks: &mut Vec<String>) {
    if told.damaged() > 0 {
        let what = counted(told.damaged(), "line");
        remarks
            .push(format!("{what} of the log could not be read: cut off, mixed with another, or contradicting others"));
    }
    if told.homeless > 0 {
        let what = counted(told.homeless, "call");
        let first = &told.first_homeless;
        remarks.push(format!("left out: {what} of communicators whose beginning is not in the log (first: {first})"));
    }
    for (name, count) in &told.unknown_calls {
        remarks.push(format!("left out: {name} ({}), which no scenario has", counted(*count, "line")));
    }
    if told.between_elements > 0 {
        let what = counted(told.between_elements, "line");
        remarks.push(format!("guessed: offset 0 for buffers that do not begin at a whole element ({what})"));
    }
    if told.receives_after_boundary > 0 {
        let what = counted(told.receives_after_boundary, "line");
        remarks.push(format!("left out: offsets of buffers that are received into, not in place ({what})"));
    }
    if told.many_streams {
        remarks.push("guessed: calls on more than 64 streams of a rank are on `main`".to_owned());
    }
    if told.versions.keys().any(|version| release(version) < (2, 23)) {
        remarks
            .push("NCCL before 2.23 logs Broadcast and AllGather in bytes: their element type is not known".to_owned());
    }
}
