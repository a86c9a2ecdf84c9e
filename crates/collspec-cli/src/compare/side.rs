//! One side of a comparison: a library with settings, or a recorded run.
use crate::fetch::is_version;
use crate::record::{self, Header, ReadError, Recording};
use collspec_run::cluster::Cluster;
use collspec_run::run::Backend;
use collspec_suite::suite::options::{IsFor, NAMED};
use collspec_suite::suite::{
    BackendChoice, BackendMissing, BackendRequest, ChosenBackend, OptionError, Requirement, RunOptions, Variation,
    with_causes,
};
use nccl_sys::Maker;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// A side as requested: `soft`, a version, or the path of a library or recording, followed by settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideRequest {
    /// The text as typed.
    pub text: String,
    what: String,
    /// Variables of NCCL, and of the software library.
    variables: Vec<(String, String)>,
    /// Options by name, with their values.
    options: Vec<(String, String)>,
}

/// A side of the comparison of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfProgram<'a> {
    /// A version, or the file of a library.
    pub library: &'a str,
    pub variables: &'a [(String, String)],
    /// The schedule of kernels on software GPUs, as their driver reads it.
    pub schedule: Option<String>,
}

/// The reason a side is unavailable.
#[derive(Debug, Error)]
pub enum SideError {
    /// The text cannot be understood.
    #[error("`{text}`: {why}")]
    Text {
        /// The text as typed.
        text: String,
        /// The mistake in it.
        why: String,
    },
    /// An option does not have such a value.
    #[error("`{text}`")]
    Option {
        /// The text as typed.
        text: String,
        /// The error about the option.
        source: OptionError,
    },
    /// The library or its driver is missing.
    #[error(transparent)]
    Missing(#[from] BackendMissing),
    /// A library was compiled without optimisation.
    #[error(
        "{0}: its debug information says that it was compiled without optimisation (-O0), so its times say nothing of the \
         library that is shipped; --allow-debug-build compares it all the same"
    )]
    DebugBuild(String),
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(#[from] ReadError),
}

/// A side, ready to be compared.
#[derive(Clone, Debug)]
pub enum Side {
    /// A library that runs the cases now.
    Live {
        /// The backend that runs the cases.
        chosen: Box<ChosenBackend>,
        /// The options for running them.
        options: Box<RunOptions>,
        /// The library, and the machine on which it runs.
        header: Box<Header>,
    },
    /// A run that was recorded.
    Recorded(Box<Recording>),
}

/// Prefixes of variables that a side may set.
const VARIABLES: [&str; 3] = ["NCCL_", "COLLSPEC_SOFT_", "COLLSPEC_STANDIN_"];

