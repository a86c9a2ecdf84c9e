//! The NCCL_* variables that a file may set.
//!
//! Some of NCCL's variables load a library, write a file or open a connection, so a file that sets them could run code. A
//! file may set those in [`TABLE`], which only choose how NCCL works; `--allow-env` allows others.
use super::diagnostic::{Diagnostic, Span};
use crate::printable::{is_printable, printable};
use crate::suggest::nearest;

/// Longest value in bytes. The kernel refuses single variables of more than 128 KiB.
pub const MAX_VALUE: usize = 4096;
/// Longest name in bytes.
const MAX_NAME: usize = 128;

/// The values that a variable may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedValues {
    /// Any text: NCCL reads it as a number or as names that it knows, never as the name of a file.
    Any,
    /// One of these, in upper or lower case: NCCL would treat another text as the name of a library, or not know it.
    OneOf(&'static [&'static str]),
}

/// A variable that a file may set.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name without `NCCL_`.
    pub name: &'static str,
    /// The values that it may have.
    pub values: AllowedValues,
}

/// Variables of one purpose.
#[derive(Clone, Copy, Debug)]
pub struct Purpose {
    /// The purpose; the heading of their row in docs/scenario-format.md.
    pub what: &'static str,
    /// Names with white space between them.
    names: &'static str,
}

/// The variables that a file may set, by purpose. The names are those of NCCL 2.13 to 2.32, without `NCCL_`.
pub const TABLE: &[Purpose] = &[
    Purpose {
        what: "algorithms and protocols",
        names: "ALGO PROTO NVLS_ENABLE COLLNET_ENABLE PAT_ENABLE ALLGATHERV_ENABLE NVB_DISABLE SYM_KERNEL \
            SYM_GIN_KERNELS_ENABLE SYM_NOWIN_ENABLE SYM_TMA_ENABLE NVLINK_UTIL_CENTRIC_SCHED_ENABLE",
    },
    Purpose {
        what: "channels, CTAs and threads",
        names: "MIN_NCHANNELS MAX_NCHANNELS MIN_NRINGS MAX_NRINGS MIN_P2P_NCHANNELS MAX_P2P_NCHANNELS \
            NCHANNELS_PER_NET_PEER NVLS_NCHANNELS UNPACK_DOUBLE_NCHANNELS MIN_CTAS MAX_CTAS CTA_POLICY \
            SYM_CTAS CGA_CLUSTER_SIZE NTHREADS LL128_NTHREADS L1_SHARED_MEMORY_CARVEOUT",
    },
    Purpose {
        what: "sizes",
        names: "BUFFSIZE LL_BUFFSIZE LL128_BUFFSIZE CHUNK_SIZE P2P_NET_CHUNKSIZE P2P_PCI_CHUNKSIZE \
            P2P_NVL_CHUNKSIZE NVLS_CHUNKSIZE NVLSTREE_MAX_CHUNKSIZE SYM_RS_GIN_CHUNK_SIZE WORK_FIFO_BYTES \
            WORK_ARGS_BYTES WORK_FIFO_DEPTH P2P_MAX_PEERS P2P_SCHEDULE_GROUP_SIZE CONNECT_ROUND_MAX_PEERS \
            WIN_STRIDE LSA_TEAM_SIZE",
    },
    Purpose {
        what: "thresholds",
        names: "THREAD_THRESHOLDS LL_THRESHOLD TREE_THRESHOLD SINGLE_RING_THRESHOLD P2P_LL_THRESHOLD \
            COLLNET_NODE_THRESHOLD SYM_CE_THRESHOLD NET_OVERHEAD P2P_PER_CHANNEL_NET_BW",
    },
    Purpose {
        what: "transports between GPUs and hosts",
        names: "P2P_DISABLE P2P_LEVEL P2P_DIRECT_DISABLE P2P_READ_ENABLE P2P_USE_CUDA_MEMCPY P2P_EPOCH_ENABLE \
            P2P_PXN_LEVEL IGNORE_DISABLED_P2P PXN_DISABLE PXN_C2C SHM_DISABLE SHM_LOCALITY \
            SHM_USE_CUDA_MEMCPY SHM_MEMCPY_MODE CUMEM_ENABLE CUMEM_HOST_ENABLE NVB_PRECONNECT \
            RUNTIME_CONNECT HOSTID MNNVL_ENABLE MNNVL_UUID MNNVL_CLIQUE_ID CROSS_NIC NET NET_DISABLE_INTRA \
            NET_FORCE_FLUSH NET_GDR_LEVEL NET_GDR_READ NET_GDR_C2C NET_SHARED_BUFFERS NET_SHARED_COMMS \
            NET_OPTIONAL_RECV_COMPLETION ALLOC_P2P_NET_LL_BUFFERS DMABUF_ENABLE GDRCOPY_ENABLE \
            GDRCOPY_FLUSH_ENABLE GDRCOPY_SYNC_ENABLE GDRCOPY_FIFO_ENABLE GDR_FLUSH_DISABLE GIN_ENABLE \
            GIN_TYPE RMA_DISABLE SOCKET_IFNAME SOCKET_FAMILY SOCKET_NTHREADS NSOCKS_PERTHREAD SOCKET_INLINE \
            SOCKET_MIN_TASKSIZE IB_DISABLE IB_HCA IB_GID_INDEX IB_SL IB_TC IB_TIMEOUT IB_RETRY_CNT \
            IB_AR_THRESHOLD IB_ADAPTIVE_ROUTING IB_QPS_PER_CONNECTION IB_SPLIT_DATA_ON_QPS IB_MERGE_NICS \
            IB_MERGE_VFS IB_PCI_RELAXED_ORDERING IB_USE_INLINE IB_ADDR_FAMILY IB_ROCE_VERSION_NUM \
            IB_ECE_ENABLE IB_DATA_DIRECT",
    },
    Purpose {
        what: "registration, launching and sharing",
        names: "GRAPH_REGISTER LOCAL_REGISTER LEGACY_CUDA_REGISTER SINGLE_PROC_MEM_REG_ENABLE \
            MULTI_SEGMENT_REGISTER WIN_ENABLE GRAPH_MIXING_SUPPORT GRAPH_HELPER_DISABLE \
            GRAPH_STREAM_ORDERING LAUNCH_MODE LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL GROUP_CUDA_STREAM \
            MEM_SYNC_DOMAIN COMM_BLOCKING COMM_SPLIT_SHARE_RESOURCES COMM_SHRINK_SHARE_RESOURCES \
            MULTI_RANK_GPU_ENABLE SET_THREAD_NAME SET_STACK_SIZE",
    },
    Purpose { what: "checks", names: "CHECK_POINTERS CHECKS_DISABLE CHECK_MODE IGNORE_CPU_AFFINITY" },
    Purpose { what: "the debug level", names: "DEBUG DEBUG_SUBSYS" },
];

