//! A run that a launcher has started as several processes: one of them reads, judges and reports, the others serve it.
use super::args::LaunchArgs;
use super::exit::Exit;
use super::terminal;
use crate::child::Workers;
use crate::child::program::Program;
use crate::cluster::{Cluster, Listener, MEETING_LIMIT, join, lead};
use crate::launch::{Variables, detect};
use crate::run::serve;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// The longest time to wait for the other processes.
const LONGEST_MEETING: Duration = Duration::from_secs(7 * 24 * 3600);

/// What this process is to do.
pub enum Launched {
    /// All of the work: no launcher has started others with it.
    Alone,
    /// All but what the others do for it.
    Leads(Leader),
    /// Nothing more: it has served until the run was over.
    Served(Exit),
}

/// The process that leads. Dropping it tells the others that the run is over.
pub struct Leader {
    /// All processes.
    pub cluster: Arc<Cluster>,
    exit: Exit,
}

impl Leader {
    /// Notes the exit code, which all processes end with.
    pub fn ends_with(&mut self, exit: Exit) {
        self.exit = exit;
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.cluster.finish(self.exit.code());
    }
}

/// Finds out whether a launcher has started this process, and meets the others.
///
/// # Errors
///
/// The launcher's variables make no sense, or the processes do not meet.
pub fn meet(args: &LaunchArgs) -> anyhow::Result<Launched> {
    let launch = detect(&Variables::of_this_process(), args.launcher)?;
    let Some(launch) = launch else { return Ok(Launched::Alone) };
    allow_descriptors();
    let limit = args.meeting_timeout.map_or(MEETING_LIMIT, |seconds| {
        Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_MEETING).min(LONGEST_MEETING)
    });
    if let Some(listener) = Listener::of(&launch, limit)? {
        let cluster = Arc::new(lead(&launch, listener, limit)?);
        let (processes, machines) = (cluster.sites().len(), cluster.machines());
        let on = if machines == 1 { "one machine".to_owned() } else { format!("{machines} machines") };
        writeln!(terminal::err(), "collspec: {processes} processes on {on}, started by {}", launch.launcher.name())?;
        return Ok(Launched::Leads(Leader { cluster, exit: Exit::WRONG_INPUT }));
    }
    let joined = join(&launch, limit)?;
    let program = Program::of(&Workers::CurrentExe)?;
    let status = serve(joined, &program)?;
    anyhow::ensure!(status.is_some(), "the leading process has gone before the run was over");
    Ok(Launched::Served(Exit::of_code(status.unwrap_or_default())))
}

/// Lets this process and its workers open as many files as they may: there are connections to all others, and a shell's limit is often
/// 1,024.
fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Without success there are as many as before, and what needs more says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
