//! The one command that runs a case again.
use super::Inherited;
use super::shell;
use crate::scenario::Case;

/// How the cases at hand were started, which is how they can be started again.
#[derive(Clone, Debug)]
pub struct Rerun {
    inherited: Inherited,
    start: Start,
}

#[derive(Clone, Debug)]
enum Start {
    /// By `collspec run`, with these options.
    Command { options: Vec<String> },
    /// By a test program of this package and target under `cargo test`.
    CargoTest { package: String, target: String },
}

impl Rerun {
    /// By `collspec run` with options such as `--eager`, `4096`, each a word, in this environment.
    pub fn command_line(options: Vec<String>, inherited: Inherited) -> Self {
        Self { inherited, start: Start::Command { options } }
    }

    /// By the test program of this package and target under `cargo test`, in this environment.
    pub fn cargo_test(package: impl Into<String>, target: impl Into<String>, inherited: Inherited) -> Self {
        Self { inherited, start: Start::CargoTest { package: package.into(), target: target.into() } }
    }

    /// The command.
    pub fn command(&self, case: &Case) -> String {
        let mut words = self.inherited.words();
        match &self.start {
            Start::Command { options } => {
                words.extend(["collspec run".to_owned(), path(&case.file.path)]);
                words.extend(options.iter().map(|word| shell::quote(word)));
                words.extend(case.form.as_ref().map(|derived| format!("--forms {}", derived.form.name)));
                if let Some(name) = name_in_file(case) {
                    // With `=` a name that begins with `-` is no option either.
                    let link = if name.starts_with('-') { '=' } else { ' ' };
                    words.extend(["--exact".to_owned(), format!("--filter{link}{}", shell::quoted(&name))]);
                }
            }
            Start::CargoTest { package, target } => {
                let [package, target] = [package, target].map(|word| shell::quote(word));
                let name = shell::quoted(&case.name);
                words.extend(case.form.as_ref().map(|derived| format!("COLLSPEC_FORMS={}", derived.form.name)));
                words.push(format!("cargo test -p {package} --test {target} -- --exact {name}"));
            }
        }
        words.join(" ")
    }
}

/// A path that is not taken for an option.
fn path(path: &str) -> String {
    if path.starts_with('-') { shell::quote(&format!("./{path}")) } else { shell::quote(path) }
}

/// What the case is called when its file alone is the argument: the file's stem and the matrix point. `None` where the
/// file has one case.
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
        let rerun = Rerun::command_line(vec!["--eager".into(), "16".into()], Inherited::default());
        assert_eq!(rerun.command(&fixture::case("docs/a b")), "collspec run 'scenarios/docs/a b.toml' --eager 16");
    }

    #[test]
    fn a_form_is_asked_for() {
        let mut case = (*fixture::case("docs/a[form=tree]")).clone();
        let form = crate::scenario::forms::by_name("tree").unwrap();
        case.form = Some(crate::scenario::FormOrigin { form, base: "docs/a".into() });
        let rerun = Rerun::command_line(vec![], Inherited::default());
        let command = "collspec run scenarios/docs/a.toml --forms tree --exact --filter 'a[form=tree]'";
        assert_eq!(rerun.command(&case), command);
        let rerun = Rerun::cargo_test("mine", "scenarios", Inherited::default());
        let command = "COLLSPEC_FORMS=tree cargo test -p mine --test scenarios -- --exact 'docs/a[form=tree]'";
        assert_eq!(rerun.command(&case), command);
    }

    #[test]
    fn a_point_of_a_matrix_is_named_in_quotes() {
        let rerun = Rerun::command_line(vec![], Inherited::default());
        assert_eq!(
            rerun.command(&swept("docs/a[n=2,variant=x]")),
            "collspec run scenarios/docs/a.toml --exact --filter 'a[n=2,variant=x]'"
        );
        let rerun = Rerun::cargo_test("mine", "scenarios", Inherited::default());
        assert_eq!(
            rerun.command(&swept("docs/a[n=2]")),
            "cargo test -p mine --test scenarios -- --exact 'docs/a[n=2]'"
        );
    }
}