/// Variables of the table with a fixed list of values, because another value could name a library or a file.
const RESTRICTED: &[(&str, &[&str])] = &[
    // Other names select network plug-ins, which are libraries.
    ("NET", &["Socket", "IB"]),
    ("DEBUG", &["VERSION", "WARN", "ATTN", "INFO", "ABORT", "TRACE"]),
];

/// Every variable that a file may set.
pub fn allowed_variables() -> impl Iterator<Item = Variable> {
    let values = |name: &str| {
        RESTRICTED.iter().find(|(of, _)| *of == name).map_or(AllowedValues::Any, |(_, v)| AllowedValues::OneOf(v))
    };
    TABLE
        .iter()
        .flat_map(|purpose| purpose.names.split_whitespace())
        .map(move |name| Variable { name, values: values(name) })
}

/// Variables outside the table that `--allow-env` allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowEnv(Vec<String>);

impl AllowEnv {
    /// Checks one full name, such as `NCCL_NET_PLUGIN`.
    ///
    /// # Errors
    ///
    /// The text is not the name of an NCCL_* variable.
    pub fn parse_name(text: &str) -> Result<String, String> {
        if is_name(text) { Ok(text.to_owned()) } else { Err("expected the name of an NCCL_* variable".to_owned()) }
    }

    /// Parses names separated by commas.
    ///
    /// # Errors
    ///
    /// The text is not the name of an NCCL_* variable.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.split(',').map(Self::parse_name).collect::<Result<_, _>>().map(Self)
    }

    /// The variables with these names.
    pub fn from_names(names: &[String]) -> Self {
        Self(names.to_vec())
    }

    /// The allowed names.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// True if a file may set this variable to this value.
    pub fn admits(&self, name: &str, value: &str) -> bool {
        refuse_name(name, Span::default(), self).is_none() && refuse_value(name, value, Span::default(), self).is_none()
    }

    fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|allowed| allowed == name)
    }
}

