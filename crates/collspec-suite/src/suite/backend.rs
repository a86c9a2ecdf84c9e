//! The backend that was requested, and the one that is used.
use crate::report::InheritedVariables;
use crate::suite::driver::{DriverRequest, STAND_IN};
use collspec_run::backend::cuda::DriverState;
use collspec_run::backend::{software_gpus, version_text};
use collspec_run::child::Workers;
use collspec_run::cluster::{Cluster, Equipment, hash_of_file};
use collspec_run::library::{self, LibraryInfo, standin};
use collspec_run::machines::MachineProfile;
use collspec_run::run::{Backend, Driver, Machine, SoftwareCluster, gpus};
use nccl_sys::Maker;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// A backend as named on the command line and in COLLSPEC_BACKEND.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// NCCL if it can be used, else the software library.
    #[default]
    Auto,
    /// The software implementation of NCCL's interface.
    Soft,
    /// A real NCCL library on GPUs.
    Nccl,
}

impl BackendChoice {
    /// The backend's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Soft => "soft",
            Self::Nccl => "nccl",
        }
    }

    /// Parses a backend's name.
    ///
    /// # Errors
    ///
    /// The text is not the name of a backend; the message lists the names.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "soft" => Ok(Self::Soft),
            "nccl" => Ok(Self::Nccl),
            "gpu" | "cuda" => Err("did you mean nccl? the backends are auto, soft and nccl".to_owned()),
            _ => Err("the backends are auto, soft and nccl".to_owned()),
        }
    }
}

/// The backend that a run requires; without it the run fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The software library, which is always available.
    Soft,
    /// A real NCCL library on GPUs.
    Nccl,
    /// A real NCCL library, on GPUs or software GPUs.
    NcclSoftware,
}

impl Requirement {
    /// Parses a requirement's name.
    ///
    /// # Errors
    ///
    /// The text is not the name of a requirement; the message lists the names.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "soft" => Ok(Self::Soft),
            "nccl" => Ok(Self::Nccl),
            "nccl-software" => Ok(Self::NcclSoftware),
            "gpu" | "cuda" => Err("did you mean nccl? a run can require nccl, nccl-software or soft".to_owned()),
            _ => Err("expected nccl, nccl-software (which software GPUs meet too) or soft".to_owned()),
        }
    }
}

/// The required backend is not the one that would run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BackendMissing {
    /// No NCCL library or no suitable device was found.
    #[error("the backend nccl is required but missing: {0}")]
    Nccl(String),
    /// The software library is required, but the options ask for a real one.
    #[error("the backend soft is required, but {0}")]
    NotSoft(String),
}

impl BackendMissing {
    /// The reason without the name of the backend.
    pub fn why(&self) -> &str {
        match self {
            Self::Nccl(why) | Self::NotSoft(why) => why,
        }
    }
}

/// The backend that a run requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendRequest {
    /// The backend as named in the options.
    pub backend: BackendChoice,
    /// The backend without which the run fails.
    pub require: Option<Requirement>,
    /// The NCCL library: a file or a version.
    pub nccl: Option<String>,
    /// The driver of the library's devices.
    pub driver: DriverRequest,
    /// The machine that software GPUs are: the name of a profile, or a file.
    pub machine: Option<String>,
    /// The number of nodes with software GPUs; one if unset.
    pub nodes: Option<NonZeroUsize>,
}

/// The end of a message about which `collspec doctor` says more.
pub const DOCTOR: &str = "; `collspec doctor` says more";

/// How to get a library: the command that fetches the newest one whose functions are all known.
pub fn fetching_words() -> String {
    format!("`collspec nccl fetch {}` gets one", version_text(soft_nccl::VERSION))
}

/// The backend that will run.
#[derive(Clone, Debug, Default)]
pub struct ChosenBackend {
    /// The selected backend.
    pub backend: Backend,
    /// GPUs, driver and library, if the backend is nccl.
    pub machine: Option<Arc<Machine>>,
    /// The processes of the job, if a launcher has started several.
    pub cluster: Option<Arc<Cluster>>,
    /// The reason `auto` did not choose nccl, if the machine has some of what nccl needs.
    pub instead: Option<String>,
}

impl ChosenBackend {
    /// True for a library on software GPUs, where work is counted and times are meaningless.
    pub fn counts_work(&self) -> bool {
        self.machine.as_ref().is_some_and(|machine| matches!(machine.gpus.state, DriverState::Software(_)))
    }

    /// The version code of the library if it is NVIDIA's.
    pub fn nvidia_version(&self) -> Option<i32> {
        let probed = self.machine.as_ref().map(|machine| &machine.probed);
        probed.filter(|probed| probed.maker == Maker::Nvidia).map(|probed| probed.version)
    }
}

