//! The header of a run that begins now.
use super::{FORMAT, Header, LibraryIdentity, RecordedDevice};
use collspec_suite::report::InheritedVariables;
use collspec_suite::suite::{ChosenBackend, RunOptions};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

impl Header {
    /// The header of a run that begins now, on this backend with these options.
    pub fn new(chosen: &ChosenBackend, options: &RunOptions) -> Self {
        let mut environment = BTreeMap::from_iter(InheritedVariables::here().pairs().iter().cloned());
        environment.extend(options.variables.iter().cloned());
        let machine = chosen.machine.as_deref();
        let device = |device: &collspec_run::backend::cuda::DeviceInfo| RecordedDevice {
            name: device.name.clone(),
            compute: format!("{}.{}", device.compute.0, device.compute.1),
        };
        Self {
            collspec_recording: FORMAT,
            collspec: env!("CARGO_PKG_VERSION").to_owned(),
            library: LibraryIdentity::new(chosen),
            driver: machine.and_then(|machine| machine.gpus.version),
            devices: machine.map(|machine| machine.gpus.devices.iter().map(device).collect()).unwrap_or_default(),
            environment,
            options: options.to_repeat(),
            seed: options.variation.seed.unwrap_or(0),
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            footprint: None,
            tuning: None,
        }
    }
}

impl Header {
    /// The devices by kind, such as `8 x NVIDIA H100 80GB HBM3`.
    pub fn devices_in_words(&self) -> Vec<String> {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for device in &self.devices {
            *kinds.entry(device.name.as_str()).or_default() += 1;
        }
        kinds.into_iter().map(|(name, count)| format!("{count} x {name}")).collect()
    }

    /// The machine that software GPUs were given, such as `2 nodes of dgx-h100`; `None` if it was not named.
    pub fn machine_in_words(&self) -> Option<String> {
        let value = |name: &str| self.options.iter().skip_while(|word| *word != name).nth(1).map(String::as_str);
        match (value("--machine"), value("--nodes")) {
            (None, None) => None,
            (machine, None | Some("1")) => machine.map(str::to_owned),
            (machine, Some(nodes)) => Some(format!("{nodes} nodes of {}", machine.unwrap_or("software GPUs"))),
        }
    }

    /// True if the library ran on software GPUs.
    pub fn has_software_gpus(&self) -> bool {
        self.devices.iter().any(|device| device.name == collspec_run::backend::software_gpus::NAME)
    }
}

impl LibraryIdentity {
    /// The facts about the library that are known before anything runs.
    pub fn new(chosen: &ChosenBackend) -> Self {
        let backend = chosen.backend.name().to_owned();
        let Some(machine) = chosen.machine.as_deref() else {
            let functions = nccl_sys::Nccl::SYMBOLS.iter().map(|(name, _)| *name);
            let table = collspec_run::backend::Library::new(soft_nccl::table());
            let has = table.symbols();
            let functions = functions.filter(|name| has.contains(name)).map(str::to_owned).collect();
            let version = collspec_run::backend::version_text(soft_nccl::VERSION);
            return Self { backend, version, functions, ..Self::default() };
        };
        // A library that was loaded can be read; if it went away since, nothing is known of the file.
        let facts = crate::fetch::elf::read(&machine.library).unwrap_or_default();
        let of_nccl = |name: &String| name.starts_with("nccl") || name.starts_with("pnccl");
        Self {
            backend,
            version: machine.probed.version_text(),
            path: Some(machine.library.display().to_string()),
            build_id: facts.build_id,
            sha256: sha256(&machine.library).ok(),
            functions: machine.probed.symbols.clone(),
            exports: facts.exports.into_iter().filter(of_nccl).collect(),
            unoptimised: facts.unoptimised,
        }
    }
}

/// The hash of a file in hexadecimal. It is read piece by piece: a library can have hundreds of megabytes.
fn sha256(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    loop {
        let piece = file.fill_buf()?;
        if piece.is_empty() {
            break;
        }
        hash.update(piece);
        let read = piece.len();
        file.consume(read);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