/// True for `NCCL_` followed by capitals, digits and `_`.
pub(crate) fn is_name(name: &str) -> bool {
    let rest = name.strip_prefix("NCCL_").unwrap_or("");
    let capital = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    !rest.is_empty() && name.len() <= MAX_NAME && rest.bytes().all(capital)
}

/// The diagnostic for a variable that a file may not set; `None` if it may.
pub(crate) fn refuse_name(name: &str, span: Span, allowed: &AllowEnv) -> Option<Diagnostic> {
    if is_name(name) && (allowed.contains(name) || find(name).is_some()) {
        return None;
    }
    let upper = name.trim().to_ascii_uppercase();
    let known: Vec<String> = allowed_variables().map(|variable| format!("NCCL_{}", variable.name)).collect();
    let d = Diagnostic::new(span, format!("`{}` cannot be set", printable(name)));
    let near = nearest(&upper, known.iter().map(String::as_str));
    Some(match near {
        Some(near) if !is_name(name) || !is_dangerous(name) => d.help(format!("did you mean `{near}`?")),
        _ if is_name(name) => d.help(format!(
            "a file can set what chooses how NCCL works, such as algorithms, sizes and transports; `--allow-env {name}` allows \
             this one too"
        )),
        _ => d.help("a file can set NCCL_* variables only"),
    })
}

/// True for names of NCCL's variables that load libraries, use files or connect to other hosts; they are not misspellings of
/// other names.
fn is_dangerous(name: &str) -> bool {
    const WORDS: &[&str] =
        &["PLUGIN", "FILE", "LIB", "DUMP", "PATH", "_DIR_", "ADDR", "COMM_ID", "PROFILE", "INSPECTOR"];
    // `_DIR_` must be a whole word, so that P2P_DIRECT_DISABLE does not match.
    let name = format!("{name}_");
    WORDS.iter().any(|word| name.contains(word))
}

fn find(name: &str) -> Option<Variable> {
    let short = name.strip_prefix("NCCL_")?;
    allowed_variables().find(|variable| variable.name == short)
}

