//! Bugs of NCCL that are known, by which a failure is recognised.
use collspec_core::judge::{Finding, Lane, Status, Subject, Verdict};
use collspec_core::ops::NcclCall;
use collspec_core::plan::{self, CollectiveEvent, Event, Limits, Plan, Reduction, Region};
use collspec_core::printable::thousands;
use collspec_core::scenario::Case;
use nccl_sys::version_text;
use regex_lite::Regex;
use serde::{Deserialize, Deserializer, Serialize};
use std::cell::LazyCell;
use std::sync::{Arc, LazyLock};

#[derive(Deserialize)]
struct Table {
    bug: Vec<Bug>,
}

#[derive(Deserialize)]
struct Bug {
    name: String,
    /// What it does, unless the name says it.
    what: Option<String>,
    cases: Option<Pattern>,
    collective: Option<Described>,
    text: Option<Pattern>,
    log: Option<Pattern>,
    /// The subject of a change of the library itself by which a comparison shows it.
    measured: Option<String>,
    /// The first release that has the bug, and the last one unless the end is open.
    versions: Vec<Vec<Release>>,
}

/// A collective that shows the bug, in any file: what is left out does not matter.
#[derive(Deserialize)]
struct Described {
    dtype: Pattern,
    reduction: Option<Pattern>,
    ranks: Option<usize>,
    /// A number of bytes: windows hold what is sent, and a part of it does not begin at a multiple of them.
    windows_beside: Option<u64>,
}

impl Described {
    /// True if the case calls such a collective.
    fn is_in(&self, plan: &Plan) -> bool {
        plan.events.iter().any(|event| {
            let Event::Collective(collective) = event else { return false };
            let reduction = match &collective.reduction {
                Some(Reduction::PreMulSum(_)) => "premul_sum",
                Some(Reduction::Builtin(op)) if *op == nccl_sys::ncclRedOp_t::Avg => "avg",
                _ => "another",
            };
            self.ranks.is_none_or(|ranks| collective.calls.len() == ranks)
                && self.dtype.0.is_match(collective.dtype().name())
                && self.reduction.as_ref().is_none_or(|wanted| wanted.0.is_match(reduction))
                && self.windows_beside.is_none_or(|bytes| has_windows_beside(plan, collective, bytes))
        })
    }
}

/// True if a collective reads its input from a window, and some rank's part of the input does not begin at a multiple of `bytes`.
fn has_windows_beside(plan: &Plan, collective: &CollectiveEvent, bytes: u64) -> bool {
    let size = collective.dtype().size() as u64;
    let parts = match collective.op().call {
        NcclCall::AllGather | NcclCall::AllReduce => 0,
        NcclCall::ReduceScatter => collective.count() * size,
        _ => return false,
    };
    let is_beside = |region: Region| {
        let place = plan.buffers.get(region.buf)?.places.get(region.rank).copied().flatten()?;
        let alloc = plan.allocs.get(place.alloc).filter(|alloc| alloc.window)?;
        let start = alloc.lead + place.offset + region.start * size;
        Some([start, parts].iter().any(|at| !at.is_multiple_of(bytes)))
    };
    collective.sends().flatten().filter_map(is_beside).any(|is_beside| is_beside)
}

impl Bug {
    fn is_in_version(&self, version: i32) -> bool {
        let within = |range: &Vec<Release>| {
            range.first().is_some_and(|first| first.0 <= version) && range.get(1).is_none_or(|last| version <= last.0)
        };
        self.versions.iter().any(within)
    }

    /// True if a case may show it, by its name or by what it does, for which it is planned at most once.
    fn may_be_shown_by(&self, name: &str, plan: &LazyCell<Option<Plan>, impl FnOnce() -> Option<Plan>>) -> bool {
        let is_described = |described: &Described| plan.as_ref().is_some_and(|plan| described.is_in(plan));
        self.cases.as_ref().is_some_and(|cases| cases.0.is_match(name))
            || self.collective.as_ref().is_some_and(is_described)
    }
}

/// A bug that one of two releases has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    pub bug: String,
    /// What it does, unless the name says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// True if the second release has it, and the first one not.
    pub is_new: bool,
    /// Cases that may show the bug where it is.
    pub cases: usize,
    /// One of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// The subject of the change of the library itself that shows it, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
}

impl Difference {
    /// Which side has it, and what shows it.
    pub fn words(&self) -> String {
        let side = if self.is_new { "only in the candidate" } else { "only in the base" };
        let shown = match (&self.example, &self.measured) {
            (Some(example), _) if self.cases == 1 => format!("1 case here may show it: {example}"),
            (Some(example), _) => format!("{} cases here may show it, such as {example}", thousands(self.cases as u64)),
            (None, Some(subject)) => format!("it shows in: {subject}"),
            (None, None) => "no case here can show it".to_owned(),
        };
        let what = self.what.as_ref().map_or_else(String::new, |what| format!(" ({what})"));
        format!("{side}: {}{what}; {shown}", self.bug)
    }
}

