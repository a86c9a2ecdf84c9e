//! The processes of the job that a worker has lost at once: one is the cause that a verdict names first, and if a machine goes down, all
//! of its processes are lost.
use super::worker::Worker;
use collspec_core::printable::names_in_words;

/// Text on the other lost processes, appended to how this part ended once all parts have ended. Empty if no other is lost.
pub fn lost_too(worker: &mut Worker, named: usize) -> String {
    let others = worker.remote().filter(|(part, _)| *part != named);
    let lost: Vec<String> = others.filter_map(|(_, part)| Some(part.lost()?.name)).collect();
    if lost.is_empty() {
        return String::new();
    }
    format!("; {} {} lost too", names_in_words(&lost), if lost.len() == 1 { "is" } else { "are" })
}
