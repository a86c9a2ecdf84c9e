//! The options that say what runs cases, which several commands have.
use super::args::{BACKEND, LibraryArgs};
use clap::Args as ClapArgs;
use collspec_suite::suite::{BackendChoice, BackendRequest, DriverRequest, Requirement};

/// What runs the cases, and what happens if it is missing.
#[derive(Debug, ClapArgs)]
pub struct BackendArgs {
    /// What runs the cases: `nccl` is a real library, on GPUs or software GPUs; `soft` is NCCL's interface in software; `auto` is
    /// nccl if a library is named, or if this machine has a driver, devices and a library, and otherwise soft.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = BackendChoice::parse, help_heading = BACKEND)]
    pub backend: BackendChoice,

    /// Fail with exit code 3 if this backend is missing, instead of using another one: `nccl` is a real library on GPUs,
    /// `nccl-software` a real library on GPUs or software GPUs, and `soft` NCCL's interface in software.
    #[arg(long, value_name = "NAME", value_parser = Requirement::parse, help_heading = BACKEND)]
    pub require: Option<Requirement>,

    #[command(flatten)]
    pub library: LibraryArgs,
}

impl BackendArgs {
    /// The backend requested by these options.
    pub fn request(&self) -> BackendRequest {
        let LibraryArgs { nccl, driver } = &self.library;
        BackendRequest {
            backend: self.backend,
            require: self.require,
            nccl: nccl.clone(),
            driver: driver_request(driver.as_deref()),
            ..BackendRequest::default()
        }
    }
}

/// The driver that `--driver` names.
pub fn driver_request(option: Option<&str>) -> DriverRequest {
    option.map(DriverRequest::parse).unwrap_or_default()
}
