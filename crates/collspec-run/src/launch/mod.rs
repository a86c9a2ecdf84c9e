//! The information that a launcher (mpirun, srun, torchrun, ...) gives to each process that it starts: its rank, their number, and
//! where they can meet. This module does not open connections.
mod detect;
mod launcher;
mod meeting_place;

pub use detect::{ChosenLauncher, Variables, detect};
pub use launcher::{Launcher, Position};
pub use meeting_place::MeetingPlace;

/// The variables by which processes are started without a launcher, or meet elsewhere than it says. They say something of one process.
pub const VARIABLES: [&str; 7] = [
    "COLLSPEC_JOB",
    "COLLSPEC_LOCAL_RANK",
    "COLLSPEC_LOCAL_SIZE",
    meeting_place::MEETING,
    "COLLSPEC_RANK",
    meeting_place::SECRET,
    "COLLSPEC_SIZE",
];

/// This process as one of those that a launcher has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The launcher that started them.
    pub launcher: Launcher,
    /// The position of this process among them.
    pub position: Position,
    /// The launcher's name for the job, so that processes of two jobs do not meet.
    pub job: String,
    /// A value known only to the processes of this job, if the launcher provides one.
    pub secret: String,
    /// The place where they meet, or the reason it is unknown.
    pub place: Result<MeetingPlace, String>,
}
