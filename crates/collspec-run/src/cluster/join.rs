//! A member's side of the meeting.
use super::MeetingError;
use super::greeting::{Answer, Challenge, Equipment, Introduction, MemberOrder, Opening, Purpose, Trust};
use super::lead::ends;
use super::secret::{Secret, Side, nonce};
use super::socket::Connection;
use super::variables::Shared;
use crate::job::PROTOCOL;
use crate::job::wire::WireError;
use crate::launch::Launch;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit on the time of a connection attempt.
const CONNECTING: Duration = Duration::from_secs(5);
/// Limit on the time of the leader for each message of a greeting.
const GREETING: Duration = Duration::from_secs(10);
/// First and longest pause between two attempts: the leader may not have started yet.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];

/// A process that has joined.
pub struct Joined {
    orders: Connection,
    leader: SocketAddr,
    secret: Secret,
    /// The leader's variables, for those that this process has not set.
    pub variables: Shared,
}

/// The reason an attempt failed.
enum Failed {
    /// Another one may work.
    Yet(String),
    /// A process of another job has answered. Another attempt may meet the right one; if none does, this is the reason.
    OtherJob(String),
    /// No other one will.
    Refused(String),
}

impl From<WireError> for Failed {
    fn from(error: WireError) -> Self {
        use std::io::ErrorKind::{TimedOut, WouldBlock};
        Self::Yet(match error {
            WireError::Io(error) if matches!(error.kind(), TimedOut | WouldBlock) => {
                "something listens there but does not answer: the port may be taken by another program".to_owned()
            }
            WireError::Garbled(_) => "another program listens there".to_owned(),
            WireError::Io(error) => error.to_string(),
        })
    }
}

/// Joins the leader of the job.
///
/// # Errors
///
/// The launcher gives no address, no leader answers within the limit, or the leader refuses this process.
pub fn join(launch: &Launch, equipment: Equipment, limit: Duration) -> Result<Joined, MeetingError> {
    let place = launch.place.as_ref().map_err(|why| MeetingError::NoPlace(why.clone()))?;
    let secret = Secret::of(&launch.job, &launch.secret);
    let introduction = Introduction::of_this_process(launch.launcher.name(), launch.position, equipment);
    let deadline = Instant::now() + limit;
    let [mut pause, longest] = PAUSES;
    let (mut why, mut other_job) = ("the name has no address".to_owned(), None);
    loop {
        for (host, port) in place.ports.iter().flat_map(|port| place.hosts.iter().map(move |host| (host, *port))) {
            for address in (host.as_str(), port).to_socket_addrs().into_iter().flatten() {
                match greet(address, &secret, Purpose::Join(Box::new(introduction.clone()))) {
                    Ok((orders, variables)) => {
                        // Read only if something has arrived.
                        orders.wait_at_most(Some(GREETING)).map_err(MeetingError::Resources)?;
                        return Ok(Joined { orders, leader: address, secret, variables });
                    }
                    Err(Failed::Refused(words)) => return Err(MeetingError::Refused(words)),
                    Err(Failed::Yet(words)) => why = format!("{address}: {words}"),
                    Err(Failed::OtherJob(words)) => other_job = Some(format!("{address}: {words}")),
                }
            }
        }
        if Instant::now() + pause > deadline {
            let (first, last) = ends(&place.ports);
            let why = other_job.unwrap_or(why);
            return Err(MeetingError::NoLeader { hosts: place.hosts.join(", "), first, last, limit, why });
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(longest);
    }
}

/// Connects to the leader and exchanges greetings.
fn greet(address: SocketAddr, secret: &Secret, purpose: Purpose) -> Result<(Connection, Shared), Failed> {
    let yet = |error: std::io::Error| Failed::Yet(error.to_string());
    let stream = TcpStream::connect_timeout(&address, CONNECTING).map_err(yet)?;
    let connection = Connection::over(stream, &Arc::default()).map_err(yet)?;
    connection.wait_at_most(Some(GREETING)).map_err(yet)?;
    let end = Instant::now() + GREETING;
    let own = nonce().map_err(yet)?;
    connection.send(&Opening::new(own))?;
    let challenge: Challenge = connection.receive_greeting(end)?;
    if challenge.protocol != PROTOCOL {
        let words =
            format!("it speaks protocol {}, this program {PROTOCOL}: all must run the same file", challenge.protocol);
        return Err(Failed::Refused(words));
    }
    // This process proves its knowledge first, and reveals nothing about itself until the leader has proven it too.
    connection.send(&secret.proof(Side::Member, &own, &challenge.nonce))?;
    let trust: Trust = connection.receive_greeting(end)?;
    if trust != Some(secret.proof(Side::Leader, &own, &challenge.nonce)) {
        return Err(Failed::OtherJob(
            "a process of another job, or with another COLLSPEC_SECRET, listens there".into(),
        ));
    }
    connection.send(&purpose)?;
    match connection.receive_greeting(end)? {
        Answer::Welcome(variables) => {
            connection.wait_at_most(None).map_err(yet)?;
            Ok((connection, variables))
        }
        Answer::Refused(words) => Err(Failed::Refused(words)),
    }
}

impl AsFd for Joined {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.orders.as_fd()
    }
}

impl Joined {
    /// The leader's next order; `None` if the leader is gone.
    pub fn next_order(&self) -> Option<MemberOrder> {
        self.orders.receive().ok().flatten()
    }

    /// A connection for the part with this number.
    ///
    /// # Errors
    ///
    /// The leader does not answer, in words.
    pub fn connect_part(&self, number: u64) -> Result<Connection, String> {
        let deadline = Instant::now() + GREETING;
        let [mut pause, longest] = PAUSES;
        loop {
            match greet(self.leader, &self.secret, Purpose::Part(number)) {
                Ok((connection, _)) => return Ok(connection),
                // The leader closes connections while it greets too many.
                Err(Failed::Yet(_)) if Instant::now() + pause < deadline => {}
                Err(Failed::Yet(words) | Failed::OtherJob(words) | Failed::Refused(words)) => return Err(words),
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(longest);
        }
    }
}
