//! Checks the memory statistics of communicators.
use super::super::findings::FindingCollector;
use super::super::outcome::CommNames;
use super::{QueryTexts, record};
use crate::job::{MemoryAnswer, MemoryAsked};
use crate::plan::Plan;

/// Checks what holds for the statistics of every library: the total is the sum of its parts, and the state matches the program.
/// A library that refuses to answer is not judged.
pub(super) fn check(
    plan: &Plan,
    names: &CommNames<'_>,
    rank: usize,
    all: &[MemoryAsked],
    collector: &mut FindingCollector,
) {
    if plan.undefined.is_some() {
        return;
    }
    for asked in all {
        let Some(comm) = plan.comms.get(asked.comm as usize) else { continue };
        let said = |what: &str, answer| {
            let of = names.text(comm);
            match answer {
                MemoryAnswer::Is(value) => format!("{what} {value} of {of}"),
                MemoryAnswer::Nothing | MemoryAnswer::Refused(_) => format!("{what}: success but no value of {of}"),
            }
        };
        let mut check = |right: bool, texts: &dyn Fn() -> QueryTexts| {
            record("ncclCommMemStats", right, rank, collector, texts);
        };
        for (what, answer) in [
            ("the memory that suspending releases", asked.suspendable),
            ("the memory that stays", asked.persistent),
            ("the whole memory", asked.total),
        ] {
            let texts = || QueryTexts { right: "a number of bytes".into(), actual: said(what, answer) };
            check(answer != MemoryAnswer::Nothing, &texts);
        }
        let state = u64::from(asked.suspended);
        if !matches!(asked.released, MemoryAnswer::Refused(_)) {
            let right = asked.released == MemoryAnswer::Is(state);
            check(right, &|| QueryTexts {
                right: format!("suspended {state}"),
                actual: said("suspended", asked.released),
            });
        }
        if let (MemoryAnswer::Is(parts), MemoryAnswer::Is(stays), MemoryAnswer::Is(total)) =
            (asked.suspendable, asked.persistent, asked.total)
        {
            let sum = parts.saturating_add(stays);
            check(total == sum, &|| QueryTexts {
                right: format!("the sum {sum} of its parts"),
                actual: said("the whole memory", asked.total),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::test_case::planned_case;
    use MemoryAnswer::{Is, Nothing, Refused};

    fn findings(change: impl FnOnce(&mut MemoryAsked)) -> Vec<String> {
        let planned = planned_case(
            "world_size = 2\ninputs.x = { each = \"rank\", count = 1 }\nsteps = [{ op = \"all_reduce\", in = \"x\", out = \"y\" }]",
        );
        let mut observation = planned.perfect();
        let mut asked = MemoryAsked {
            comm: 0,
            suspended: false,
            suspendable: Is(10),
            released: Is(0),
            persistent: Is(5),
            total: Is(15),
        };
        change(&mut asked);
        observation.ranks[1].answers.memory = vec![asked];
        planned.judge(&[observation]).findings.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn right_and_refused_statistics_pass() {
        assert_eq!(findings(|_| {}), [] as [&str; 0]);
        assert_eq!(findings(|asked| (asked.released, asked.total) = (Refused(5), Refused(5))), [] as [&str; 0]);
        assert_eq!(findings(|asked| (asked.suspended, asked.released) = (true, Is(1))), [] as [&str; 0]);
    }

    #[test]
    fn each_wrong_statistic_is_named() {
        type Change = fn(&mut MemoryAsked);
        const CHANGES: &[(Change, &str)] = &[
            (|a| a.total = Is(16), "the whole memory 16"),
            (|a| a.released = Is(1), "suspended 1"),
            (|a| a.suspended = true, "expected suspended 1"),
            (|a| a.persistent = Nothing, "the memory that stays: success but no value"),
        ];
        for (change, text) in CHANGES {
            let found = findings(change);
            assert!(found.len() == 1 && found[0].contains(text), "{text}: {found:?}");
        }
    }
}