/// The diagnostic for a value that a file may not give a variable; `None` if it may.
pub(crate) fn refuse_value(name: &str, value: &str, span: Span, allowed: &AllowEnv) -> Option<Diagnostic> {
    if value.len() > MAX_VALUE {
        let message = format!("the value of `{name}` has {} bytes, more than {MAX_VALUE}", value.len());
        return Some(Diagnostic::new(span, message));
    }
    if let Some(c) = value.chars().find(|c| !is_printable(*c)) {
        let shown = printable(c.encode_utf8(&mut [0; 4])).into_owned();
        return Some(Diagnostic::new(span, format!("the value of `{name}` cannot hold the character {shown}")));
    }
    if value.trim() != value {
        let d = Diagnostic::new(span, format!("the value of `{name}` begins or ends with white space"));
        return Some(d.help("NCCL would read the white space too"));
    }
    // The key of a communicator's configuration has the same effect as the variable.
    let variable = if name == "netName" { "NCCL_NET" } else { name };
    match find(variable)?.values {
        AllowedValues::OneOf(known)
            if !allowed.contains(variable) && !known.iter().any(|word| word.eq_ignore_ascii_case(value)) =>
        {
            let d = Diagnostic::new(span, format!("`{name}` cannot be set to `{value}`"));
            Some(d.help(format!("known: {}; `--allow-env {variable}` allows any value", known.join(", "))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn name(text: &str) -> Option<String> {
        refuse_name(text, Span::default(), &AllowEnv::default()).map(|d| d.help.unwrap_or_default())
    }

    fn value(name: &str, text: &str) -> Option<String> {
        refuse_value(name, text, Span::default(), &AllowEnv::default()).map(|d| d.message)
    }

    #[test]
    fn the_table_names_each_once_and_nothing_that_names_a_file() {
        let names: Vec<_> = allowed_variables().map(|variable| variable.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for name in names {
            assert!(
                is_name(&format!("NCCL_{name}")) && !is_dangerous(&format!("NCCL_{name}")) || name == "IB_ADDR_FAMILY",
                "{name}"
            );
        }
        assert!(
            RESTRICTED
                .iter()
                .all(|(name, _)| allowed_variables().any(|v| v.name == *name && v.values != AllowedValues::Any))
        );
    }

    #[test]
    fn the_documentation_names_every_purpose_and_only_what_may_be_set() {
        let text = include_str!("../../../../docs/scenario-format.md");
        for purpose in TABLE {
            let row = text.lines().find(|line| line.starts_with(&format!("| {} |", purpose.what)));
            let row = row.unwrap_or_else(|| panic!("{} is not in docs/scenario-format.md", purpose.what));
            let named = row.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
            for name in named.filter(|word| word.len() > 2 && *word != "CTA") {
                assert!(
                    purpose.names.split_whitespace().any(|known| known == name) || purpose.what.contains(name),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn what_loads_writes_or_connects_is_refused() {
        for text in [
            "NCCL_ENV_PLUGIN",
            "NCCL_NET_PLUGIN",
            "NCCL_TUNER_PLUGIN",
            "NCCL_PROFILER_PLUGIN",
            "NCCL_GIN_PLUGIN",
            "NCCL_RMA_PLUGIN",
            "NCCL_IBVERBS_LIB",
            "NCCL_DEBUG_FILE",
            "NCCL_TOPO_FILE",
            "NCCL_TOPO_DUMP_FILE",
            "NCCL_GRAPH_FILE",
            "NCCL_GRAPH_DUMP_FILE",
            "NCCL_CONF_FILE",
            "NCCL_TUNER_CONFIG_FILE",
            "NCCL_COMM_ID",
            "NCCL_PROFILE_DUMP_FILE",
            "NCCL_RAS_ADDR",
            "NCCL_CHECKPOINT_KVS_PATH",
            "NCCL_INSPECTOR_DUMP_DIR",
        ] {
            let help = name(text).unwrap_or_else(|| panic!("{text} is admitted"));
            assert!(help.ends_with(&format!("`--allow-env {text}` allows this one too")), "{text}: {help}");
            let allowed = AllowEnv::parse(text).unwrap();
            assert!(refuse_name(text, Span::default(), &allowed).is_none());
        }
        for text in [
            "",
            "NCCL_",
            "nccl_algo",
            "NCCL_algo",
            " NCCL_ALGO",
            "NCCL_ALGO ",
            "NCCL_ALGO\0",
            "NCCL_ALGO\n",
            "LD_PRELOAD",
            "NCCL_ÄLGO",
            "NCCL_ALGO=x",
        ] {
            assert!(name(text).is_some() && AllowEnv::parse_name(text).is_err(), "{text:?}");
        }
        assert_eq!(name("NCCL_ALGOS").unwrap(), "did you mean `NCCL_ALGO`?");
        assert_eq!(name("nccl_algo").unwrap(), "did you mean `NCCL_ALGO`?");
        assert!(name(&"NCCL_A".repeat(100_000)).is_some());
    }

    #[test]
    fn values_are_short_and_plain() {
        assert_eq!(value("NCCL_ALGO", "Ring;allreduce:Tree"), None);
        assert_eq!(value("NCCL_ALGO", ""), None);
        assert_eq!(value("NCCL_ALGO", &"x".repeat(MAX_VALUE)), None);
        for bad in ["a\0", "a\n", "\u{1b}]0;", " Ring", "Ring\u{a0}", "a\u{202e}", "\u{9b}", &"x".repeat(MAX_VALUE + 1)]
        {
            assert!(value("NCCL_ALGO", bad).is_some(), "{bad:?}");
        }
        assert_eq!(value("NCCL_NET", "socket"), None);
        assert!(value("NCCL_NET", "/tmp/x.so").is_some() && value("NCCL_NET", "evil").is_some());
        assert!(
            value("netName", "IB").is_none()
                && value("netName", "evil").is_some()
                && value("commName", "evil").is_none()
        );
        assert!(value("NCCL_DEBUG", "INFO").is_none() && value("NCCL_DEBUG", "/tmp/x").is_some());
        let allowed = AllowEnv::parse("NCCL_NET,NCCL_NET_PLUGIN").unwrap();
        assert!(refuse_value("NCCL_NET", "mine", Span::default(), &allowed).is_none());
        assert!(refuse_value("NCCL_NET_PLUGIN", "a\n", Span::default(), &allowed).is_some());
    }
}