impl SideRequest {
    /// Reads `WHAT [NAME=VALUE]...`. The words are split as a shell does; a text that is the path of a file is that path.
    ///
    /// # Errors
    ///
    /// A quote is not closed, the library is missing, or a setting is neither a variable of NCCL nor an option.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = if Path::new(text).is_file() {
            vec![text.to_owned()]
        } else {
            shlex::split(text).ok_or("a quote is not closed")?
        };
        let first =
            words.first().filter(|word| !word.is_empty()).ok_or("expected a library: `soft`, a version, or a file")?;
        if first.contains('=') && !Path::new(first).exists() {
            return Err(format!("the library comes first, then settings such as `{first}`"));
        }
        let what = words.remove(0);
        let (mut variables, mut options) = (Vec::new(), Vec::new());
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| {
                format!("`{word}` is not a setting: expected NAME=VALUE, for example NCCL_ALGO=Tree or seed=7")
            })?;
            if VARIABLES.iter().any(|prefix| name.starts_with(prefix)) {
                variables.push((name.to_owned(), value.to_owned()));
            } else if let Some(option) = NAMED.iter().find(|option| option.name == name && option.may_differ_by_side) {
                options.push((option.name.to_owned(), value.to_owned()));
            } else {
                let settings = NAMED.iter().filter(|option| option.may_differ_by_side);
                let names: Vec<&str> = settings.map(|option| option.name).collect();
                return Err(format!(
                    "`{name}` is not a setting of a side: it takes variables that begin with NCCL_ or COLLSPEC_SOFT_, and {}",
                    names.join(", ")
                ));
            }
        }
        Ok(Self { text: text.to_owned(), what, variables, options })
    }

    /// The file that the side names, if it names one.
    pub fn file(&self) -> PathBuf {
        PathBuf::from(&self.what)
    }

    /// The version that the side names in full, if it names one.
    pub fn version(&self) -> Option<&str> {
        Some(self.what.as_str()).filter(|what| is_version(what) && what.split('.').count() > 2)
    }

    /// True if the text is a path: not the software library, the stand-in or a version.
    fn names_a_file(&self) -> bool {
        !matches!(self.what.as_str(), "soft" | "stand-in") && !self.what.starts_with(|c: char| c.is_ascii_digit())
    }

    /// The reason the side is unavailable, for other processes of a job: a file may exist in one but not in another.
    pub fn lacks(&self, error: &SideError) -> String {
        let gone = if self.names_a_file() && !Path::new(&self.what).exists() { " (there is no such file)" } else { "" };
        format!("`{}`{gone}: {}", self.text, with_causes(error))
    }

    /// The settings that have no effect on this side, with the reasons.
    pub fn without_effect(&self, side: &Side) -> Vec<(String, &'static str)> {
        let Side::Live { chosen, .. } = side else { return Vec::new() };
        // With the stand-in driver, the library is the software library under NCCL's interface, and reads its variables.
        let stand_in = chosen.machine.as_ref().is_some_and(|machine| machine.probed.maker == Maker::Collspec);
        let is_soft = chosen.machine.is_none();
        let has_software_gpus = chosen.backend.has_software_gpus();
        let of_soft = "it is a setting of the software library, and this side is an NCCL library";
        let of_nccl = "it is a setting of NCCL libraries, and this side is the software library";
        let option = |name: &str| match NAMED.iter().find(|option| option.name == name)?.is_for {
            IsFor::AnySoftware if !is_soft && !stand_in && !has_software_gpus => Some(of_soft),
            IsFor::SoftwareGpus if !has_software_gpus => {
                Some("it is a setting of software GPUs, and this side has none")
            }
            IsFor::Soft if !is_soft && !stand_in => Some(of_soft),
            IsFor::Nccl if is_soft => Some(of_nccl),
            _ => None,
        };
        let variable = |name: &str| {
            if name.starts_with("COLLSPEC_SOFT_") && !is_soft && !stand_in {
                return Some(of_soft);
            }
            (name.starts_with("COLLSPEC_STANDIN_") && is_soft).then_some(of_nccl)
        };
        let variables = self.variables.iter().map(|(name, value)| (name, value, variable(name)));
        let options = self.options.iter().map(|(name, value)| (name, value, option(name)));
        variables.chain(options).filter_map(|(name, value, why)| Some((format!("{name}={value}"), why?))).collect()
    }

    /// Checks that a recording meets the requirement.
    fn check_recorded(&self, header: &Header, require: Option<Requirement>) -> Result<(), BackendMissing> {
        let is_nccl = header.library.backend == BackendChoice::Nccl.name();
        let meets = match require {
            None => true,
            Some(Requirement::Soft) => !is_nccl,
            Some(Requirement::NcclSoftware) => is_nccl,
            Some(Requirement::Nccl) => is_nccl && !header.has_software_gpus(),
        };
        let of = if !is_nccl {
            "the software library"
        } else if header.has_software_gpus() {
            "software GPUs"
        } else {
            "GPUs"
        };
        let why = format!("`{}` was recorded on {of}", self.text);
        let kind = if require == Some(Requirement::Soft) { BackendMissing::NotSoft } else { BackendMissing::Nccl };
        if meets { Ok(()) } else { Err(kind(why)) }
    }

    /// The side as one of a program.
    ///
    /// # Errors
    ///
    /// A program cannot run on it, or has no such setting.
    pub fn of_program(&self) -> Result<OfProgram<'_>, SideError> {
        let refused = |why: &str| SideError::Text { text: self.text.clone(), why: why.to_owned() };
        if self.what == "soft" || record::is_recording(Path::new(&self.what)) {
            return Err(refused("a program runs on an NCCL library: expected a version, or the file of one"));
        }
        let of_kernels =
            |(name, _): &&(String, String)| ["seed", "delay-stores", "early-loads"].contains(&name.as_str());
        if let Some((name, _)) = self.options.iter().find(|option| !of_kernels(option)) {
            return Err(refused(&format!("`{name}` is a setting of cases, and a program has none")));
        }
        let mut options = RunOptions::default();
        for (name, value) in &self.options {
            options.set(name, value).map_err(|source| SideError::Option { text: self.text.clone(), source })?;
        }
        let schedule =
            (!self.options.is_empty()).then(|| schedule(options.variation.seed.unwrap_or(0), &options.variation));
        Ok(OfProgram { library: &self.what, variables: &self.variables, schedule })
    }

    /// The side, with these options where its own settings do not override them.
    ///
    /// # Errors
    ///
    /// The library is missing, the recording cannot be read, or a setting has no such value.
    pub fn resolve(&self, usual: &RunOptions) -> Result<Side, SideError> {
        let path = Path::new(&self.what);
        if record::is_recording(path) || path.extension().is_some_and(|end| end == "jsonl" || end == "json") {
            if !(self.variables.is_empty() && self.options.is_empty()) {
                let why = "a recorded run takes no settings: it has those that it was recorded with".to_owned();
                return Err(SideError::Text { text: self.text.clone(), why });
            }
            let recording = record::read(path)?;
            self.check_recorded(&recording.header, usual.backend.require)?;
            return Ok(Side::Recorded(Box::new(recording)));
        }
        if self.names_a_file() && path.exists() && !path.is_file() {
            return Err(SideError::Text { text: self.text.clone(), why: "it is not a regular file".to_owned() });
        }
        let mut options = RunOptions { keep_results: true, ..usual.clone() };
        options.backend = match self.what.as_str() {
            "soft" => BackendRequest {
                backend: BackendChoice::Soft,
                require: usual.backend.require,
                ..BackendRequest::default()
            },
            what => BackendRequest {
                backend: BackendChoice::Nccl,
                require: usual.backend.require,
                nccl: Some(what.to_owned()),
                ..options.backend.clone()
            },
        };
        options.variables.extend(self.variables.iter().cloned());
        for (name, value) in &self.options {
            options.set(name, value).map_err(|source| SideError::Option { text: self.text.clone(), source })?;
        }
        let chosen = options.backend.resolve(&options.workers)?;
        let header = Header::new(&chosen, &options);
        Ok(Side::Live { chosen: Box::new(chosen), options: Box::new(options), header: Box::new(header) })
    }
}

