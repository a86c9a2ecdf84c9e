//! Features that a plan needs and the library or devices lack. This is known before the case runs, so the case is skipped.
use super::rank_devices::RankDevices;
use collspec_core::ops::NcclCall;
use collspec_core::plan::Plan;
use collspec_core::scenario::Placement;
use collspec_run::backend::version_text;
use collspec_run::job::{CallKind, Red};
use collspec_run::library::LibraryInfo;
use collspec_run::run::Machine;
use nccl_sys::{ConfigField, Maker, Nccl, release};
use std::collections::BTreeSet;

/// Lowest compute capability on which NCCL can reduce 8-bit floats.
const REDUCES_FP8: (u32, u32) = (9, 0);

/// The release since which one-sided operations have contexts other than 0.
const CONTEXTS: &str = "2.31";

const GROUP: [&str; 2] = ["ncclGroupStart", "ncclGroupEnd"];
/// The calls that, in a group, replace a collective that the library does not have.
const PAIRS: [&str; 4] = ["ncclSend", "ncclRecv", "ncclCommCount", "ncclCommUserRank"];

/// The calls that create and destroy the operator of a `premul_sum`.
const OPERATORS: [&str; 2] = ["ncclRedOpCreatePreMulSum", "ncclRedOpDestroy"];

/// The first missing feature.
pub fn missing_feature(plan: &Plan, machine: &Machine, devices: &RankDevices<'_>) -> Option<String> {
    let has = |name: &str| machine.probed.symbols.iter().any(|symbol| symbol == name);
    // One thread makes the calls of all ranks, which only groups allow; communicators are destroyed after every case
    let grouped: &[_] = if plan.case.placement == Placement::OneThread { &GROUP } else { &[] };
    let always = grouped.iter().chain(&["ncclCommDestroy"]).copied().find(|name| !has(name));
    let of_calls = |plan: &Plan| {
        let mut calls = plan.prelude.iter().chain(&plan.programs).flatten();
        calls.find_map(|call| {
            let kind = call.kind.inner();
            let missing = needs(kind, &has).into_iter().find(|name| !has(name));
            let missing = missing.map(|name| function(name, machine));
            missing
                .or_else(|| field(kind, plan, machine))
                .or_else(|| dtype(kind, machine, devices))
                .or_else(|| {
                    // Where the step expects an error, an older library gives it too
                    let lacks = !call.tolerate && lacks_context(kind, machine.probed.version);
                    lacks.then(|| needed("contexts other than 0", CONTEXTS, machine))
                })
                .or_else(|| waits_for_the_same_thread(kind, plan, machine.probed.maker))
                .or_else(|| takes_the_colour(kind, machine.probed.maker))
                .or_else(|| takes_the_list(kind, plan, machine.probed.maker))
        })
    };
    always
        .map(|name| function(name, machine))
        .or_else(|| plan.history.as_deref().and_then(of_calls))
        .or_else(|| of_calls(plan))
}

/// NCCL's ranks wait for each other in these calls, which its documentation does not say, so one thread cannot make them for all ranks.
fn waits_for_the_same_thread(kind: &CallKind, plan: &Plan, maker: Maker) -> Option<String> {
    let (CallKind::Suspend { comm } | CallKind::Resume { comm }) = kind else { return None };
    let members = plan.comms.get(*comm as usize)?.members.len();
    let alone = plan.case.placement == Placement::OneThread && maker == Maker::Nvidia && members > 1;
    alone.then(|| "suspend and resume need a thread for each rank: NCCL's ranks wait for each other in them".to_owned())
}

/// NCCL's documentation has no colour below -1, but every release takes one for a colour like any other: the call neither fails nor is
/// promised to work, so the case has no right answer.
fn takes_the_colour(kind: &CallKind, maker: Maker) -> Option<String> {
    let CallKind::Split { color, .. } = kind else { return None };
    let undocumented = *color < -1 && maker != Maker::Collspec;
    undocumented.then(|| {
        format!("a split with the colour {color}: NCCL takes it for a colour like any other, which nothing documents")
    })
}

