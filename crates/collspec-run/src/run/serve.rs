//! The service of a job's member: it starts parts of workers for the leader until the run is over.
use super::serve_part::serve_part;
use super::{Allowed, Error};
use crate::child::guard::{Due, Watched, wait_any};
use crate::child::patience::Patience;
use crate::child::program::Program;
use crate::cluster::{Joined, MemberOrder};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// A leader that is silent for this long is stopped or stuck; it sends a sign of life several times a minute.
const SILENCE: Duration = Duration::from_secs(180);

/// The way the service ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The run is over with this exit status.
    Finished(u8),
    /// The leader has gone before the run was over.
    Gone,
    /// The leader was silent for this long.
    Silent(Duration),
}

/// Serves the leader with the parts that are `allowed` in this process.
///
/// # Errors
///
/// The operating system has no free threads.
pub fn serve(joined: Joined, program: &Program, allowed: Allowed) -> Result<Served, Error> {
    serve_within(SILENCE, joined, program, allowed)
}

fn serve_within(silence: Duration, joined: Joined, program: &Program, allowed: Allowed) -> Result<Served, Error> {
    let (joined, allowed) = (Arc::new(joined), Arc::new(allowed));
    loop {
        let watched = [Watched { bytes: joined.as_fd(), process: None }];
        let came = |slice| (wait_any(&watched, slice) == [Due::Bytes]).then_some(());
        if Patience::new(silence).wait(came).is_none() {
            return Ok(Served::Silent(silence));
        }
        match joined.next_order() {
            None => return Ok(Served::Gone),
            Some(MemberOrder::Finished(status)) => return Ok(Served::Finished(status)),
            Some(MemberOrder::GoOn) => {}
            Some(MemberOrder::StartPart(number)) => {
                let (joined, program, allowed) = (joined.clone(), program.clone(), allowed.clone());
                let body = move || {
                    // Without a connection the leader's wait for the part ends by its limit.
                    let Ok(connection) = joined.connect_part(number) else { return };
                    let carried: Vec<_> = joined.variables.clone().into_iter().collect();
                    serve_part(&connection, &program, &allowed, &carried);
                };
                std::thread::Builder::new().name("part".into()).spawn(body).map_err(Error::Resources)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Workers;
    use crate::cluster::{Cluster, Equipment, Listener, PartMessage, PartOrder, Site, join, lead};
    use crate::launch::{Launch, Launcher, MeetingPlace, Position};
    use std::net::TcpListener;

    const LIMIT: Duration = Duration::from_secs(60);

    fn launch(rank: u32, port: u16, secret: &str) -> Launch {
        let place = MeetingPlace { hosts: vec!["127.0.0.1".to_owned()], ports: vec![port] };
        Launch {
            launcher: Launcher::Variables,
            position: Position { rank, size: 2, local_rank: rank, local_size: Some(2) },
            job: "job".to_owned(),
            secret: secret.to_owned(),
            place: Ok(place),
        }
    }

    fn equipment() -> Equipment {
        Equipment { libraries: Vec::new(), gpus: Vec::new() }
    }

    /// A leader, and a member that serves it on another thread as long as it hears from it within this time.
    fn job(silence: Duration) -> (Cluster, std::thread::JoinHandle<Served>) {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let listener = Listener::of(&launch(0, port, "s"), LIMIT).unwrap().unwrap();
        let member = std::thread::spawn(move || {
            let joined = join(&launch(1, port, "s"), equipment(), LIMIT).unwrap();
            let program = Program::of(&Workers::CurrentExe).unwrap();
            serve_within(silence, joined, &program, Allowed::default()).unwrap()
        });
        (lead(&launch(0, port, "s"), listener, equipment(), LIMIT).unwrap(), member)
    }

    #[test]
    fn a_leader_cannot_have_a_member_load_code() {
        let (cluster, member) = job(LIMIT);
        let Some(Site::There(there)) = cluster.sites().get(1).cloned() else { panic!("{cluster:?}") };
        for name in
            ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "NCCL_NET_PLUGIN", "COLLSPEC_WORKER_NCCL", "COLLSPEC_PROBE"]
        {
            let part = there.ask_for_part().unwrap().connection().unwrap();
            part.send(&PartOrder::Start(vec![(name.to_owned(), "/tmp/code.so".to_owned())])).unwrap();
            let answer = part.receive::<PartMessage>().unwrap();
            let Some(PartMessage::Trouble(words)) = answer else { panic!("{name}: {answer:?}") };
            assert!(words.starts_with(&format!("{name}=\"/tmp/code.so\" is not taken")), "{words}");
        }
        cluster.finish(7);
        assert_eq!(member.join().unwrap(), Served::Finished(7));
    }

    #[test]
    fn a_leader_that_says_nothing_is_not_waited_for_without_a_limit() {
        let silence = Duration::from_millis(300);
        let (_cluster, member) = job(silence);
        assert_eq!(member.join().unwrap(), Served::Silent(silence));
    }

    #[test]
    fn a_process_with_another_secret_neither_leads_nor_joins() {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let listener = Listener::of(&launch(0, port, "s"), LIMIT).unwrap().unwrap();
        let limit = Duration::from_secs(3);
        let member = std::thread::spawn(move || join(&launch(1, port, "t"), equipment(), limit).err().unwrap());
        let missing = lead(&launch(0, port, "s"), listener, equipment(), limit).unwrap_err();
        assert!(missing.to_string().contains("rank 1"), "{missing}");
        let refused = member.join().unwrap().to_string();
        assert!(refused.contains("another COLLSPEC_SECRET"), "{refused}");
    }
}
