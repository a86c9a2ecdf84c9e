//! The backend of a command, or the message that it is missing.
use super::errors::with_escaped;
use super::exit::Exit;
use super::terminal;
use collspec_core::printable::printable_lines;
use collspec_run::cluster::Equipment;
use collspec_run::run::Allowed;
use collspec_suite::suite::options::{IsFor, NAMED};
use collspec_suite::suite::{BackendMissing, ChosenBackend, RunOptions};
use std::cell::OnceCell;
use std::io::{self, Write};

/// The backend that the options select; it is searched for once.
pub struct Resolved<'a> {
    options: &'a RunOptions,
    found: OnceCell<Result<ChosenBackend, BackendMissing>>,
}

impl<'a> Resolved<'a> {
    /// Nothing is looked for yet.
    pub fn of(options: &'a RunOptions) -> Self {
        Self { options, found: OnceCell::new() }
    }

    fn found(&self) -> &Result<ChosenBackend, BackendMissing> {
        self.found.get_or_init(|| self.options.backend.resolve(&self.options.workers))
    }

    /// The equipment on which this process can run cases, for the other processes of its job.
    pub fn equipment(&self) -> Equipment {
        match self.found() {
            Ok(chosen) => chosen.equipment(),
            Err(missing) => Equipment { libraries: vec![Err(missing.to_string())], gpus: Vec::new() },
        }
    }

    /// The backends and variables that the leading process may have this one use.
    pub fn allowed(&self) -> Allowed {
        let backends = self.found().iter().map(|chosen| chosen.backend.clone()).collect();
        Allowed { backends, env: self.options.reading.allow_env.clone() }
    }

    /// The backend. If it is missing, the standard error says why, and the command ends with the exit code.
    ///
    /// # Errors
    ///
    /// Writing fails.
    pub fn backend(&self) -> io::Result<Result<ChosenBackend, Exit>> {
        match self.found() {
            Ok(chosen) => Ok(Ok(chosen.clone())),
            Err(missing) => missing_backend(missing).map(Err),
        }
    }
}

/// Why nodes in software cannot be in a job.
pub const NODES_IN_A_JOB: &str =
    "--machine and --nodes make nodes in software for one process, and a launcher has started several";

/// Refuses what is of software GPUs where there are none, and nodes in software in a job that a launcher has started on nodes.
pub fn check_software_gpus(options: &RunOptions, chosen: &ChosenBackend) -> anyhow::Result<()> {
    let asked = NAMED.iter().find(|option| option.is_for == IsFor::SoftwareGpus && option.is_set(options));
    if let Some(option) = asked.filter(|_| !chosen.backend.has_software_gpus()) {
        anyhow::bail!("--{} is for software GPUs, and there are none here", option.name);
    }
    let names_machine = options.backend.machine.is_some() || options.backend.nodes.is_some();
    anyhow::ensure!(!names_machine || chosen.cluster.is_none(), NODES_IN_A_JOB);
    Ok(())
}

/// The backend that the options select. If it is missing, the reason is written to stderr, and the command ends with the exit code.
///
/// # Errors
///
/// Writing fails.
pub fn resolve(options: &RunOptions) -> io::Result<Result<ChosenBackend, Exit>> {
    Resolved::of(options).backend()
}

/// Says why the backend is missing.
///
/// # Errors
///
/// Writing fails.
pub fn missing_backend(missing: &BackendMissing) -> io::Result<Exit> {
    let text = with_escaped(missing.to_string(), std::env::args_os());
    writeln!(terminal::err(), "collspec: {}", printable_lines(&text))?;
    Ok(Exit::BACKEND_MISSING)
}
