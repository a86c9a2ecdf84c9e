//! The variables that must be the same for all processes of a job. mpirun does not pass the environment to other machines, so the
//! leader's variables are sent, and a process that has set one differently is refused. A variable by which code could be loaded or a file
//! written is never sent: the leader must not be able to do more with a member than run collectives.
use crate::launch;
use collspec_core::scenario::AllowEnv;
use std::collections::BTreeMap;

/// Prefixes of variables that change the behaviour of a library or of this program.
const PREFIXES: [&str; 2] = ["NCCL_", "COLLSPEC_"];
/// Those of them that say something of one process or one machine, or reach no worker.
const OF_ONE: &[&str] = &[
    "COLLSPEC_SOFT_TRACE",
    "COLLSPEC_WORKER",
    "COLLSPEC_WORKER_DEVICE",
    "COLLSPEC_WORKER_FAULTS",
    "COLLSPEC_WORKER_NCCL",
    "NCCL_COMM_ID",
    "NCCL_DEBUG_FILE",
    "NCCL_HOSTID",
    "NCCL_IB_HCA",
    "NCCL_SOCKET_IFNAME",
    "NCCL_TOPO_FILE",
];

/// Those of this program's own that workers know.
const OWN: [&str; 12] = [
    "COLLSPEC_SOFT_ARITHMETIC",
    "COLLSPEC_SOFT_CONNECT",
    "COLLSPEC_SOFT_EAGER",
    "COLLSPEC_SOFT_NETWORK",
    "COLLSPEC_SOFT_SEED",
    "COLLSPEC_SOFTWARE_GPUS",
    "COLLSPEC_SOFTWARE_NVLINKS",
    "COLLSPEC_SOFTWARE_SWITCH",
    "COLLSPEC_STANDIN_DEVICES",
    "COLLSPEC_STANDIN_DRIVER",
    "COLLSPEC_STANDIN_FAULT",
    "COLLSPEC_WORKER_FAULTS",
];

/// Variables, with their values by name.
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

/// True if the variable only chooses how NCCL or the software library works, or was allowed by name.
pub fn is_harmless(name: &str, value: &str, allowed: &AllowEnv) -> bool {
    OWN.contains(&name) || allowed.admits(name, value)
}

/// Those of the leader's variables that others get.
pub fn carried(leader: &Shared) -> Shared {
    let harmless = |(name, value): &(&String, &String)| is_harmless(name, value, &AllowEnv::default());
    leader.iter().filter(harmless).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Describes how a member's variables contradict the leader's; those that the member has not set are sent to it, if they are harmless.
pub fn contradiction(leader: &Shared, member: &Shared, leader_name: &str, member_name: &str) -> Option<String> {
    let differs = member.iter().find_map(|(name, theirs)| match leader.get(name) {
        Some(ours) if ours == theirs => None,
        Some(ours) => Some(format!("{name} differs: {ours:?} in {leader_name}, {theirs:?} in {member_name}")),
        None => Some(format!("{name} differs: it is not set in {leader_name}, and {theirs:?} in {member_name}")),
    });
    let carried = carried(leader);
    let missing = || {
        leader
            .keys()
            .find(|name| name.starts_with("NCCL_") && !member.contains_key(*name) && !carried.contains_key(*name))
    };
    differs.or_else(|| {
        let name = missing()?;
        Some(format!(
            "{name} is set in {leader_name} and not in {member_name}, and is not carried there, because it could load code or write a file: \
             have the launcher set it for all (mpirun -x {name})"
        ))
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
    fn what_could_load_code_is_not_carried() {
        let leader = shared(&[("NCCL_ALGO", "Ring"), ("NCCL_NET_PLUGIN", "/tmp/x.so"), ("COLLSPEC_SOFT_SEED", "3")]);
        assert_eq!(carried(&leader), shared(&[("NCCL_ALGO", "Ring"), ("COLLSPEC_SOFT_SEED", "3")]));
        let words = contradiction(&leader, &shared(&[]), "rank 0 on a", "rank 3 on b").unwrap();
        assert!(words.starts_with("NCCL_NET_PLUGIN is set in rank 0 on a and not in rank 3 on b"), "{words}");
        assert_eq!(contradiction(&leader, &shared(&[("NCCL_NET_PLUGIN", "/tmp/x.so")]), "a", "b"), None);
        let harmless = |name: &str, value: &str| is_harmless(name, value, &AllowEnv::default());
        for name in [
            "LD_PRELOAD",
            "LD_AUDIT",
            "LD_LIBRARY_PATH",
            "PATH",
            "NCCL_TUNER_PLUGIN",
            "NCCL_CONF_FILE",
            "NCCL_DEBUG_FILE",
            "COLLSPEC_PROBE",
            "COLLSPEC_WORKER",
            "COLLSPEC_WORKER_NCCL",
            "COLLSPEC_STANDIN",
            "GLIBC_TUNABLES",
        ] {
            assert!(!harmless(name, "x"), "{name}");
        }
        assert!(harmless("NCCL_NET", "Socket") && !harmless("NCCL_NET", "x"), "another network is a library");
        let allowed = AllowEnv::from_names(&["NCCL_NET_PLUGIN".to_owned()]);
        assert!(is_harmless("NCCL_NET_PLUGIN", "x", &allowed));
    }

    #[test]
    fn variables_of_one_process_are_not_compared() {
        assert!(is_shared("NCCL_ALGO") && is_shared("COLLSPEC_TIMEOUT"));
        assert!(!is_shared("NCCL_SOCKET_IFNAME") && !is_shared("COLLSPEC_RANK") && !is_shared("PATH"));
    }
}