/// NCCL does not look whether the ranks that a shrink leaves out are those of its communicator, and nothing says what it then does.
fn takes_the_list(kind: &CallKind, plan: &Plan, maker: Maker) -> Option<String> {
    let CallKind::Shrink { parent, exclude, .. } = kind else { return None };
    let members = plan.comms.get(*parent as usize)?.members.len();
    let is_there = |rank: &i32| usize::try_from(*rank).is_ok_and(|rank| rank < members);
    let absent = exclude.iter().find(|rank| !is_there(rank)).filter(|_| maker != Maker::Collspec)?;
    Some(format!(
        "a shrink without rank {absent}, which the communicator does not have: NCCL does not look, and nothing documents what it does"
    ))
}

fn function(missing: &str, machine: &Machine) -> String {
    let since = Nccl::SYMBOLS.iter().find(|(name, _)| *name == missing).map_or("?", |(_, since)| since);
    let version = machine.probed.version;
    if release(since).is_some_and(|code| version < code) {
        return needed(missing, since, machine);
    }
    format!("needs {missing} (since NCCL {since}); this library, NCCL {}, does not have it", version_text(version))
}

fn needed(what: &str, since: &str, machine: &Machine) -> String {
    format!("needs {what} (since NCCL {since}); this is {}", version_text(machine.probed.version))
}

/// A configuration field that the plan sets and this version of the library ignores.
fn field(kind: &CallKind, plan: &Plan, machine: &Machine) -> Option<String> {
    let (CallKind::Init { config, .. }
    | CallKind::Split { config, .. }
    | CallKind::Shrink { config, .. }
    | CallKind::Grow { config, .. }) = kind
    else {
        return None;
    };
    let set = plan.configs.get((*config)? as usize)?;
    let mut set = set.iter().filter_map(|(name, _)| ConfigField::find(name));
    let field = set.find(|field| release(field.since).is_some_and(|code| machine.probed.version < code))?;
    Some(needed(&format!("the configuration's {}", field.name), field.since, machine))
}

macro_rules! functions_by_kind {
    ($($kind:pat => [$($name:literal),*],)*) => {
        /// The functions used by a call that is not a collective.
        fn of_kind(kind: &CallKind) -> &'static [&'static str] {
            match kind {
                $($kind => &[$($name),*],)*
                _ => &[],
            }
        }

        /// Every function that some kind of call uses.
        const OF_KINDS: &[&str] = &[$($($name),*),*];
    };
}

functions_by_kind! {
    CallKind::Send { .. } => ["ncclSend"],
    CallKind::Recv { .. } => ["ncclRecv"],
    CallKind::GroupStart => ["ncclGroupStart"],
    CallKind::GroupEnd => ["ncclGroupEnd"],
    CallKind::Init { ids: Some(_), .. } => ["ncclGetUniqueId", "ncclCommInitRankScalable"],
    CallKind::Init { config: None, .. } => ["ncclGetUniqueId", "ncclCommInitRank"],
    CallKind::Init { config: Some(_), .. } => ["ncclGetUniqueId", "ncclCommInitRankConfig"],
    CallKind::Split { .. } => ["ncclCommSplit"],
    CallKind::Shrink { .. } => ["ncclCommShrink"],
    CallKind::GrowId { .. } => ["ncclCommGetUniqueId"],
    CallKind::Grow { .. } => ["ncclCommGrow"],
    CallKind::Revoke { .. } => ["ncclCommRevoke"],
    CallKind::Suspend { .. } => ["ncclCommSuspend"],
    CallKind::Resume { .. } => ["ncclCommResume"],
    CallKind::Finalize { .. } => ["ncclCommFinalize"],
    CallKind::Destroy { .. } => ["ncclCommDestroy"],
    CallKind::Abort { .. } => ["ncclCommAbort"],
    CallKind::Put { .. } => ["ncclPutSignal"],
    CallKind::Signal { .. } => ["ncclSignal"],
    CallKind::WaitSignal { .. } => ["ncclWaitSignal"],
    CallKind::Register { window: false, .. } => ["ncclCommRegister", "ncclCommDeregister"],
    CallKind::Register { window: true, .. } => ["ncclMemAlloc", "ncclMemFree", "ncclCommWindowRegister", "ncclCommWindowDeregister"],
}

