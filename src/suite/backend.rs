//! Which backend was asked for, and whether it is there.
use crate::report::Inherited;
use crate::run::Backend;
use thiserror::Error;

/// A backend as it is named on the command line and in COLLSPEC_BACKEND.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// The best there is.
    #[default]
    Auto,
    /// NCCL's interface in software.
    Soft,
    /// A real NCCL library on GPUs.
    Nccl,
}

/// A backend that was asked for is not there.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the backend nccl is required but missing: this version of collspec runs scenarios in software only (soft)")]
pub struct BackendMissing;

impl BackendChoice {
    /// By its name.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "soft" => Ok(Self::Soft),
            "nccl" => Ok(Self::Nccl),
            _ => Err("the backends are auto, soft and nccl".to_owned()),
        }
    }

    /// The backend that will run, if it is there, and if `required` is none other.
    pub fn resolve(self, required: Option<Self>) -> Result<Backend, BackendMissing> {
        match (self, required) {
            (Self::Nccl, _) | (_, Some(Self::Nccl)) => Err(BackendMissing),
            _ => Ok(crate::run::Backend::Soft),
        }
    }
}

/// Its name in reports.
pub fn name(backend: Backend) -> &'static str {
    match backend {
        Backend::Soft => "soft",
    }
}

/// One line that says what runs the cases, with what environment; for the standard error.
pub fn banner(backend: Backend, inherited: &Inherited) -> String {
    let words = match backend {
        Backend::Soft => "NCCL's interface in software, no GPU",
    };
    let mut line = format!("collspec {}, backend {}: {words}", env!("CARGO_PKG_VERSION"), name(backend));
    let variables = inherited.words();
    if !variables.is_empty() {
        line.push_str(&format!("; inherited: {}", variables.join(" ")));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_backend_is_never_replaced_in_silence() {
        use BackendChoice::*;
        assert!(Auto.resolve(None).is_ok());
        assert!(Soft.resolve(Some(Soft)).is_ok());
        assert!(Nccl.resolve(None).is_err());
        assert!(Auto.resolve(Some(Nccl)).is_err());
        assert!(BackendChoice::parse("cuda").is_err());
    }
}