/// The known bugs that one of two releases has, with those of these cases that may show them, and with those subjects of
/// changes of the library itself that do.
pub fn differences<'a>(
    base: i32,
    candidate: i32,
    cases: impl Iterator<Item = &'a Arc<Case>>,
    changes: &[&str],
) -> Vec<Difference> {
    let Ok(table) = TABLE.as_ref() else { return Vec::new() };
    let mut all: Vec<(&Bug, Difference)> = Vec::new();
    for bug in &table.bug {
        let is_new = bug.is_in_version(candidate);
        if bug.is_in_version(base) != is_new {
            let measured = bug.measured.clone().filter(|subject| changes.contains(&subject.as_str()));
            all.push((
                bug,
                Difference { bug: bug.name.clone(), what: bug.what.clone(), is_new, cases: 0, example: None, measured },
            ));
        }
    }
    // What the candidate brings matters more than what it is rid of.
    all.sort_by_key(|(_, difference)| !difference.is_new);
    if all.is_empty() {
        return Vec::new();
    }
    for case in cases {
        let (name, plan) = (name(case), LazyCell::new(|| plan::plan(case, &Limits::default()).ok()));
        for (_, difference) in all.iter_mut().filter(|(bug, _)| bug.may_be_shown_by(&name, &plan)) {
            difference.cases += 1;
            difference.example.get_or_insert_with(|| case.name.clone());
        }
    }
    all.into_iter().map(|(_, difference)| difference).collect()
}

struct Pattern(Regex);
struct Release(i32);

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Regex::new(&String::deserialize(from)?).map(Self).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Release {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let release = nccl_sys::release(&String::deserialize(from)?);
        release.map(Self).ok_or_else(|| serde::de::Error::custom("not a version"))
    }
}

/// The table that `ci/nccl-versions` reads too.
static TABLE: LazyLock<Result<Table, toml::de::Error>> =
    LazyLock::new(|| toml::from_str(include_str!("../../known-bugs.toml")));

/// A sentence on a failure on this version of NCCL: the known bug that it shows, or else the source of its scenario.
pub fn note(case: &Arc<Case>, verdict: &Verdict, version: i32) -> Option<String> {
    // Without a finding the case was not judged, for example because no worker could be started.
    let first = verdict.findings.first()?;
    // If only an expectation of the file fails, the library's results are right. How a case ends is expected of every file.
    let is_of_the_file = |finding: &Finding| finding.lane == Lane::Expected && finding.subject != Subject::Ending;
    if verdict.status != Status::Fail || is_of_the_file(first) {
        return None;
    }
    known(case, &name(case), &first.text, &verdict.notes.join("\n"), version).or_else(|| {
        if case.tags.iter().any(|tag| tag == "imported") {
            return None;
        }
        let source = toml::from_str::<toml::Table>(&case.file.text).ok()?.get("source")?.as_str()?.to_owned();
        Some(format!("the scenario is from {source}, where this failure may be described"))
    })
}

/// The file's path below the folder of scenarios, and the point of its matrix.
fn name(case: &Case) -> String {
    let path = case.file.path.as_str();
    let below = path.strip_prefix("scenarios/").or_else(|| path.rsplit_once("/scenarios/").map(|(_, below)| below));
    let path = below.unwrap_or(path);
    let point = case.name.find('[').and_then(|at| case.name.get(at..)).unwrap_or_default();
    format!("{}{point}", path.strip_suffix(".toml").unwrap_or(path))
}

