//! Forms: other ways to run a case that must give the same results. A form changes a case before it is planned; plan, runner
//! and judge treat it like any other case.
mod captured;
mod grouped;
mod in_place;
mod positions;
mod settings;
#[cfg(test)]
mod tests;
mod visit;

use super::case::{Case, ExpectedOutcome, StepKind, all_steps};
use super::names::with_form;
use std::fmt;

/// A form: another way to run a case. The plan decides whether the changed case can run.
pub struct Form {
    /// Its name in `forms`, in `--forms` and in names of cases.
    pub name: &'static str,
    /// One line for the manual.
    pub doc: &'static str,
    /// The reason a case cannot take the form, as far as the case alone shows.
    inapplicable: fn(&Case) -> Option<&'static str>,
    /// Changes a case to this form.
    apply_to: fn(&mut Case),
}

impl PartialEq for Form {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for Form {}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The form of a case, and the case that it is derived from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormOrigin {
    /// The form that was applied.
    pub form: &'static Form,
    /// The name of the case in the file.
    pub base: String,
}

/// Every form that cases can take.
pub static FORMS: &[Form] = &[
    Form {
        name: "in_place",
        doc: "`in` and `out` share memory where the operation allows it and no later step needs `in`",
        inapplicable: in_place::inapplicable,
        apply_to: in_place::apply,
    },
    Form {
        name: "misaligned",
        doc: "every buffer starts off a 16-byte boundary, each on each rank by another number of elements",
        inapplicable: positions::no_buffer,
        apply_to: positions::misalign,
    },
    Form {
        name: "grouped",
        doc: "every NCCL call in a group call, neighbours that do not touch each other's buffers in one",
        inapplicable: grouped::inapplicable,
        apply_to: grouped::apply,
    },
    Form {
        name: "captured",
        doc: "every step that a graph can run is captured, launched and its graph released",
        inapplicable: captured::inapplicable,
        apply_to: captured::apply,
    },
    Form {
        name: "sub",
        doc: "the world is split out of a larger one, in which its ranks have other numbers and two ranks are idle",
        inapplicable: positions::no_world,
        apply_to: positions::surround,
    },
    Form {
        name: "one_thread",
        doc: "one thread drives all ranks",
        inapplicable: settings::has_placement,
        apply_to: settings::one_thread,
    },
    Form {
        name: "processes",
        doc: "every rank runs in its own process",
        inapplicable: settings::too_many_processes,
        apply_to: settings::processes,
    },
    Form {
        name: "ring",
        doc: "NCCL_ALGO asks for rings",
        inapplicable: |case| settings::no_algorithm(case, "Ring"),
        apply_to: |case| settings::algorithm(case, "Ring"),
    },
    Form {
        name: "tree",
        doc: "NCCL_ALGO asks for trees, for what NCCL has them: all_reduce",
        inapplicable: |case| settings::no_algorithm(case, "Tree"),
        apply_to: |case| settings::algorithm(case, "Tree"),
    },
    Form {
        name: "single_tree",
        doc: "NCCL_ALGO asks for one tree, a word of the software library's: all_reduce, reduce and broadcast",
        inapplicable: |case| settings::no_algorithm(case, settings::SINGLE_TREE),
        apply_to: settings::single_tree,
    },
    Form {
        name: "eager",
        doc: "small sends of the software library do not wait for their receives",
        inapplicable: settings::no_send,
        apply_to: settings::eager,
    },
];

/// Looks up a form by name.
pub fn by_name(name: &str) -> Option<&'static Form> {
    FORMS.iter().find(|form| form.name == name)
}

/// The names of all forms, in the table's order.
pub fn names() -> Vec<&'static str> {
    FORMS.iter().map(|form| form.name).collect()
}

impl Form {
    /// Returns the case in this form.
    ///
    /// # Errors
    ///
    /// The reason it cannot take the form, as a text after "because".
    pub fn apply(&'static self, case: &Case) -> Result<Case, &'static str> {
        if case.form.is_some() {
            return Err("it is a form of another case");
        }
        // An error, a hang or a crash may differ in another form.
        if case
            .outcome
            .as_ref()
            .is_some_and(|outcome| outcome.value.iter().any(|ending| *ending != ExpectedOutcome::Ok))
        {
            return Err("its outcome is not just \"ok\"");
        }
        if let Some(why) = (self.inapplicable)(case) {
            return Err(why);
        }
        // A form changes what is outstanding when a process ends.
        if !matches!(self.name, "in_place" | "misaligned")
            && all_steps(&case.steps).any(|step| matches!(step.kind, StepKind::Exit { .. }))
        {
            return Err("a process ends in it");
        }
        let mut new = case.clone();
        new.name = with_form(&case.name, self.name);
        new.form = Some(FormOrigin { form: self, base: case.name.clone() });
        new.forms = Vec::new();
        (self.apply_to)(&mut new);
        Ok(new)
    }
}