impl BackendRequest {
    /// Determines the backend that will run. `workers` names the program that queries drivers and libraries.
    ///
    /// # Errors
    ///
    /// The requested backend is not available, or a library or driver that was named cannot be used.
    pub fn resolve(&self, workers: &Workers) -> Result<ChosenBackend, BackendMissing> {
        let required = matches!(self.require, Some(Requirement::Nccl | Requirement::NcclSoftware));
        // naming a library asks for the nccl backend
        let wanted = required || self.backend == BackendChoice::Nccl || self.nccl.is_some();
        match self.backend {
            BackendChoice::Soft if required => Err(BackendMissing::Nccl("the backend soft was asked for".into())),
            BackendChoice::Soft => Ok(ChosenBackend::default()),
            _ if self.require == Some(Requirement::Soft) => match &self.nccl {
                Some(library) => Err(BackendMissing::NotSoft(format!("the library {library} is named"))),
                None if wanted => Err(BackendMissing::NotSoft("the backend nccl was asked for".into())),
                None => Ok(ChosenBackend::default()),
            },
            _ if wanted => self.nccl(workers).map_err(BackendMissing::Nccl),
            // if the kernel has no device, no driver is loaded: it could only report that
            _ if self.driver == DriverRequest::Auto && !gpus::are_likely() => Ok(ChosenBackend::default()),
            _ => Ok(self
                .nccl(workers)
                .unwrap_or_else(|why| ChosenBackend { instead: Some(why), ..ChosenBackend::default() })),
        }
    }

    /// The library requested by path or version, with its version and functions, or what is wrong with it.
    pub fn named_library(&self, workers: &Workers) -> Option<Result<(PathBuf, LibraryInfo), String>> {
        let spec = self.nccl.as_ref()?;
        let path = if spec == STAND_IN {
            match standin::library() {
                Ok(path) => path.display().to_string(),
                Err(error) => return Some(Err(super::with_causes(&error))),
            }
        } else {
            spec.clone()
        };
        let chosen = library::choose(&path, workers).map_err(|error| super::with_causes(&error));
        Some(chosen.map(|chosen| (chosen.path, chosen.probed)))
    }

    /// The nccl backend, or the reason it is not available.
    fn nccl(&self, workers: &Workers) -> Result<ChosenBackend, String> {
        // First, because a mistyped name is wrong on every machine.
        let named = self.named_library(workers).transpose()?;
        let brings_kernels = matches!(&named, Some((_, probed)) if probed.maker == Maker::Collspec);
        let slimmed = named.as_ref().filter(|(_, probed)| probed.slimmed);
        let gpus_only = self.require == Some(Requirement::Nccl);
        let driver = match &self.driver {
            // The machine's own driver gives the best error message about itself.
            DriverRequest::Auto if gpus_only => Driver::Machine,
            DriverRequest::Auto if slimmed.is_some() || self.names_machine() => Driver::Software,
            asked => asked.resolve(brings_kernels)?,
        };
        let software = self.software_cluster(&driver)?;
        let description = software.as_ref().and_then(SoftwareCluster::description);
        if driver == Driver::Software && gpus_only {
            return Err("software GPUs are not GPUs; `--require nccl-software` admits them".into());
        }
        if let (Some((path, probed)), true) = (slimmed, driver != Driver::Software) {
            let (path, version) = (path.display(), probed.version_text());
            return Err(format!(
                "{path} is slimmed: it has no machine code for GPUs and runs on software GPUs alone; \
                 `collspec nccl fetch {version}` gets the whole library"
            ));
        }
        let gpus = driver.devices(workers, description.as_deref()).map_err(|error| error.to_string())?;
        if gpus.devices.is_empty() {
            return Err(format!("{}; without GPUs, `--driver software` runs it{DOCTOR}", gpus.state));
        }
        let (path, probed) = match named {
            Some(named) => named,
            None => {
                let mut found = library::find_libraries(workers).into_iter();
                let can_serve = |(path, probed): &(PathBuf, LibraryInfo)| match driver {
                    Driver::Software => software_gpus::check(path).is_ok(),
                    _ => !probed.slimmed,
                };
                let usable = found.find_map(|found| Some((found.path, found.probed.ok()?)).filter(can_serve));
                usable.ok_or_else(|| format!("no NCCL library was found; {}", fetching_words()))?
            }
        };
        if driver == Driver::Software {
            software_gpus::check(&path).map_err(|error| {
                format!("{} cannot run on software GPUs: {}", path.display(), super::with_causes(&error))
            })?;
        }
        if path.to_str().is_none() {
            return Err(format!("{}: a library's path must be UTF-8", path.display()));
        }
        let machine = Machine { gpus, library: path.clone(), probed, software };
        Ok(ChosenBackend {
            backend: Backend::Nccl { library: path, driver },
            machine: Some(Arc::new(machine)),
            cluster: None,
            instead: None,
        })
    }
}

impl BackendRequest {
    /// True if software GPUs are described, which asks for them.
    fn names_machine(&self) -> bool {
        self.machine.is_some() || self.nodes.is_some()
    }

