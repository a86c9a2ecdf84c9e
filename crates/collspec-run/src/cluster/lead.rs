//! The leader's side of the meeting: it listens, greets the processes that connect, and waits for all.
use super::door::{Door, Place};
use super::greeting::{Answer, Challenge, Equipment, Introduction, MAGIC, MemberOrder, Opening, Purpose, Trust};
use super::leader::Cluster;
use super::member::{Member, PartsToCome};
use super::secret::{Proof, Secret, Side, nonce};
use super::socket::Connection;
use super::traffic::Traffic;
use super::{MeetingError, variables};
use crate::job::PROTOCOL;
use crate::launch::Launch;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Limit on the time of a process for its greeting.
const GREETING: Duration = Duration::from_secs(10);
/// Time between two looks for the name of the place.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause after no connection could be accepted.
const NO_DESCRIPTORS: Duration = Duration::from_millis(10);
/// Connections that may wait to be accepted: all processes of a job come at once.
const WAITING: i32 = 4096;
/// Interval of the messages that tell members that this process is still alive.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The port of a job, held by the process that leads.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// The listener if this process leads: the first process on the machine where the job meets. With torchrun this need not be
    /// rank 0. `None` for all other processes.
    ///
    /// # Errors
    ///
    /// The launcher does not give an address, or no port is free.
    pub fn of(launch: &Launch, limit: Duration) -> Result<Option<Self>, MeetingError> {
        let place = launch.place.as_ref().map_err(|why| MeetingError::NoPlace(why.clone()))?;
        if launch.position.local_rank != 0 {
            return Ok(None);
        }
        // The name of a container may be known only when it has started.
        let deadline = Instant::now() + limit;
        while place.hosts.iter().all(|host| addresses(host).is_empty()) && Instant::now() + PAUSE < deadline {
            std::thread::sleep(PAUSE);
        }
        // Machines may have one of several addresses in common, as those of bridges.
        if !place.hosts.iter().all(|host| is_here(host)) {
            return Ok(None);
        }
        // The name of a machine may be an address of its loopback device there, and another one elsewhere.
        let literal = |host: &String| host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let own_only = launch.position.local_size == Some(launch.position.size);
        let local = place.hosts.iter().find(|host| own_only || literal(host));
        let local = local.and_then(|host| addresses(host).into_iter().find(IpAddr::is_loopback));
        let mut why = io::Error::from(io::ErrorKind::AddrInUse);
        for port in &place.ports {
            match bind(local, *port) {
                Ok(listener) => return Ok(Some(Self(listener))),
                Err(error) => why = error,
            }
        }
        let (first, last) = ends(&place.ports);
        Err(MeetingError::NoPort { hosts: place.hosts.join(", "), first, last, source: why })
    }
}

/// The first and the last of some ports.
pub(super) fn ends(ports: &[u16]) -> (u16, u16) {
    (ports.first().copied().unwrap_or(0), ports.last().copied().unwrap_or(0))
}

/// The addresses of a name; empty if it has none.
fn addresses(host: &str) -> Vec<IpAddr> {
    (host, 0).to_socket_addrs().map(|all| all.map(|address| address.ip()).collect()).unwrap_or_default()
}

/// True if the name refers to this machine: only its own addresses can be bound.
fn is_here(host: &str) -> bool {
    addresses(host).into_iter().any(|address| TcpListener::bind(SocketAddr::new(address, 0)).is_ok())
}

/// Listens on this address of the loopback device, or on all devices.
fn bind(local: Option<IpAddr>, port: u16) -> io::Result<TcpListener> {
    let listener = match local {
        Some(address) => TcpListener::bind((address, port))?,
        None => TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Err(error),
            _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
        })?,
    };
    rustix::net::listen(&listener, WAITING)?;
    Ok(listener)
}

/// The processes that have arrived.
#[derive(Default)]
struct Come {
    members: BTreeMap<u32, Arc<Member>>,
    /// The description of two processes that differ in something that must be the same.
    mixed: Option<String>,
}

struct Meeting {
    secret: Secret,
    own: Introduction,
    come: Mutex<Come>,
    news: Condvar,
    parts: Arc<PartsToCome>,
    door: Arc<Door>,
    traffic: Arc<Traffic>,
}