/// The functions that some case cannot run without, each once.
fn functions_of_cases() -> impl Iterator<Item = &'static str> {
    let collectives = NcclCall::ALL.iter().filter(|call| !call.is_pairwise()).map(|call| call.symbol());
    let configured = NcclCall::ALL.iter().map(|call| call.symbol_with_config());
    let names = collectives.chain(OPERATORS).chain(OF_KINDS.iter().copied()).chain(configured);
    names.collect::<BTreeSet<_>>().into_iter()
}

/// The cases that need functions missing from a library.
pub fn skipped_for_functions(library: &LibraryInfo) -> Vec<String> {
    let has = |name: &str| library.symbols.iter().any(|symbol| symbol == name);
    let mut words = Vec::new();
    let lacking: Vec<&str> = functions_of_cases().filter(|name| !has(name)).collect();
    if !lacking.is_empty() {
        let them = if lacking.len() > 1 { "them" } else { "it" };
        words.push(format!("cases that use {}: this library does not have {them}", lacking.join(", ")));
    }
    for call in NcclCall::ALL.iter().filter(|call| call.is_pairwise() && !has(call.symbol())) {
        words.push(if has("ncclSend") && has("ncclRecv") {
            format!("nothing, although {} is missing: sends and receives in a group replace it", call.symbol())
        } else {
            format!("cases that use {}: this library has neither it nor sends and receives", call.symbol())
        });
    }
    words
}

/// NCCL's functions that a call uses on a library that has all of them.
pub fn functions_of(kind: &CallKind) -> Vec<&'static str> {
    needs(kind, &|_| true)
}

/// Functions that a call uses.
fn needs(kind: &CallKind, has: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    // A library without these calls can run them as groups of sends and receives
    let or_pairs = |name| if has(name) { vec![name] } else { [&PAIRS[..], &GROUP].concat() };
    match kind {
        CallKind::Collective { call, red, algorithm, .. } => {
            let mut names = if algorithm.is_some() {
                vec![call.symbol_with_config()]
            } else if call.is_pairwise() {
                or_pairs(call.symbol())
            } else {
                vec![call.symbol()]
            };
            if matches!(red, Red::PreMulSum { .. }) {
                names.extend(OPERATORS);
            }
            names
        }
        other => of_kind(other).to_vec(),
    }
}

/// True if this version of the library refuses the call's context, although its configuration has `numRmaCtx`.
fn lacks_context(kind: &CallKind, version: i32) -> bool {
    let (CallKind::Put { signal, .. } | CallKind::Signal { signal, .. } | CallKind::WaitSignal { signal, .. }) = kind
    else {
        return false;
    };
    signal.context != 0 && release(CONTEXTS).is_some_and(|code| version < code)
}

