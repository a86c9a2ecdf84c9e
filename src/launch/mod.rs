//! What a launcher (mpirun, srun, torchrun, ...) says to each process that it starts: its rank, their number, and where they can
//! meet. Nothing here opens a connection.
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
    /// What started them.
    pub launcher: Launcher,
    /// This process among them.
    pub position: Position,
    /// The launcher's name for the job, so that processes of two jobs do not meet.
    pub job: String,
    /// What only processes of this job know, as far as the launcher gives them something of that kind.
    pub secret: String,
    /// Where they meet, or why that is not known.
    pub place: Result<MeetingPlace, String>,
}
