//! scenarios/nccl-functions.md: NCCL's functions, and the scenarios that call them, made from the corpus. COLLSPEC_BLESS=1 writes it.
use collspec_core::plan::{Limits, plan};
use collspec_core::scenario::{AllowEnv, discover, load_found};
use collspec_suite::suite::functions_of;
use nccl_sys::Nccl;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Scenarios that are named in a row.
const SHOWN: usize = 3;
/// Cases of a file behind the last one that called a function which no case before it had called. The others are not looked at.
const PATIENCE: usize = 12;

/// Functions that are called without being asked for by a step.
const UNASKED: &[(&str, &str)] = &[
    ("ncclGetVersion", "every case: asked when a worker starts, and again at the end"),
    ("ncclGetErrorString", "every case: each code's text is asked for at the end"),
    ("ncclGetLastError", "every case with a call that fails"),
    ("ncclCommCount", "every case: asked of each communicator when it has been made and at the end"),
    ("ncclCommUserRank", "as `ncclCommCount`"),
    ("ncclCommCuDevice", "as `ncclCommCount`"),
    ("ncclCommGetAsyncError", "every case: asked while it waits and at the end"),
    ("ncclCommMemStats", "as `ncclCommCount`, and around each suspend"),
    ("ncclWinGetUserPtr", "every case with a window: asked when it has been registered"),
];

/// Functions that no scenario calls, with the reason.
const REASONS: &[(&str, &str)] = &[
    (
        "ncclCommInitAll",
        "makes all ranks of a process in one call; scenarios make them rank by rank, which every placement can",
    ),
    ("ncclBcast", "the form of `ncclBroadcast` that is always in place; scenarios broadcast with `in_place`"),
    ("ncclGroupSimulateEnd", "estimates a time and moves no data: there is no right answer to judge"),
    (
        "ncclSetEncryption",
        "holds for a whole process and needs a library built with OpenSSL; bytes on the network cannot be seen from here",
    ),
    (
        "ncclCommQueryProperties",
        "says what kernels may use; what it tells of rank, size and device the other queries tell",
    ),
    ("ncclGetLsaDevicePointer", DEVICE),
    ("ncclGetLsaMultimemDevicePointer", DEVICE),
    ("ncclGetPeerDevicePointer", DEVICE),
    ("ncclParamGetAllParameterKeys", PARAMETERS),
    ("ncclParamGetParameter", PARAMETERS),
    ("ncclParamBind", TYPED_PARAMETERS),
    ("ncclParamGetI8", TYPED_PARAMETERS),
    ("ncclParamGetI16", TYPED_PARAMETERS),
    ("ncclParamGetI32", TYPED_PARAMETERS),
    ("ncclParamGetI64", TYPED_PARAMETERS),
    ("ncclParamGetU8", TYPED_PARAMETERS),
    ("ncclParamGetU16", TYPED_PARAMETERS),
    ("ncclParamGetU32", TYPED_PARAMETERS),
    ("ncclParamGetU64", TYPED_PARAMETERS),
    ("ncclParamGetStr", TYPED_PARAMETERS),
    ("ncclParamGet", TYPED_PARAMETERS),
    ("ncclParamDumpAll", "prints the library's parameters; `collspec compare` reads them one by one"),
    ("ncclResetDebugInit", "not in the user guide; it changes only what the library logs"),
    ("ncclResetDebugInitInternal", "not in the user guide; it changes only what the library logs"),
];

