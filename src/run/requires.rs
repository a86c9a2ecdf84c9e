//! What a case needs and this runner has not: reasons to skip it.
use super::Backend;
use crate::backend::version_text;
use crate::scenario::{Case, EnvValue, Placement};
use std::cmp::Ordering;

/// More processes than this are no test of anything but the machine.
pub const MOST_PARTS: usize = 16;

/// What can be said without asking the library.
pub fn missing(case: &Case, backend: Backend) -> Option<String> {
    let needs = &case.requires;
    if case.placement == Placement::Processes && case.world_size.v > MOST_PARTS {
        let n = case.world_size.v;
        return Some(format!("placement \"processes\" starts at most {MOST_PARTS} processes; this case has {n} ranks"));
    }
    if let Some(var) = case.env.iter().find(|var| matches!(var.value, EnvValue::PerRank(_)))
        && case.placement != Placement::Processes
    {
        let name = &var.name.v;
        return Some(format!("{name} differs by rank, which needs placement = \"processes\""));
    }
    if let Some(wanted) = needs.backend.as_ref().filter(|wanted| *wanted != backend.name()) {
        return Some(format!("needs the backend {wanted}; this is {}", backend.name()));
    }
    match backend {
        Backend::Soft => {
            let count = |n: u32, what: &str| {
                format!("needs {n} {what}{}; the backend soft has none", if n == 1 { "" } else { "s" })
            };
            if let Some(n) = needs.gpus.filter(|n| *n > 0) {
                return Some(count(n, "GPU"));
            }
            if let Some(n) = needs.nodes.filter(|n| *n > 1) {
                return Some(format!("needs {n} machines; this is one"));
            }
            let (major, minor) = needs.compute?;
            Some(format!("needs a GPU of compute capability {major}.{minor}; the backend soft has none"))
        }
    }
}

/// What the library's version has to say.
pub fn too_old(case: &Case, code: i32) -> Option<String> {
    let unit = if code >= 10_000 { 10_000 } else { 1_000 };
    let have = [code / unit, code % unit / 100, code % 100].map(i32::unsigned_abs);
    let meets = |(op, (a, b, c)): &(String, (u32, u32, u32))| {
        let order = have.cmp(&[*a, *b, *c]);
        match op.as_str() {
            ">=" => order != Ordering::Less,
            ">" => order == Ordering::Greater,
            "<=" => order != Ordering::Greater,
            "<" => order == Ordering::Less,
            _ => order == Ordering::Equal,
        }
    };
    let (op, (a, b, c)) = case.requires.nccl.iter().find(|bound| !meets(bound))?;
    Some(format!("needs NCCL {op}{a}.{b}.{c}; this is {}", version_text(code)))
}
