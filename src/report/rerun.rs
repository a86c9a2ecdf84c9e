//! The one command that runs a case again.
use super::shell;
use crate::scenario::Case;

/// How the cases at hand were started, which is how they can be started again.
#[derive(Clone, Debug)]
pub enum Rerun {
    /// By `collspec run`, with these options (already words of a command line).
    Command {
        /// Such as `--eager`, `4096`.
        options: Vec<String>,
    },
    /// By a test program of this package and target under `cargo test`.
    CargoTest {
        /// Package.
        package: String,
        /// Test target.
        target: String,
    },
}

impl Rerun {
    /// The command.
    pub fn command(&self, case: &Case) -> String {
        match self {
            Rerun::Command { options } => {
                let mut words = vec!["collspec run".to_owned(), shell::quote(&case.file.path)];
                words.extend(options.iter().map(|word| shell::quote(word)));
                if let Some(name) = name_in_file(case) {
                    words.extend(["--exact".to_owned(), "--filter".to_owned(), shell::quoted(&name)]);
                }
                words.join(" ")
            }
            Rerun::CargoTest { package, target } => {
                let [package, target] = [package, target].map(|word| shell::quote(word));
                format!("cargo test -p {package} --test {target} -- --exact {}", shell::quoted(&case.name))
            }
        }
    }
}

/// What the case is called when its file alone is the argument: the file's stem and the matrix point. `None` where the
/// file has one case.
fn name_in_file(case: &Case) -> Option<String> {
    if !case.swept {
        return None;
    }
    // The point's brackets come after the last `/`: slashes in values are escaped.
    let name = case.name.rsplit('/').next().unwrap_or(&case.name);
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixture;
    use std::sync::Arc;

    fn swept(name: &str) -> Arc<Case> {
        let mut case = (*fixture::case(name)).clone();
        case.swept = true;
        Arc::new(case)
    }

    #[test]
    fn a_file_with_one_case_needs_no_name() {
        let rerun = Rerun::Command { options: vec!["--eager".into(), "16".into()] };
        assert_eq!(rerun.command(&fixture::case("docs/a b")), "collspec run 'scenarios/docs/a b.toml' --eager 16");
    }

    #[test]
    fn a_point_of_a_matrix_is_named_in_quotes() {
        let rerun = Rerun::Command { options: vec![] };
        assert_eq!(
            rerun.command(&swept("docs/a[n=2,variant=x]")),
            "collspec run scenarios/docs/a.toml --exact --filter 'a[n=2,variant=x]'"
        );
        let rerun = Rerun::CargoTest { package: "mine".into(), target: "scenarios".into() };
        assert_eq!(
            rerun.command(&swept("docs/a[n=2]")),
            "cargo test -p mine --test scenarios -- --exact 'docs/a[n=2]'"
        );
    }
}
