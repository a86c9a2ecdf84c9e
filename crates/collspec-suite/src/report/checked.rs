//! Describes in one line what was checked of a case that passed.
use collspec_core::judge::{Lane, Outcome, Verdict};
use collspec_core::scenario::Case;

/// Describes what was compared, how, and on how many ranks.
pub(super) fn checked(case: &Case, verdict: &Verdict) -> String {
    let lanes = [(Lane::Exact, "exactly"), (Lane::Admissible, "by admissible orders"), (Lane::Bounded, "by a bound")];
    let ways: Vec<(u64, &str)> = lanes
        .into_iter()
        .filter_map(|(lane, how)| {
            let looked_at = verdict.lanes.iter().find(|result| result.lane == lane)?.looked_at;
            (looked_at > 0).then_some((looked_at, how))
        })
        .collect();
    let elements = |count: u64| if count == 1 { "1 element".to_owned() } else { format!("{count} elements") };
    let total = elements(ways.iter().map(|(count, _)| count).sum());
    let judged = match ways.as_slice() {
        [] => match verdict.outcome {
            Some(Outcome::Ok) => "no results to judge; guards and inputs are intact".to_owned(),
            Some(Outcome::Error) => "ended with an error, as expected".to_owned(),
            // The observed reason, which need not be the one that the file's author had in mind.
            Some(Outcome::Hang) => {
                let why = verdict.notes.iter().find_map(|note| note.strip_prefix("hang")).unwrap_or_default();
                format!("hung, as expected{why}")
            }
            Some(Outcome::Crash) => "crashed, as expected".to_owned(),
            Some(Outcome::Refused) => "refused, as expected".to_owned(),
            None => "nothing was run".to_owned(),
        },
        [(_, how)] => format!("{total} judged {how}"),
        [first, rest @ ..] => {
            let part = |(count, how): &(u64, &str)| format!("{count} {how}");
            let rest: Vec<String> = rest.iter().map(part).collect();
            format!("{total} judged, {} and {}", part(first), rest.join(" and "))
        }
    };
    let ranks = match case.world_size.value {
        _ if ways.is_empty() => String::new(),
        1 => ", on 1 rank".to_owned(),
        ranks => format!(", on {ranks} ranks"),
    };
    let words = [(!case.expect.is_empty(), "`expect`"), (!case.asserts.is_empty(), "`assert`")];
    let words: Vec<&str> = words.into_iter().filter_map(|(there, word)| there.then_some(word)).collect();
    let own = match words.as_slice() {
        _ if verdict.outcome != Some(Outcome::Ok) => String::new(),
        [] => String::new(),
        words => format!(", and {} of the file", words.join(" and ")),
    };
    let rest = verdict.not_looked_at.as_ref().map(|rest| format!("; {rest}")).unwrap_or_default();
    format!("{judged}{ranks}{own}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixture;
    use collspec_core::judge::{LaneResult, Status};

    #[test]
    fn ways_of_judging_are_counted_together_and_each() {
        let case = fixture::case("a");
        let mut verdict = fixture::verdict("a", Status::Pass);
        assert_eq!(checked(&case, &verdict), "no results to judge; guards and inputs are intact");
        let lane = LaneResult::passed;
        verdict.lanes = vec![lane(Lane::Exact, 1), lane(Lane::Invariants, 9)];
        assert_eq!(checked(&case, &verdict), "1 element judged exactly, on 2 ranks");
        verdict.lanes = vec![lane(Lane::Exact, 4), lane(Lane::Admissible, 8)];
        assert_eq!(checked(&case, &verdict), "12 elements judged, 4 exactly and 8 by admissible orders, on 2 ranks");
        verdict.lanes.clear();
        verdict.outcome = Some(Outcome::Hang);
        assert_eq!(checked(&case, &verdict), "hung, as expected");
        verdict.notes = vec!["foreseen: a wait".into(), "hang: the ranks disagree".into()];
        assert_eq!(checked(&case, &verdict), "hung, as expected: the ranks disagree");
    }
}
