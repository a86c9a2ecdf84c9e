//! A run that a launcher has started as several processes: one of them reads, judges and reports, the others serve it.
use super::args::LaunchArgs;
use super::exit::Exit;
use super::terminal;
use collspec_core::printable::one_line;
use collspec_run::child::Workers;
use collspec_run::child::program::Program;
use collspec_run::cluster::{Cluster, Equipment, Listener, MEETING_LIMIT, MeetingError, join, lead};
use collspec_run::launch::{ChosenLauncher, Variables, detect};
use collspec_run::run::{Allowed, Served, serve};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// The longest time to wait for the other processes.
const LONGEST_MEETING: Duration = Duration::from_secs(7 * 24 * 3600);

/// Limit in seconds on the meeting of processes that only agree on which of them refuses. A process that waits longer is most likely
/// alone, with a launcher's variables left over.
const REFUSING: f64 = 5.0;

/// Does `work` in the leading process, with all processes of the job; the others serve it and end with the same exit code. A process
/// that no launcher has started together with others is alone. `equipment` returns what this process can run cases on (computed only in
/// a job), the backends and variables that the leading process may have it use, and data found in the process that `work` needs as well;
/// serving processes drop that data.
///
/// # Errors
///
/// The launcher's variables make no sense, the processes do not meet, the leading process ends early, or those of `work`.
pub fn on_all_processes<Found>(
    args: &LaunchArgs,
    equipment: impl FnOnce() -> (Equipment, Allowed, Found),
    work: impl FnOnce(Option<(Arc<Cluster>, Found)>) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    let Some(launch) = detect(&Variables::of_this_process(), args.launcher)? else { return work(None) };
    collspec_run::child::allow_descriptors();
    let limit = args.meeting_timeout.map_or(MEETING_LIMIT, |seconds| {
        Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_MEETING).min(LONGEST_MEETING)
    });
    let Some(listener) = Listener::of(&launch, limit)? else {
        let (equipment, allowed, _) = equipment();
        let joined = join(&launch, equipment, limit)?;
        let program = Program::of(&Workers::CurrentExe)?;
        return match serve(joined, &program, allowed)? {
            Served::Finished(status) => Ok(Exit::of_code(status)),
            Served::Gone => Err(anyhow::anyhow!("the leading process has gone before the run was over")),
            Served::Silent(limit) => Err(anyhow::anyhow!(
                "the leading process has said nothing for {} s: it is stopped or stuck",
                limit.as_secs()
            )),
        };
    };
    let (equipment, _, found) = equipment();
    let cluster = Arc::new(lead(&launch, listener, equipment, limit)?);
    let (processes, machines) = (cluster.sites().len(), cluster.machines());
    let on = if machines == 1 { "one machine".to_owned() } else { format!("{machines} machines") };
    writeln!(terminal::err(), "collspec: {processes} processes on {on}, started by {}", launch.launcher.name())?;
    let mut leader = Leader { cluster: cluster.clone(), exit: Exit::WRONG_INPUT };
    let done = work(Some((cluster, found)));
    leader.exit = match &done {
        Ok(exit) => *exit,
        Err(error) => Exit::of_error(error),
    };
    if let Some(lost) = leader.cluster.lost_in_words() {
        writeln!(terminal::err(), "collspec: {}", one_line(&lost))?;
    }
    done
}

/// Does `work` if this process is alone. If a launcher has started several, none does it: they would overwrite each other's files. One
/// of them reports that, and all end with its exit code.
///
/// # Errors
///
/// This process is one of several, the launcher's variables make no sense, or those of `work`.
pub fn in_one_process(
    launcher: ChosenLauncher,
    command: &str,
    work: impl FnOnce() -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    let Some(launch) = detect(&Variables::of_this_process(), launcher)? else { return work() };
    let refusal = || {
        let (name, size) = (launch.launcher.name(), launch.position.size);
        anyhow::anyhow!(
            "`collspec {command}` runs in one process, and {name} has started {size}: start it without {name} (`--launcher none` says that a \
             process is alone)"
        )
    };
    let args = LaunchArgs { launcher, meeting_timeout: Some(REFUSING), ranks_per_process: None };
    let nothing = || (Equipment { libraries: Vec::new(), gpus: Vec::new() }, Allowed::default(), ());
    // Those that do not meet say it each.
    on_all_processes(&args, nothing, |_| Err(refusal()))
        .map_err(|error| if error.is::<MeetingError>() { refusal() } else { error })
}

/// The leading process. Dropping it tells the others that the run is over, with its exit code.
struct Leader {
    cluster: Arc<Cluster>,
    exit: Exit,
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.cluster.finish(self.exit.code());
    }
}
