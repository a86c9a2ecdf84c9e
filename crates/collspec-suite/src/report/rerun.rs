//! The command that runs a case again.
use super::InheritedVariables;
use super::shell;
use collspec_core::scenario::Case;

/// Makes the command that runs a case again, from how the cases were started.
#[derive(Clone, Debug)]
pub struct RerunCommand {
    inherited: InheritedVariables,
    start: StartedBy,
}

#[derive(Clone, Debug)]
enum StartedBy {
    /// With `collspec run` and these options.
    Command { options: Vec<String> },
    /// With `cargo test`, by a test program of this package and target.
    CargoTest { package: String, target: String },
}

impl RerunCommand {
    /// The command for cases that `collspec run` has started with these options, each a word, in this environment.
    pub fn command_line(options: Vec<String>, inherited: InheritedVariables) -> Self {
        Self { inherited, start: StartedBy::Command { options } }
    }

    /// The command for cases that a test program of this package and target has started under `cargo test`, in this environment.
    pub fn cargo_test(package: impl Into<String>, target: impl Into<String>, inherited: InheritedVariables) -> Self {
        Self { inherited, start: StartedBy::CargoTest { package: package.into(), target: target.into() } }
    }

    pub fn command(&self, case: &Case) -> String {
        let mut words = self.inherited.as_shell_words();
        match &self.start {
            StartedBy::Command { options } => {
                words.extend(["collspec run".to_owned(), path_argument(&case.file.path)]);
                words.extend(options.iter().map(|word| shell::quote_if_needed(word)));
                words.extend(case.form.as_ref().map(|derived| format!("--forms {}", derived.form.name)));
                if let Some(name) = name_in_file(case) {
                    // With `=` a name that begins with `-` is not mistaken for an option.
                    let link = if name.starts_with('-') { '=' } else { ' ' };
                    words.extend(["--exact".to_owned(), format!("--filter{link}{}", shell::quote(&name))]);
                }
            }
            StartedBy::CargoTest { package, target } => {
                let [package, target] = [package, target].map(|word| shell::quote_if_needed(word));
                let name = shell::quote(&case.name);
                words.extend(case.form.as_ref().map(|derived| format!("COLLSPEC_FORMS={}", derived.form.name)));
                words.push(format!("cargo test -p {package} --test {target} -- --exact {name}"));
            }
        }
        words.join(" ")
    }
}

/// A path that is not mistaken for an option.
fn path_argument(path: &str) -> String {
    if path.starts_with('-') { shell::quote_if_needed(&format!("./{path}")) } else { shell::quote_if_needed(path) }
}

/// The case's name if its file alone is the argument: the file's stem and the matrix point. `None` if the file has one case.
fn name_in_file(case: &Case) -> Option<String> {
    if !case.swept && case.forms.is_empty() && case.form.is_none() {
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
        let rerun = RerunCommand::command_line(vec!["--eager".into(), "16".into()], InheritedVariables::default());
        assert_eq!(rerun.command(&fixture::case("docs/a b")), "collspec run 'scenarios/docs/a b.toml' --eager 16");
    }

    #[test]
    fn a_form_is_asked_for() {
        let mut case = (*fixture::case("docs/a[form=tree]")).clone();
        let form = collspec_core::scenario::forms::by_name("tree").unwrap();
        case.form = Some(collspec_core::scenario::FormOrigin { form, base: "docs/a".into() });
        let rerun = RerunCommand::command_line(vec![], InheritedVariables::default());
        let command = "collspec run scenarios/docs/a.toml --forms tree --exact --filter 'a[form=tree]'";
        assert_eq!(rerun.command(&case), command);
        let rerun = RerunCommand::cargo_test("mine", "scenarios", InheritedVariables::default());
        let command = "COLLSPEC_FORMS=tree cargo test -p mine --test scenarios -- --exact 'docs/a[form=tree]'";
        assert_eq!(rerun.command(&case), command);
    }

    #[test]
    fn a_point_of_a_matrix_is_named_in_quotes() {
        let rerun = RerunCommand::command_line(vec![], InheritedVariables::default());
        assert_eq!(
            rerun.command(&swept("docs/a[n=2,variant=x]")),
            "collspec run scenarios/docs/a.toml --exact --filter 'a[n=2,variant=x]'"
        );
        let rerun = RerunCommand::cargo_test("mine", "scenarios", InheritedVariables::default());
        assert_eq!(
            rerun.command(&swept("docs/a[n=2]")),
            "cargo test -p mine --test scenarios -- --exact 'docs/a[n=2]'"
        );
    }
}