fn dtype(kind: &CallKind, machine: &Machine, devices: &RankDevices<'_>) -> Option<String> {
    let (dtype, reduces) = match kind {
        CallKind::Collective { dtype, red, .. } => (*dtype, *red != Red::None),
        CallKind::Send { dtype, .. } | CallKind::Recv { dtype, .. } => (*dtype, false),
        _ => return None,
    };
    let (name, since) = (dtype.name(), dtype.since());
    if release(since).is_some_and(|code| machine.probed.version < code) {
        return Some(needed(name, since, machine));
    }
    let least = devices.least_compute()?;
    let small = dtype.is_float() && dtype.size() == 1;
    (small && reduces && least < REDUCES_FP8).then(|| {
        let ((a, b), (c, d)) = (REDUCES_FP8, least);
        format!("reductions of {name} need GPUs of compute capability {a}.{b}; the least here is {c}.{d}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use collspec_core::job::Signal;
    use collspec_core::plan::{self, Limits};
    use collspec_core::scenario::{self, SourceFile};
    use std::sync::Arc;

    #[test]
    fn contexts_came_later_than_the_field_that_counts_them() {
        let signal = |context| CallKind::Signal {
            peer: 0,
            signal: Signal { index: 0, context, call_flags: 0 },
            comm: 0,
            stream: 0,
        };
        assert!(lacks_context(&signal(1), 23007) && !lacks_context(&signal(0), 23007));
        assert!(!lacks_context(&signal(1), 23100));
    }

    #[test]
    fn one_thread_cannot_suspend_all_ranks_of_a_communicator_of_nccl() {
        let skipped = |placement: &str, ranks: usize, maker| {
            let text = format!("placement = \"{placement}\"\nworld_size = {ranks}\nsteps = [{{ op = \"suspend\" }}]\n");
            let file = Arc::new(SourceFile { path: "a.toml".into(), text: text.into() });
            let case = Arc::new(scenario::parse(&file, "a").unwrap().remove(0));
            let plan = plan::plan(&case, &Limits::default()).unwrap();
            let mut calls = plan.programs.iter().flatten();
            calls.find_map(|call| waits_for_the_same_thread(&call.kind, &plan, maker)).is_some()
        };
        assert!(skipped("one_thread", 2, Maker::Nvidia));
        assert!(!skipped("threads", 2, Maker::Nvidia) && !skipped("one_thread", 1, Maker::Nvidia));
        assert!(!skipped("one_thread", 2, Maker::Collspec), "the software library's ranks do not wait there");
    }

    #[test]
    fn only_nccl_takes_a_colour_below_the_documented_ones() {
        let split = |color| CallKind::Split { parent: 0, color, key: 0, new: None, config: None };
        assert!(takes_the_colour(&split(-2), Maker::Nvidia).is_some());
        assert!(takes_the_colour(&split(-1), Maker::Nvidia).is_none());
        assert!(takes_the_colour(&split(-2), Maker::Collspec).is_none());
    }

    #[test]
    fn only_nccl_takes_a_list_with_ranks_that_are_not_there() {
        let skipped = |without: &str, maker| {
            let step =
                format!("{{ op = \"shrink\", new = \"a\", without = [{without}], error = \"invalid_argument\" }}");
            let text = format!("world_size = 3\nsteps = [{step}]\n");
            let file = Arc::new(SourceFile { path: "a.toml".into(), text: text.into() });
            let case = Arc::new(scenario::parse(&file, "a").unwrap().remove(0));
            let plan = plan::plan(&case, &Limits::default()).unwrap();
            plan.programs.iter().flatten().any(|call| takes_the_list(&call.kind, &plan, maker).is_some())
        };
        assert!(skipped("3", Maker::Nvidia) && skipped("-1, 1", Maker::Nvidia));
        assert!(!skipped("1", Maker::Nvidia) && !skipped("3", Maker::Collspec));
    }

    #[test]
    fn every_function_that_cases_need_and_the_library_lacks_is_told() {
        let symbols: Vec<String> = nccl_sys::Nccl::SYMBOLS.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut library = LibraryInfo { version: 23203, maker: nccl_sys::Maker::Nvidia, symbols, slimmed: false };
        assert_eq!(skipped_for_functions(&library), [""; 0]);
        let lacking = ["ncclCommShrink", "ncclCommGrow", "ncclCommWindowRegister", "ncclPutSignal", "ncclGather"];
        library.symbols.retain(|name| !lacking.contains(&name.as_str()));
        let said = skipped_for_functions(&library).join("\n");
        lacking.iter().for_each(|name| assert!(said.contains(name), "{name} is not in: {said}"));
        assert!(said.contains("sends and receives in a group replace it"), "{said}");
    }
}