impl Meeting {
    fn come(&self) -> MutexGuard<'_, Come> {
        self.come.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until all processes of the job have arrived.
///
/// # Errors
///
/// Some have not arrived in time, or two differ in something that must be the same.
pub fn lead(
    launch: &Launch,
    listener: Listener,
    equipment: Equipment,
    limit: Duration,
) -> Result<Cluster, MeetingError> {
    let meeting = Arc::new(Meeting {
        secret: Secret::of(&launch.job, &launch.secret),
        own: Introduction::of_this_process(launch.launcher.name(), launch.position, equipment),
        come: Mutex::default(),
        news: Condvar::new(),
        parts: Arc::default(),
        door: Arc::default(),
        traffic: Arc::default(),
    });
    let door = meeting.clone();
    let accept = move || accept_all(&listener.0, &door);
    std::thread::Builder::new().name("meeting".into()).spawn(accept).map_err(MeetingError::Resources)?;
    let heart = meeting.clone();
    let beat = move || {
        loop {
            std::thread::sleep(HEARTBEAT);
            let members: Vec<Arc<Member>> = heart.come().members.values().cloned().collect();
            members.iter().for_each(|member| member.tell(&MemberOrder::GoOn));
        }
    };
    std::thread::Builder::new().name("heartbeat".into()).spawn(beat).map_err(MeetingError::Resources)?;
    let size = launch.position.size;
    let still_to_come = |come: &mut Come| come.members.len() + 1 < size as usize && come.mixed.is_none();
    let waited = meeting.news.wait_timeout_while(meeting.come(), limit, still_to_come);
    let (mut come, _) = waited.unwrap_or_else(PoisonError::into_inner);
    if let Some(words) = come.mixed.take() {
        return Err(MeetingError::Mixed(words));
    }
    let here = |rank: &u32| *rank == meeting.own.rank || come.members.contains_key(rank);
    let missing: Vec<u32> = (0..size).filter(|rank| !here(rank)).collect();
    if !missing.is_empty() {
        return Err(MeetingError::Missing { missing, size, limit });
    }
    Ok(Cluster::new(meeting.own.clone(), come.members.values().cloned().collect(), meeting.traffic.clone()))
}

/// Accepts connections until the process ends. Each connection is greeted on a new thread.
fn accept_all(listener: &TcpListener, meeting: &Arc<Meeting>) {
    for stream in listener.incoming() {
        let accepted = stream.and_then(|stream| Connection::over(stream, &meeting.traffic));
        let entered = accepted.and_then(|connection| Ok((meeting.door.enter(&connection)?, connection)));
        let Ok((place, connection)) = entered else {
            std::thread::sleep(NO_DESCRIPTORS);
            continue;
        };
        let own = meeting.clone();
        // A connection that fails the greeting is not from a process of this job, and is closed.
        let body = move || _ = greet(&own, connection, place);
        // Without a thread the connection is closed, and its process tries again.
        let _ = std::thread::Builder::new().name("greeting".into()).spawn(body);
    }
}

fn greet(meeting: &Arc<Meeting>, connection: Connection, place: Place) -> Result<(), crate::job::wire::WireError> {
    connection.wait_at_most(Some(GREETING))?;
    let end = Instant::now() + GREETING;
    let opening: Opening = connection.receive_greeting(end)?;
    if opening.magic != MAGIC {
        return Ok(());
    }
    let own = nonce()?;
    connection.send(&Challenge { protocol: PROTOCOL, nonce: own })?;
    if opening.protocol != PROTOCOL {
        return Ok(());
    }
    let proof: Proof = connection.receive_greeting(end)?;
    if proof != meeting.secret.proof(Side::Member, &opening.nonce, &own) {
        return connection.send(&Trust::None);
    }
    drop(place);
    connection.send(&Trust::Some(meeting.secret.proof(Side::Leader, &opening.nonce, &own)))?;
    match connection.receive_greeting(end)? {
        Purpose::Part(number) => {
            connection.send(&Answer::Welcome(Default::default()))?;
            connection.wait_at_most(None)?;
            meeting.parts.bring(number, connection);
            Ok(())
        }
        Purpose::Join(introduction) => admit(meeting, connection, *introduction),
    }
}

/// Admits a process, or refuses it; a refusal because of its introduction ends the meeting.
fn admit(
    meeting: &Arc<Meeting>,
    connection: Connection,
    introduction: Introduction,
) -> Result<(), crate::job::wire::WireError> {
    let mut come = meeting.come();
    let refusal = refusal(&meeting.own, &come.members, &introduction);
    if let Some(words) = refusal {
        let sent = connection.send(&Answer::Refused(words.clone()));
        come.mixed.get_or_insert(words);
        meeting.news.notify_all();
        return sent;
    }
    connection.send(&Answer::Welcome(variables::carried(&meeting.own.variables)))?;
    connection.wait_at_most(None)?;
    let rank = introduction.rank;
    let member = Member::new(introduction, connection, meeting.parts.clone())?;
    come.members.insert(rank, member);
    meeting.news.notify_all();
    Ok(())
}

/// The reason the process cannot belong to this job; both sides are named.
fn refusal(own: &Introduction, members: &BTreeMap<u32, Arc<Member>>, new: &Introduction) -> Option<String> {
    let (us, them) = (own.name(), new.name());
    if new.size != own.size {
        return Some(format!("{us} is one of {} processes, {them} one of {}", own.size, new.size));
    }
    let same = members.get(&new.rank).map(|member| member.introduction().clone());
    if let Some(other) = same.or_else(|| (new.rank == own.rank).then(|| own.clone())) {
        return Some(format!(
            "two processes are rank {}: {} (pid {}) and {them} (pid {})",
            new.rank,
            other.name(),
            other.pid,
            new.pid
        ));
    }
    if new.rank >= own.size {
        return Some(format!("{them} is one of {} processes, which are numbered from 0", own.size));
    }
    if new.program != own.program {
        return Some(format!(
            "{us} runs collspec {}, {them} runs collspec {}: all must run the same file",
            own.program, new.program
        ));
    }
    if new.launcher != own.launcher {
        return Some(format!("{us} was started by {}, {them} by {}", own.launcher, new.launcher));
    }
    let equipment = own.equipment.refusal(&new.equipment, &us, &them);
    equipment.or_else(|| variables::contradiction(&own.variables, &new.variables, &us, &them))
}
