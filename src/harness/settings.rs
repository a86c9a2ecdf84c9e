//! What COLLSPEC_* variables say, read once.
use crate::run::RanksPerGpu;
use crate::suite::{BackendChoice, Filter, Forms, Wish};
use std::env::VarError;

const SHARING: &str = "COLLSPEC_RANKS_PER_GPU";
/// The variable that says in which forms cases are run.
pub const FORMS: &str = "COLLSPEC_FORMS";

/// The variables' meaning; the same as that of the command's options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// COLLSPEC_BACKEND, COLLSPEC_REQUIRE, COLLSPEC_NCCL and COLLSPEC_DRIVER.
    pub wish: Wish,
    /// COLLSPEC_RANKS_PER_GPU.
    pub ranks_per_gpu: RanksPerGpu,
    /// COLLSPEC_FILTER.
    pub filter: Filter,
    /// COLLSPEC_FORMS.
    pub forms: Forms,
}

impl Settings {
    /// From variables that `variable` looks up; an empty one is as good as none.
    pub fn read(variable: impl Fn(&str) -> Result<String, VarError>) -> Result<Self, String> {
        let read = |name: &str| match variable(name) {
            Ok(text) if text.is_empty() => Ok(None),
            Ok(text) => Ok(Some(text)),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => Err(format!("{name} is not UTF-8")),
        };
        let sharing = |text: String| RanksPerGpu::parse(&text).map_err(|words| format!("{SHARING}={text}: {words}"));
        let forms = |text: String| Forms::parse(&text).map_err(|words| format!("{FORMS}={text}: {words}"));
        let backend = |name: &str| {
            let parse = |text: String| BackendChoice::parse(&text).map_err(|words| format!("{name}={text}: {words}"));
            read(name)?.map(parse).transpose()
        };
        Ok(Self {
            wish: Wish {
                backend: backend("COLLSPEC_BACKEND")?.unwrap_or_default(),
                require: backend("COLLSPEC_REQUIRE")?,
                nccl: read("COLLSPEC_NCCL")?,
                driver: read("COLLSPEC_DRIVER")?.map(Into::into),
            },
            ranks_per_gpu: read(SHARING)?.map(sharing).transpose()?.unwrap_or_default(),
            filter: Filter { text: read("COLLSPEC_FILTER")?, exact: false },
            forms: read(FORMS)?.map(forms).transpose()?.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> Result<Settings, String> {
        Settings::read(|asked| if asked == name { Ok(value.to_owned()) } else { Err(VarError::NotPresent) })
    }

    #[test]
    fn variables_mean_what_options_mean() {
        assert_eq!(with("X", "y"), Ok(Settings::default()));
        assert_eq!(with("COLLSPEC_BACKEND", "soft").map(|s| s.wish.backend), Ok(BackendChoice::Soft));
        assert_eq!(with("COLLSPEC_BACKEND", ""), Ok(Settings::default()));
        assert_eq!(with("COLLSPEC_REQUIRE", "nccl").map(|s| s.wish.require), Ok(Some(BackendChoice::Nccl)));
        assert_eq!(with("COLLSPEC_NCCL", "2.30.7").map(|s| s.wish.nccl), Ok(Some("2.30.7".into())));
        assert_eq!(with("COLLSPEC_RANKS_PER_GPU", "auto").map(|s| s.ranks_per_gpu), Ok(RanksPerGpu::Auto));
        assert!(with("COLLSPEC_RANKS_PER_GPU", "0").is_err());
        assert_eq!(with("COLLSPEC_FORMS", "tree").map(|s| s.forms), Forms::parse("tree"));
        assert!(with("COLLSPEC_FORMS", "treee").unwrap_err().contains("did you mean tree?"));
        assert_eq!(with("COLLSPEC_FILTER", "ring").map(|s| s.filter.text), Ok(Some("ring".into())));
    }

    #[test]
    fn an_unknown_backend_is_an_error_that_names_the_variable() {
        let words = with("COLLSPEC_REQUIRE", "cuda").unwrap_err();
        assert_eq!(words, "COLLSPEC_REQUIRE=cuda: the backends are auto, soft and nccl");
    }
}
