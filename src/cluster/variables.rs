//! The variables that must be the same for all processes of a job. mpirun does not carry the environment to other machines, so the
//! leader's are carried, and what a process has set otherwise is refused.
use crate::launch;
use std::collections::BTreeMap;

/// Prefixes of variables that change what a library or this program does.
const PREFIXES: [&str; 2] = ["NCCL_", "COLLSPEC_"];
/// Those of them that say something of one process or one machine, or reach no worker.
const OF_ONE: &[&str] = &[
    "COLLSPEC_WORKER",
    "COLLSPEC_WORKER_DEVICE",
    "COLLSPEC_WORKER_NCCL",
    "NCCL_COMM_ID",
    "NCCL_DEBUG_FILE",
    "NCCL_HOSTID",
    "NCCL_IB_HCA",
    "NCCL_SOCKET_IFNAME",
    "NCCL_TOPO_FILE",
];

/// Variables by name.
pub type Shared = BTreeMap<String, String>;

/// Those of this process.
pub fn of_this_process() -> Shared {
    let all =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    all.filter(|(name, _)| is_shared(name)).collect()
}

fn is_shared(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        && !OF_ONE.contains(&name)
        && !launch::VARIABLES.contains(&name)
}

/// How a member's variables contradict the leader's, in words; what the member has not set is carried to it.
pub fn contradiction(leader: &Shared, member: &Shared, leader_name: &str, member_name: &str) -> Option<String> {
    member.iter().find_map(|(name, theirs)| match leader.get(name) {
        Some(ours) if ours == theirs => None,
        Some(ours) => Some(format!("{name} differs: {ours:?} in {leader_name}, {theirs:?} in {member_name}")),
        None => Some(format!("{name} differs: it is not set in {leader_name}, and {theirs:?} in {member_name}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(pairs: &[(&str, &str)]) -> Shared {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_missing_is_carried_and_what_differs_is_named_with_both_sides() {
        let leader = shared(&[("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "LL")]);
        let differs = |member: &[(&str, &str)]| contradiction(&leader, &shared(member), "rank 0 on a", "rank 3 on b");
        assert_eq!(differs(&[]), None);
        assert_eq!(differs(&[("NCCL_ALGO", "Ring")]), None);
        let words = differs(&[("NCCL_ALGO", "Tree")]).unwrap();
        assert_eq!(words, "NCCL_ALGO differs: \"Ring\" in rank 0 on a, \"Tree\" in rank 3 on b");
        let words = differs(&[("NCCL_NTHREADS", "64")]).unwrap();
        assert_eq!(words, "NCCL_NTHREADS differs: it is not set in rank 0 on a, and \"64\" in rank 3 on b");
    }

    #[test]
    fn variables_of_one_process_are_not_compared() {
        assert!(is_shared("NCCL_ALGO") && is_shared("COLLSPEC_TIMEOUT"));
        assert!(!is_shared("NCCL_SOCKET_IFNAME") && !is_shared("COLLSPEC_RANK") && !is_shared("PATH"));
    }
}
