//! Variables of this process that workers inherit and that change what runs.
use super::shell;

/// What they begin with: NCCL's own, those of the library in software, and those of the stand-ins.
const PREFIXES: [&str; 3] = ["NCCL_", "COLLSPEC_SOFT_", "COLLSPEC_STANDIN"];

/// Such variables of this process, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inherited(Vec<(String, String)>);

impl Inherited {
    /// Those of this process.
    pub fn here() -> Self {
        Self::with(&[])
    }

    /// Those of this process, and these others if they are set.
    pub fn with(others: &[String]) -> Self {
        // What is not UTF-8 cannot be shown so that a shell would read it back; NCCL has no use for it either.
        Self::of(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
            others,
        )
    }

    fn of(variables: impl Iterator<Item = (String, String)>, others: &[String]) -> Self {
        let mut found: Vec<_> =
            variables.filter(|(name, value)| telling(name) || (others.contains(name) && !value.is_empty())).collect();
        found.sort();
        Self(found)
    }

    /// They as words of a command line, in front of the command; empty if there are none.
    pub fn words(&self) -> Vec<String> {
        self.0.iter().map(|(name, value)| format!("{}={}", name, shell::quote(value))).collect()
    }
}

fn telling(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
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
            ("XNCCL_A", "1"),
        ];
        let all = || all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(Inherited::of(all(), &[]).words(), ["COLLSPEC_SOFT_SEED=4", "NCCL_ALGO='Ring;allreduce:Tree'"]);
        let found = Inherited::of(all(), &["COLLSPEC_SEED".to_owned(), "COLLSPEC_EAGER".to_owned()]);
        assert_eq!(found.words(), ["COLLSPEC_SEED=4", "COLLSPEC_SOFT_SEED=4", "NCCL_ALGO='Ring;allreduce:Tree'"]);
        assert!(Inherited::default().words().is_empty());
    }
}
