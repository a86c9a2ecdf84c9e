//! Forms: other ways to run what a case says. A form turns a case into another one that must come out the same; what plans,
//! runs and judges it sees an ordinary case.
mod grouped;
mod in_place;
mod place;
mod switch;
#[cfg(test)]
mod tests;
mod walk;

use super::case::{Case, Expected};
use super::names::with_form;
use std::fmt;

/// A form: another way to run a case. Whether the changed case can run is decided when it is planned.
pub struct Form {
    /// Its word in `forms`, `--forms` and names of cases.
    pub name: &'static str,
    /// One line for the manual.
    pub doc: &'static str,
    /// Why a case cannot take it, as far as the case itself tells.
    lacks: fn(&Case) -> Option<&'static str>,
    /// Makes the case run so.
    change: fn(&mut Case),
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

/// Which form a case is, and of which case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// The form.
    pub form: &'static Form,
    /// The name of the case as the file has it.
    pub base: String,
}

/// Every form.
pub static TABLE: &[Form] = &[
    Form {
        name: "in_place",
        doc: "`in` and `out` share memory where the operation can and nobody needs `in` afterwards",
        lacks: in_place::lacks,
        change: in_place::change,
    },
    Form {
        name: "misaligned",
        doc: "every buffer starts off a 16-byte boundary, each on each rank by another number of elements",
        lacks: place::no_buffer,
        change: place::misalign,
    },
    Form {
        name: "grouped",
        doc: "every NCCL call in a group call, neighbours that do not touch each other's buffers in one",
        lacks: grouped::lacks,
        change: grouped::change,
    },
    Form {
        name: "sub",
        doc: "the world is split out of a larger one, in which its ranks have other numbers and two ranks are idle",
        lacks: place::no_world,
        change: place::surround,
    },
    Form { name: "one_thread", doc: "one thread drives all ranks", lacks: switch::placed, change: switch::one_thread },
    Form {
        name: "processes",
        doc: "every rank is a process of its own",
        lacks: switch::too_many_processes,
        change: switch::processes,
    },
    Form {
        name: "ring",
        doc: "NCCL_ALGO asks for rings",
        lacks: |case| switch::no_algorithm(case, "Ring"),
        change: |case| switch::algorithm(case, "Ring"),
    },
    Form {
        name: "tree",
        doc: "NCCL_ALGO asks for trees, for what NCCL has them: all_reduce",
        lacks: |case| switch::no_algorithm(case, "Tree"),
        change: |case| switch::algorithm(case, "Tree"),
    },
    Form {
        name: "single_tree",
        doc: "NCCL_ALGO asks for one tree, a word of the software library's: all_reduce, reduce and broadcast",
        lacks: |case| switch::no_algorithm(case, switch::SINGLE_TREE),
        change: switch::single_tree,
    },
    Form {
        name: "eager",
        doc: "small sends of the software library do not wait for their receives",
        lacks: switch::no_send,
        change: switch::eager,
    },
];

/// The entry of that name.
pub fn find(name: &str) -> Option<&'static Form> {
    TABLE.iter().find(|form| form.name == name)
}

/// All names, in the table's order.
pub fn names() -> Vec<&'static str> {
    TABLE.iter().map(|form| form.name).collect()
}

impl Form {
    /// The case in this form.
    ///
    /// # Errors
    ///
    /// Why it cannot take the form, in words that go on from "because".
    pub fn of(&'static self, case: &Case) -> Result<Case, &'static str> {
        if case.form.is_some() {
            return Err("it is a form of another case");
        }
        // What errs, hangs or dies may do so otherwise in another form.
        if case.outcome.as_ref().is_some_and(|outcome| outcome.v.iter().any(|ending| *ending != Expected::Ok)) {
            return Err("its outcome is not just \"ok\"");
        }
        if let Some(why) = (self.lacks)(case) {
            return Err(why);
        }
        let mut new = case.clone();
        new.name = with_form(&case.name, self.name);
        new.form = Some(Derived { form: self, base: case.name.clone() });
        new.forms = Vec::new();
        (self.change)(&mut new);
        Ok(new)
    }
}
