//! Determines where the processes of a job can meet.
use super::detect::Variables;
use super::{Launcher, Position};

/// The variable with which processes prove that they belong to the job.
pub use crate::child::program::SECRET;

/// The variable that names the place: `HOST:PORT`, on a machine of the job.
pub const MEETING: &str = "COLLSPEC_MEETING";

/// A machine of the job, and ports of it. The first process on that machine listens on the first port that is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeetingPlace {
    /// Names or addresses, all of one machine.
    pub hosts: Vec<String>,
    /// Ports, in the order in which they are tried.
    pub ports: Vec<u16>,
}

/// Number of ports that are tried if the launcher does not give one.
const PORTS: u16 = 8;
/// Ports that are derived from a job's name begin here, and end before those that Linux gives to clients.
const FIRST_PORT: u16 = 20_000;
const DERIVED_PORTS: u16 = 12_000;

/// The place where the processes of this launcher can meet; `None` if the launcher does not provide one.
///
/// # Errors
///
/// A variable that should give the place does not.
pub(super) fn of(
    launcher: Launcher,
    position: Position,
    variables: &Variables,
) -> Result<Option<MeetingPlace>, String> {
    if let Some(text) = variables.get(MEETING) {
        let (host, port) = text.trim().rsplit_once(':').unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        return match port.parse() {
            Ok(port @ 1..) if !host.is_empty() => {
                Ok(Some(MeetingPlace { hosts: vec![host.into()], ports: vec![port] }))
            }
            _ => Err(format!("{MEETING}={text:?} is not HOST:PORT")),
        };
    }
    if launcher == Launcher::Torchrun {
        let (host, port) = (variables.get("MASTER_ADDR"), variables.get("MASTER_PORT"));
        let port = port.and_then(|port| port.trim().parse::<u16>().ok());
        // MASTER_PORT itself is taken by torchrun's own store.
        let ports = port.map(|port| (1..=PORTS).filter_map(|add| port.checked_add(add)).collect::<Vec<_>>());
        return match (host, ports) {
            (Some(host), Some(ports)) if !ports.is_empty() => {
                Ok(Some(MeetingPlace { hosts: vec![host.to_owned()], ports }))
            }
            _ => Err("MASTER_PORT has no port above it that is free for collspec".to_owned()),
        };
    }
    let hosts = if position.local_size == Some(position.size) {
        vec!["127.0.0.1".to_owned()]
    } else {
        match launcher {
            Launcher::OpenMpi => variables.get("OMPI_MCA_orte_hnp_uri").map(addresses_of_mpirun).unwrap_or_default(),
            Launcher::Slurm => {
                let nodes = variables.get("SLURM_STEP_NODELIST").or_else(|| variables.get("SLURM_JOB_NODELIST"));
                nodes.and_then(first_node).into_iter().collect()
            }
            Launcher::Variables | Launcher::Hydra | Launcher::Pals | Launcher::Torchrun => Vec::new(),
        }
    };
    let job = job(launcher, variables);
    if job.is_empty() {
        // Two jobs on one machine would meet each other.
        return Ok(None);
    }
    let ports = derived_ports(&job);
    Ok((!hosts.is_empty()).then_some(MeetingPlace { hosts, ports }))
}

/// The launcher's name for the job; empty if it does not have one.
pub(super) fn job(launcher: Launcher, variables: &Variables) -> String {
    let joined = |names: &[&str]| {
        let values: Vec<&str> = names.iter().filter_map(|name| variables.get(name)).collect();
        values.join(".")
    };
    let own = variables.get("COLLSPEC_JOB").map(str::to_owned);
    own.unwrap_or_else(|| match launcher {
        Launcher::Torchrun => joined(&["TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"]),
        Launcher::OpenMpi => {
            joined(&["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_precondition_transports"])
        }
        Launcher::Slurm => joined(&["SLURM_JOB_ID", "SLURM_STEP_ID"]),
        Launcher::Pals => joined(&["PALS_APID"]),
        Launcher::Variables | Launcher::Hydra => String::new(),
    })
}

/// A value known only to the processes of this job; empty if there is none.
pub(super) fn secret(launcher: Launcher, variables: &Variables) -> String {
    let of_launcher = (launcher == Launcher::OpenMpi).then_some("OMPI_MCA_orte_precondition_transports");
    let names = [Some(SECRET), of_launcher];
    names.into_iter().flatten().find_map(|name| variables.get(name)).unwrap_or_default().to_owned()
}

/// Ports that differ between jobs, and are the same for all processes of one.
fn derived_ports(job: &str) -> Vec<u16> {
    let first = collspec_core::fnv::fnv64(job.as_bytes()) % u64::from(DERIVED_PORTS - PORTS);
    let first = FIRST_PORT.saturating_add(u16::try_from(first).unwrap_or(0));
    (0..PORTS).map(|add| first.saturating_add(add)).collect()
}

