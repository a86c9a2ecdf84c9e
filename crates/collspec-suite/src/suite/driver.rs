//! The driver of the devices under a real library, as requested by the options.
use collspec_run::library::standin;
use collspec_run::run::{Driver, gpus};
use std::fmt;
use std::path::PathBuf;

/// The word that replaces a folder or library: selects the stand-ins built with this program.
pub const STAND_IN: &str = "stand-in";
const AUTO: &str = "auto";
const CUDA: &str = "cuda";
const SOFTWARE: &str = "software";

/// A driver as named on the command line and in COLLSPEC_DRIVER.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DriverRequest {
    /// The machine's driver if the machine has GPUs, else software GPUs.
    #[default]
    Auto,
    /// The machine's own driver.
    Cuda,
    /// Software GPUs, without a driver.
    Software,
    /// The stand-in driver, under a library that brings its own kernels.
    StandIn,
    /// The driver in this folder.
    Folder(PathBuf),
}

impl DriverRequest {
    /// Parses `cuda`, `software`, `stand-in`, or a folder.
    pub fn parse(text: &str) -> Self {
        match text {
            AUTO => Self::Auto,
            CUDA => Self::Cuda,
            SOFTWARE => Self::Software,
            STAND_IN => Self::StandIn,
            folder => Self::Folder(folder.into()),
        }
    }

    /// The driver, or what is wrong with its folder. `brings_kernels` is true for a library that needs no GPU code.
    ///
    /// # Errors
    ///
    /// The folder does not exist or does not contain a driver, or the stand-in is not built.
    pub fn resolve(&self, brings_kernels: bool) -> Result<Driver, String> {
        Ok(match self {
            Self::Software => Driver::Software,
            // The machine's own driver gives the best error message about itself.
            Self::Auto if !gpus::are_likely() && !brings_kernels => Driver::Software,
            Self::Auto | Self::Cuda => Driver::Machine,
            Self::StandIn => Driver::Folder(standin::folder().map_err(|error| super::with_causes(&error))?),
            Self::Folder(folder) => Driver::Folder(gpus::driver_folder(folder)?),
        })
    }
}

impl fmt::Display for DriverRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str(AUTO),
            Self::Cuda => f.write_str(CUDA),
            Self::Software => f.write_str(SOFTWARE),
            Self::StandIn => f.write_str(STAND_IN),
            Self::Folder(folder) => folder.display().fmt(f),
        }
    }
}