    /// The nodes with software GPUs; an error if GPUs of this machine were to be those of another one.
    fn software_cluster(&self, driver: &Driver) -> Result<Option<SoftwareCluster>, String> {
        if *driver != Driver::Software {
            let refused = "--machine and --nodes are for software GPUs, and cases are to run on GPUs";
            return if self.names_machine() { Err(refused.to_owned()) } else { Ok(None) };
        }
        let profile = self.machine.as_deref().map(MachineProfile::find).transpose();
        let profile = profile.map_err(|error| error.to_string())?;
        let nodes = self.nodes.unwrap_or(NonZeroUsize::MIN);
        SoftwareCluster::new(profile, nodes).map(Some).map_err(|error| super::with_causes(&error))
    }
}

impl ChosenBackend {
    /// A text that identifies the library file and the GPUs: equal only for equal files at the same place. Workers on all machines
    /// use the leading process's paths.
    pub fn equipment(&self) -> Equipment {
        let (Some(machine), Backend::Nccl { library, driver }) = (&self.machine, &self.backend) else {
            let words = format!("the backend {}", self.backend.name());
            return Equipment { libraries: vec![Ok(Some(words))], gpus: Vec::new() };
        };
        let hash = hash_of_file(library).map_err(|error| format!("{}: {error}", library.display()));
        let of = match driver {
            Driver::Machine => String::new(),
            Driver::Folder(folder) => format!(" with the driver in {}", folder.display()),
            Driver::Software => " on software GPUs".to_owned(),
        };
        let version = version_text(machine.probed.version);
        let words = hash.map(|hash| Some(format!("NCCL {version} ({}, hash {hash:016x}){of}", library.display())));
        Equipment { libraries: vec![words], gpus: machine.gpus.devices.clone() }
    }

    /// Library, driver and devices in one line, or what replaces them.
    pub fn describe(&self) -> String {
        let software = || "NCCL's interface in software, no GPU".to_owned();
        self.machine.as_ref().map_or_else(software, |machine| machine.describe())
    }

    /// The version of NCCL whose interface the library has.
    pub fn library_version(&self) -> String {
        version_text(self.machine.as_ref().map_or(soft_nccl::VERSION, |machine| machine.probed.version))
    }

    /// One line for the standard error: what runs the cases, and in what environment.
    pub fn banner(&self, inherited: &InheritedVariables) -> String {
        let mut words = self.describe();
        if let Some(why) = &self.instead {
            words.push_str(&format!(" (not nccl: {why})"));
        }
        let variables = inherited.as_shell_words();
        if !variables.is_empty() {
            words.push_str(&format!("; inherited: {}", variables.join(" ")));
        }
        format!("collspec {}, backend {}: {words}", env!("CARGO_PKG_VERSION"), self.backend.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_backend_is_never_replaced_in_silence() {
        use BackendChoice::{Auto, Nccl, Soft};
        // a program that never calls `enter_if_asked` cannot be queried
        let workers = Workers::Command("/no/such/program".into());
        let resolve = |backend, require, nccl: Option<&str>| {
            BackendRequest {
                backend,
                require,
                nccl: nccl.map(str::to_owned),
                driver: DriverRequest::Auto,
                ..BackendRequest::default()
            }
            .resolve(&workers)
        };
        assert!(resolve(Soft, Some(Requirement::Soft), None).is_ok());
        assert!(resolve(Soft, None, None).is_ok());
        assert!(resolve(Soft, Some(Requirement::Nccl), None).is_err());
        assert_eq!(resolve(Auto, Some(Requirement::Soft), None).unwrap().backend, Backend::Soft);
        let words = |refused: Result<ChosenBackend, BackendMissing>| refused.unwrap_err().to_string();
        let named = "the backend soft is required, but the library 2.30.7 is named";
        assert_eq!(words(resolve(Auto, Some(Requirement::Soft), Some("2.30.7"))), named);
        assert_eq!(words(resolve(Nccl, Some(Requirement::Soft), Some("2.30.7"))), named);
        assert!(words(resolve(Nccl, Some(Requirement::Soft), None)).ends_with("but the backend nccl was asked for"));
        assert!(resolve(Nccl, None, None).is_err());
        assert!(resolve(Auto, Some(Requirement::Nccl), None).is_err());
        assert!(resolve(Auto, None, Some("2.30.7")).is_err());
        // given a folder for the driver, auto looks in it and reports the reason for falling back to software
        let auto = BackendRequest { driver: DriverRequest::parse("/no/such/folder"), ..BackendRequest::default() };
        let choice = auto.resolve(&workers).unwrap();
        assert_eq!(choice.backend, Backend::Soft);
        let words = choice.banner(&InheritedVariables::default());
        assert!(words.contains("not nccl: /no/such/folder"), "{words}");
        assert!(BackendChoice::parse("cuda").is_err());
    }
}