fn known(case: &Arc<Case>, name: &str, words: &str, log: &str, version: i32) -> Option<String> {
    let has = |pattern: &Option<Pattern>, text: &str| pattern.as_ref().is_none_or(|pattern| pattern.0.is_match(text));
    let plan = LazyCell::new(|| plan::plan(case, &Limits::default()).ok());
    let bug = TABLE.as_ref().ok()?.bug.iter().find(|bug| {
        has(&bug.text, words) && has(&bug.log, log) && bug.is_in_version(version) && bug.may_be_shown_by(name, &plan)
    })?;
    let range = |range: &Vec<Release>| match range.as_slice() {
        [first, last] => format!("{} to {}", version_text(first.0), version_text(last.0)),
        all => all.first().map_or_else(String::new, |first| format!("since {}", version_text(first.0))),
    };
    let ranges: Vec<String> = bug.versions.iter().map(range).collect();
    let (name, ranges) = (&bug.name, ranges.join(" and "));
    Some(format!("this looks like a known bug of NCCL ({ranges}; docs/real-nccl.md): {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use collspec_core::scenario::{self, SourceFile};

    fn case(text: &str) -> Arc<Case> {
        let file = Arc::new(SourceFile { path: "mine.toml".into(), text: text.into() });
        Arc::new(scenario::parse(&file, "mine").unwrap().remove(0))
    }

    #[test]
    fn bugs_that_one_of_two_releases_has_are_told_with_what_shows_them() {
        const LEAK: &str = "host memory left behind by calls of one rank";
        let mine = case("world_size = 1\ndtype = \"f8e4m3\"\ninputs = [[1]]\nop = \"all_reduce\"\nreduce = \"avg\"\n");
        let of = |base: &str, candidate: &str| {
            let [base, candidate] = [base, candidate].map(|version| nccl_sys::release(version).unwrap());
            differences(base, candidate, std::iter::once(&mine), &[LEAK])
        };
        let fp8 = |all: Vec<Difference>| all.into_iter().find(|bug| bug.bug.starts_with("fp8")).unwrap();
        let new = fp8(of("2.24.2", "2.24.3"));
        assert!(new.is_new && new.cases == 1 && new.example.as_deref() == Some("mine"), "{new:?}");
        assert!(!fp8(of("2.24.3", "2.24.2")).is_new);
        assert_eq!(of("2.30.7", "2.30.7"), []);
        let leak = of("2.27.5", "2.29.7").into_iter().find(|bug| bug.bug.ends_with("1944")).unwrap();
        assert!(!leak.is_new && leak.cases == 0 && leak.measured.as_deref() == Some(LEAK), "{leak:?}");
    }

    #[test]
    fn a_failure_is_recognised_by_case_words_log_and_version() {
        assert!(TABLE.is_ok(), "{:?}", TABLE.as_ref().err());
        let sum = case("world_size = 2\nop = \"all_reduce\"\ninputs = { each = 1, count = 4 }\n");
        let known = |name: &str, words: &str, log: &str, version| known(&sum, name, words, log, version);
        let tail = "the last element; they hold the poison they started with, so nothing was written";
        let b01 = |version| known("regressions/b01_avg[count=4097]", tail, "", version);
        let words = "this looks like a known bug of NCCL (2.19.3 to 2.29.3; docs/real-nccl.md): NVIDIA/nccl#1950";
        assert_eq!(b01(22809).as_deref(), Some(words));
        assert_eq!((b01(21803), b01(22907)), (None, None));
        let fp8 = |case: &str, words: &str| known(case, words, "", 23007).is_some();
        assert!(
            fp8("a[dtype=f8e4m3,world_size=1]", "invalid_argument")
                && fp8("a[variant=w1_x,dtype=f8e5m2]", "invalid_argument")
        );
        assert!(
            !fp8("a[dtype=f8e4m3,world_size=16]", "invalid_argument") && !fp8("a[dtype=f8e4m3,world_size=1]", "wrong")
        );
        let log = "transport.cc:153 NCCL WARN Cuda failure 'invalid argument'";
        assert!(known("a", "hang", log, 21803).is_some() && known("a", "hang", "", 21803).is_none());
        assert!(known("regressions/b88_x", "", "", 23200).is_some_and(|note| note.contains("since 2.31.2;")));
    }

    /// In a user's own file, under any name.
    #[test]
    fn a_failure_is_recognised_by_what_the_case_calls() {
        let noted_on = |version: i32, bug: &str, words: &str, world: usize, dtype: &str, reduce: &str, comm: &str| {
            let text = format!(
                "world_size = {world}\ndtype = \"{dtype}\"\ninputs.x = {{ each = 1, count = 4 }}\n{comm}\n\
                 steps = [{{ op = \"all_reduce\", in = \"x\", out = \"y\", reduce = {reduce}{} }}]\n",
                if comm.is_empty() { "" } else { ", comm = \"alone\"" }
            );
            known(&case(&text), "mine", words, "", version).is_some_and(|note| note.contains(bug))
        };
        let noted = |words: &str, world: usize, dtype: &str, reduce: &str, comm: &str| {
            noted_on(23203, "fp8 with avg", words, world, dtype, reduce, comm)
        };
        let unwritten = |version: i32, reduce: &str| {
            noted_on(version, "nccl#1950", "x; the tail; nothing was written", 1, "f32", reduce, "")
        };
        let beside = |version: i32, dtype: &str, offset: u32| {
            let text = format!(
                "world_size = 2\noffset = {offset}\nregister = \"window\"\nop = \"all_reduce\"\n\
                 inputs = {{ each = 1, count = 4, dtype = \"{dtype}\" }}\n"
            );
            known(&case(&text), "mine", "1 of 4 elements wrong", "", version)
                .is_some_and(|note| note.contains("b3aeda4a"))
        };
        assert!(beside(22705, "f16", 1) && !beside(22705, "f16", 2) && !beside(22705, "f32", 1));
        assert!(beside(22705, "f8e4m3", 2) && !beside(23007, "f8e4m3", 2));
        assert!(unwritten(22705, "\"avg\"") && !unwritten(22907, "\"avg\"") && !unwritten(22705, "\"sum\""));
        let error = "ncclAllReduce returned invalid_argument";
        let alone = "comms.alone = { color = \"rank\" }";
        assert!(noted(error, 1, "f8e4m3", "\"avg\"", "") && noted(error, 1, "f8e5m2", "{ premul_sum = 2 }", ""));
        assert!(noted(error, 2, "f8e4m3", "\"avg\"", alone), "a communicator of one rank");
        assert!(!noted("wrong", 1, "f8e4m3", "\"avg\"", "") && !noted(error, 2, "f8e4m3", "\"avg\"", ""));
        assert!(!noted(error, 1, "f16", "\"avg\"", "") && !noted(error, 1, "f8e4m3", "\"max\"", ""));
    }
}
