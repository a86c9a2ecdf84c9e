//! Scenarios to start from, which `collspec new` writes. Each is a file of the corpus, so that it is run like any other.
use collspec_core::suggest::nearest;

/// A scenario to start from.
#[derive(Debug)]
pub struct Template {
    /// The name by which it is asked for.
    pub name: &'static str,
    /// Other names for it, as other libraries and papers use them.
    pub also: &'static [&'static str],
    /// The file.
    pub text: &'static str,
}

macro_rules! templates {
    ($folder:literal: $($name:literal $(or $($also:literal)|+)?),+ $(,)?) => {
        &[$(Template {
            name: $name,
            also: &[$($($also),+)?],
            text: include_str!(concat!("../../scenarios/", $folder, "/", $name, ".toml")),
        }),+]
    };
}

/// A single operation each, and the other things that a step can be.
pub const OPERATIONS: &[Template] = templates! { "templates/operations":
    "all_reduce",
    "reduce",
    "reduce_scatter",
    "broadcast" or "bcast",
    "all_gather",
    "gather",
    "scatter",
    "all_to_all",
    "all_to_all_v",
    "send" or "recv" | "p2p",
    "send_recv" or "sendrecv" | "ring",
    "group" or "coalesced",
    "split" or "communicator" | "new_group",
    "graph" or "cuda_graph" | "capture",
    "sweep" or "matrix",
    "hang" or "deadlock",
};

/// What programs that train or simulate do.
pub const PATTERNS: &[Template] = templates! { "templates/patterns":
    "gradient_clipping" or "grad_norm",
    "halo_exchange" or "stencil",
    "hierarchical_all_reduce" or "hierarchical" | "two_level",
    "local_sgd" or "fedavg" | "diloco",
    "one_forward_one_backward" or "1f1b",
    "parameter_server",
    "resume_from_checkpoint" or "checkpoint",
    "ring_attention" or "context_parallel",
    "sequence_parallel",
    "sharded_optimizer" or "zero1" | "zero",
};

/// Patterns of torch.distributed, which docs/from-torch.md explains.
pub const FROM_TORCH: &[Template] = templates! { "from_torch":
    "fsdp" or "zero3" | "fully_sharded",
    "tensor_parallel" or "tp" | "megatron",
    "moe" or "expert_parallel",
    "pipeline" or "pp" | "pipeline_parallel",
    "gradient_buckets" or "ddp" | "ddp_buckets" | "dp" | "data_parallel",
};

impl Template {
    /// Its description, as the file gives it.
    pub fn description(&self) -> &'static str {
        let line = self.text.lines().find_map(|line| line.strip_prefix("description = \""));
        line.and_then(|rest| rest.strip_suffix('"')).unwrap_or_default()
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name].into_iter().chain(self.also.iter().copied())
    }
}

/// All templates: operations, then patterns.
pub fn all() -> impl Iterator<Item = &'static Template> {
    OPERATIONS.iter().chain(PATTERNS).chain(FROM_TORCH)
}

/// The template with this name, in which `-` and `_`, and upper and lower case, are the same.
///
/// # Errors
///
/// There is none; the name that is nearest is given, if one is near.
pub fn find(name: &str) -> Result<&'static Template, Option<&'static str>> {
    let plain = |name: &str| name.to_lowercase().replace(['-', ' '], "_");
    // `alltoall` and `all-reduce` mean what they say.
    let bare = |name: &str| plain(name).replace('_', "");
    let known = || all().flat_map(|template| template.names().map(move |known| (known, template)));
    match known().find(|(known, _)| bare(known) == bare(name)) {
        Some((_, template)) => Ok(template),
        None => Err(nearest(&plain(name), known().map(|(known, _)| known))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use collspec_core::scenario::{SourceFile, parse};
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn every_template_is_found_by_each_of_its_names_and_by_no_other() {
        let mut seen = BTreeSet::new();
        for template in all() {
            for name in template.names() {
                assert!(seen.insert(name), "{name} stands for two templates");
                assert!(std::ptr::eq(find(name).unwrap(), template), "{name}");
            }
        }
        assert_eq!(find("All-To-All").unwrap().name, "all_to_all");
        assert_eq!(find("alltoallv").unwrap().name, "all_to_all_v");
        assert_eq!(find("pipelin").unwrap_err(), Some("pipeline"));
        assert_eq!(find("xyzzy").unwrap_err(), None);
    }

    #[test]
    fn every_template_is_a_scenario_with_a_description() {
        for template in all() {
            let file = SourceFile { path: format!("{}.toml", template.name), text: template.text.into() };
            assert!(parse(&Arc::new(file), template.name).is_ok(), "{}", template.name);
            assert!(template.description().ends_with('.'), "{}: {:?}", template.name, template.description());
        }
    }

    #[test]
    fn every_file_of_the_folders_is_a_template() {
        for (folder, templates) in
            [("templates/operations", OPERATIONS), ("templates/patterns", PATTERNS), ("from_torch", FROM_TORCH)]
        {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(folder);
            let files = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            let files: BTreeSet<String> =
                files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
            let names: BTreeSet<String> = templates.iter().map(|template| template.name.to_owned()).collect();
            assert_eq!(files, names, "{folder}");
        }
    }
}
