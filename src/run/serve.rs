//! What a member of a job does: it starts parts of workers for the leader until the run is over.
use super::Error;
use super::serve_part::serve_part;
use crate::child::program::Program;
use crate::cluster::{Joined, MemberOrder};
use std::sync::Arc;

/// Serves the leader; the exit status of the run, or `None` if the leader has gone before its end.
///
/// # Errors
///
/// The operating system has no threads.
pub fn serve(joined: Joined, program: &Program) -> Result<Option<u8>, Error> {
    let joined = Arc::new(joined);
    loop {
        match joined.next_order() {
            None => return Ok(None),
            Some(MemberOrder::Finished(status)) => return Ok(Some(status)),
            Some(MemberOrder::StartPart(number)) => {
                let (joined, program) = (joined.clone(), program.clone());
                let body = move || {
                    // Without a connection the leader's wait for the part ends by its limit.
                    let Ok(connection) = joined.connect_part(number) else { return };
                    let carried: Vec<_> = joined.variables.clone().into_iter().collect();
                    serve_part(&connection, &program, &carried);
                };
                std::thread::Builder::new().name("part".into()).spawn(body).map_err(Error::Resources)?;
            }
        }
    }
}
