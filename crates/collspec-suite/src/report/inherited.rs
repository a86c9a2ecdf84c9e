//! Variables of this process that workers inherit and that affect the run.
use super::shell;

/// The prefixes of these variables: NCCL's, those of the software library, and those of the stand-ins.
const PREFIXES: [&str; 3] = ["NCCL_", "COLLSPEC_SOFT_", "COLLSPEC_STANDIN"];

/// Workers get no ids by an address (`child::program`).
const NOT_INHERITED: &str = "NCCL_COMM_ID";

/// The variables of this process that workers inherit and that affect the library, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InheritedVariables(Vec<(String, String)>);

impl InheritedVariables {
    /// The variables of this process.
    pub fn here() -> Self {
        Self::with_others(&[])
    }

    /// The variables of this process, and others of these names if they are set.
    pub fn with_others(others: &[String]) -> Self {
        // Values that are not UTF-8 cannot be quoted for a shell, and NCCL does not use them.
        Self::from_variables(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
            others,
        )
    }

    fn from_variables(variables: impl Iterator<Item = (String, String)>, others: &[String]) -> Self {
        let mut found: Vec<_> = variables
            .filter(|(name, value)| affects_library(name) || (others.contains(name) && !value.is_empty()))
            .collect();
        found.sort();
        Self(found)
    }

    /// The variables and their values, by name.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// The variables as words of a shell command, in front of the program.
    pub fn as_shell_words(&self) -> Vec<String> {
        self.0.iter().map(|(name, value)| format!("{}={}", name, shell::quote_if_needed(value))).collect()
    }
}

fn affects_library(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && name != NOT_INHERITED && !is_secret(name)
}

/// True for the name of a variable whose value no report shows.
pub fn is_secret(name: &str) -> bool {
    ["SECRET", "TOKEN", "PASSWORD", "CREDENTIAL"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_the_library_is_told() {
        let all = [
            ("PATH", "/bin"),
            ("COLLSPEC_SEED", "4"),
            ("COLLSPEC_EAGER", ""),
            ("NCCL_ALGO", "Ring;allreduce:Tree"),
            ("COLLSPEC_SOFT_SEED", "4"),
            ("COLLSPEC_SOFT_TOKEN", "t"),
            ("NCCL_PLUGIN_SECRET", "s"),
            ("XNCCL_A", "1"),
            ("NCCL_COMM_ID", "10.0.0.1:29500"),
        ];
        let all = || all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(
            InheritedVariables::from_variables(all(), &[]).as_shell_words(),
            ["COLLSPEC_SOFT_SEED=4", "NCCL_ALGO='Ring;allreduce:Tree'"]
        );
        let found =
            InheritedVariables::from_variables(all(), &["COLLSPEC_SEED".to_owned(), "COLLSPEC_EAGER".to_owned()]);
        assert_eq!(
            found.as_shell_words(),
            ["COLLSPEC_SEED=4", "COLLSPEC_SOFT_SEED=4", "NCCL_ALGO='Ring;allreduce:Tree'"]
        );
        assert!(InheritedVariables::default().as_shell_words().is_empty());
    }
}