/// The addresses in Open MPI 4's description of its mpirun: `123.0;tcp://10.0.0.1,10.1.0.1:33989;tcp6://[fd00::2]:50307`.
fn addresses_of_mpirun(uri: &str) -> Vec<String> {
    let endpoints = uri.split(';').filter_map(|part| part.split_once("://").map(|(_, rest)| rest));
    let lists = endpoints.filter_map(|endpoint| endpoint.rsplit_once(':').map(|(hosts, _)| hosts));
    let hosts = lists.flat_map(|hosts| hosts.trim_matches(['[', ']']).split(','));
    hosts.filter(|host| !host.is_empty()).map(|host| host.trim_matches(['[', ']']).to_owned()).collect()
}

/// The first machine of a list such as `a[003-5,7]-ib,b1`.
fn first_node(list: &str) -> Option<String> {
    let (mut name, mut rest) = (String::new(), list.trim());
    loop {
        let Some(at) = rest.find(['[', ',']) else {
            name.push_str(rest);
            break;
        };
        name.push_str(&rest[..at]);
        if rest[at..].starts_with(',') {
            break;
        }
        let (inside, behind) = rest[at + 1..].split_once(']')?;
        name.push_str(inside.split([',', '-']).next()?);
        rest = behind;
    }
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(launcher: Launcher, local_size: Option<u32>, text: &str) -> Result<Option<MeetingPlace>, String> {
        let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
        let variables = Variables::of(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        of(launcher, Position { rank: 1, size: 4, local_rank: 1, local_size }, &variables)
    }

    #[test]
    fn the_variable_goes_before_what_launchers_say() {
        let given = place(Launcher::OpenMpi, Some(4), "COLLSPEC_MEETING=gpu-1:7000").unwrap().unwrap();
        assert_eq!((given.hosts, given.ports), (vec!["gpu-1".to_owned()], vec![7000]));
        let six = place(Launcher::Hydra, None, "COLLSPEC_MEETING=[fd00::2]:7000").unwrap().unwrap();
        assert_eq!(six.hosts, ["fd00::2"]);
        for wrong in ["gpu-1", "gpu-1:", ":7000", "gpu-1:0", "gpu-1:70000"] {
            let error = place(Launcher::Slurm, None, &format!("COLLSPEC_MEETING={wrong}")).unwrap_err();
            assert!(error.contains("is not HOST:PORT"), "{error}");
        }
    }

    #[test]
    fn the_port_of_torchruns_store_is_left_to_it() {
        let torchrun = place(Launcher::Torchrun, Some(4), "MASTER_ADDR=node1 MASTER_PORT=29500").unwrap().unwrap();
        assert_eq!((torchrun.hosts, torchrun.ports), (vec!["node1".to_owned()], (29501..=29508).collect()));
        let last = place(Launcher::Torchrun, None, "MASTER_ADDR=node1 MASTER_PORT=65535");
        assert!(last.unwrap_err().contains("no port above it"));
    }

    #[test]
    fn jobs_on_one_machine_meet_there_on_ports_of_their_own() {
        let local =
            |job: &str| place(Launcher::OpenMpi, Some(4), &format!("OMPI_MCA_ess_base_jobid={job}")).unwrap().unwrap();
        assert_eq!(local("1").hosts, ["127.0.0.1"]);
        assert_eq!(local("1"), local("1"));
        assert_ne!(local("1").ports, local("2").ports);
        assert!((0..1000).all(|job| local(&job.to_string()).ports.iter().all(|port| (20_000..32_000).contains(port))));
    }

    #[test]
    fn open_mpi_names_the_addresses_of_mpirun() {
        let text = "PMIX_NAMESPACE=7 OMPI_MCA_orte_hnp_uri=203.0;tcp://192.0.2.2,10.1.0.1:33989;tcp6://[fd00::2]:50307";
        let hosts = place(Launcher::OpenMpi, Some(2), text).unwrap().unwrap().hosts;
        assert_eq!(hosts, ["192.0.2.2", "10.1.0.1", "fd00::2"]);
        assert_eq!(place(Launcher::OpenMpi, Some(2), "OMPI_MCA_orte_hnp_uri=nothing"), Ok(None));
        assert_eq!(place(Launcher::Hydra, None, ""), Ok(None), "nothing is known");
    }

    #[test]
    fn slurm_names_its_machines_in_a_short_form() {
        let first = |list: &str| first_node(list).unwrap_or_default();
        assert_eq!(first("gpu01"), "gpu01");
        assert_eq!(first("gpu01,gpu02"), "gpu01");
        assert_eq!(first("gpu[03-5,7],x"), "gpu03");
        assert_eq!(first("r[1-2]n[04,6]-ib,y"), "r1n04-ib");
        assert_eq!(first_node("gpu[1"), None);
        assert_eq!(first_node(""), None);
        let step = "SLURM_STEP_NODELIST=b[2-3] SLURM_JOB_NODELIST=a[1-9] SLURM_JOB_ID=7 SLURM_STEP_ID=0";
        assert_eq!(place(Launcher::Slurm, None, step).unwrap().unwrap().hosts, ["b2"]);
    }
}