const DEVICE: &str = "gives kernels an address; scenarios have no kernels of their own";
const PARAMETERS: &str = "`collspec compare` lists the parameters of both libraries with it; scenarios set variables";
const TYPED_PARAMETERS: &str = "reads one of the library's own settings; `collspec compare` reads all of them as text";
const KERNELS: &str = "sets up what kernels use (NCCL's device interface)";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The names of the scenario files that call each function.
fn callers() -> BTreeMap<&'static str, BTreeSet<String>> {
    let folder: PathBuf = root().join("scenarios");
    let mut callers: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
    for found in discover(&[folder]).unwrap() {
        let cases = load_found(&found, &AllowEnv::default(), Limits::default().file)
            .unwrap_or_else(|_| panic!("{} cannot be read", found.name));
        let mut called = BTreeSet::new();
        let mut idle = 0;
        for case in cases {
            // A case that is refused calls nothing.
            let Ok(plan) = plan(&Arc::new(case), &Limits::default()) else { continue };
            let plans = plan.history.as_deref().into_iter().chain([&plan]);
            let calls = plans.flat_map(|plan| plan.prelude.iter().chain(&plan.programs)).flatten();
            let before = called.len();
            called.extend(calls.flat_map(|call| functions_of(&call.kind)));
            idle = if called.len() > before { 0 } else { idle + 1 };
            if idle >= PATIENCE {
                break;
            }
        }
        for function in called {
            callers.entry(function).or_default().insert(found.name.clone());
        }
    }
    callers
}

/// The row's last column, or an error if there is nothing to say.
fn row(function: &str, callers: Option<&BTreeSet<String>>) -> Result<String, String> {
    let of = |list: &[(&'static str, &'static str)]| {
        list.iter().find(|(name, _)| *name == function).map(|(_, reason)| (*reason).to_owned())
    };
    if let Some(files) = callers {
        let shown: Vec<_> = files.iter().take(SHOWN).map(|name| format!("[{name}]({name}.toml)")).collect();
        // No number, or every new scenario would change the table.
        let more = if files.len() > SHOWN { " and others" } else { "" };
        return Ok(shown.join(", ") + more);
    }
    let kernels = || {
        let device = Nccl::NAMED_ONLY.iter().any(|(name, _)| *name == function);
        device.then(|| KERNELS.to_owned())
    };
    let reason = of(UNASKED).or_else(|| of(REASONS));
    reason
        .or_else(kernels)
        .ok_or_else(|| format!("no scenario calls {function}, and tests/it/nccl_coverage.rs has no reason for that"))
}

fn document() -> Result<String, String> {
    let callers = callers();
    let mut text = String::from(
        "# NCCL's functions and the scenarios that call them\n\n\
         Made from the corpus by `tests/it/nccl_coverage.rs`; `ci/bless` writes it. The\n\
         functions are those of NCCL 2.32.3, in the order of the releases that brought them. A scenario is a file; of many, the first are\n\
         named. Where no scenario calls a function, the reason stands in its place.\n\n\
         | function | since | scenarios |\n|---|---|---|\n",
    );
    let mut functions: Vec<(&str, &str)> = Nccl::SYMBOLS.iter().chain(Nccl::NAMED_ONLY).copied().collect();
    functions.retain(|(_, since)| *since != "-");
    functions.sort_by_key(|(name, since)| (nccl_sys::release(since), *name));
    for (function, since) in &functions {
        let said = row(function, callers.get(function))?;
        writeln!(text, "| `{function}` | {since} | {said} |").map_err(|error| error.to_string())?;
    }
    let unknown = callers.keys().find(|name| !functions.iter().any(|(function, _)| function == *name));
    match unknown {
        Some(name) => Err(format!("a scenario calls {name}, which is no function of NCCL's")),
        None => Ok(text),
    }
}

#[test]
#[ignore = "slow"]
fn the_table_of_functions_is_that_of_the_corpus() {
    let text = document().unwrap();
    let path = root().join("scenarios/nccl-functions.md");
    if std::env::var_os("COLLSPEC_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &text).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = written.lines().zip(text.lines()).find(|(was, is)| was != is);
    assert!(
        written == text,
        "scenarios/nccl-functions.md is not that of the corpus, first in {differs:?}; COLLSPEC_BLESS=1 writes it"
    );
}

#[test]
fn a_function_without_scenario_or_reason_is_noticed() {
    assert!(row("ncclNothing", None).is_err());
    assert_eq!(row("ncclSignal", Some(&BTreeSet::from(["a/b".to_owned()]))).unwrap(), "[a/b](a/b.toml)");
    let reasons = UNASKED.iter().chain(REASONS).map(|(name, _)| *name);
    for name in reasons {
        let known = Nccl::SYMBOLS.iter().chain(Nccl::NAMED_ONLY).any(|(function, _)| *function == name);
        assert!(known, "{name} is no function of NCCL's");
    }
}