impl Side {
    /// The library that ran or will run, and its machine.
    pub fn header(&self) -> Header {
        match self {
            Self::Live { header, .. } => (**header).clone(),
            Self::Recorded(recording) => recording.header.clone(),
        }
    }

    /// True for a live library on software GPUs.
    pub fn counts_work(&self) -> bool {
        matches!(self, Self::Live { chosen, .. } if chosen.counts_work())
    }

    /// Returns the side, unless it is a library that was compiled without optimisation.
    ///
    /// # Errors
    ///
    /// The library was compiled without optimisation.
    pub fn refuse_debug_build(self) -> Result<Self, SideError> {
        match &self {
            Self::Live { header, .. } if header.library.unoptimised => match &header.library.path {
                Some(path) => Err(SideError::DebugBuild(path.clone())),
                None => Ok(self),
            },
            _ => Ok(self),
        }
    }

    /// Makes its cases run on the processes of this job.
    pub fn use_job(&mut self, job: &Arc<Cluster>) {
        if let Self::Live { chosen, .. } = self {
            chosen.cluster = Some(job.clone());
        }
    }

    /// The backend of the side's cases, if it can run cases.
    pub fn backend(&self) -> Option<&Backend> {
        match self {
            Self::Live { chosen, .. } => Some(&chosen.backend),
            Self::Recorded(_) => None,
        }
    }

    /// True if the side can run cases.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Live { .. })
    }
}

/// A schedule of kernels on software GPUs, as their driver reads it from a variable.
pub fn schedule(seed: u64, variation: &Variation) -> String {
    let mut text = seed.to_string();
    if let Some(unit) = variation.delay_stores {
        text.push_str(&format!(":delay-stores={}", unit.name()));
    }
    if let Some(loads) = variation.early_loads {
        text.push_str(&format!(":early-loads={}", loads.name()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_a_library_its_variables_and_a_schedule() {
        let request = SideRequest::parse("2.30.7 NCCL_ALGO=Ring seed=7 early-loads=weak").unwrap();
        let side = request.of_program().unwrap();
        assert_eq!((side.library, side.schedule.as_deref()), ("2.30.7", Some("7:early-loads=weak")));
        assert_eq!(side.variables, [("NCCL_ALGO".to_owned(), "Ring".to_owned())]);
        for (text, why) in
            [("soft", "a program runs on an NCCL library"), ("2.30.7 connect=lazy", "`connect` is a setting of cases")]
        {
            let error = SideRequest::parse(text).unwrap().of_program().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn settings_follow_the_library() {
        let request = SideRequest::parse("soft NCCL_ALGO='Ring,Tree' seed=7 fault=F01,rank=1").unwrap();
        assert_eq!(request.what, "soft");
        assert_eq!(request.variables, [("NCCL_ALGO".to_owned(), "Ring,Tree".to_owned())]);
        let Side::Live { options, .. } = request.resolve(&RunOptions::default()).unwrap() else { panic!("no library") };
        assert_eq!(options.to_repeat(), ["--backend", "soft", "--seed", "7", "--fault", "F01,rank=1"]);
        assert_eq!(options.variables, request.variables);
        assert!(options.keep_results);
    }

    #[test]
    fn what_cannot_be_understood_is_said() {
        for (text, why) in [
            ("", "expected a library: `soft`, a version, or a file"),
            ("  ", "expected a library: `soft`, a version, or a file"),
            ("NCCL_ALGO=Tree", "the library comes first, then settings such as `NCCL_ALGO=Tree`"),
            ("soft 'x", "a quote is not closed"),
            ("soft tree", "`tree` is not a setting: expected NAME=VALUE, for example NCCL_ALGO=Tree or seed=7"),
        ] {
            assert_eq!(SideRequest::parse(text).unwrap_err(), why, "{text}");
        }
        let unknown = SideRequest::parse("soft PATH=/x").unwrap_err();
        assert!(unknown.starts_with("`PATH` is not a setting of a side: it takes variables"), "{unknown}");
        assert!(SideRequest::parse("soft jobs=3").is_err());
        let odd = SideRequest::parse("soft seed=x").unwrap().resolve(&RunOptions::default()).unwrap_err();
        assert!(matches!(odd, SideError::Option { .. }), "{odd}");
    }
}
