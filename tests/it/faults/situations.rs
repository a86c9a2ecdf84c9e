//! Faults of one operation in one situation: each is caught by the scenario that the audit's advice gives.
use super::ending::{Seen, example, runner};
use collspec_core::judge::Status;
use wrong_nccl::{Entry, Fault};

#[test]
fn every_member_is_caught_by_its_own_scenario() {
    let runner = runner();
    let families = Fault::all().filter(|fault| fault.only_type().is_none()).map(Fault::entry);
    let members: Vec<&Entry> = families.filter(|entry| entry.family.is_some()).collect();
    assert!(members.len() > 100, "{}", members.len());
    for Entry { id, .. } in members {
        let text = example(id);
        let sound = Seen::of(&runner, "", &text).verdict;
        assert_eq!(sound.status, Status::Pass, "{id}: {:?}\n{text}", sound.reason);
        let wrong = Seen::of(&runner, id, &text);
        assert_eq!(wrong.verdict.status, Status::Fail, "{id}\n{text}");
        assert!(!wrong.reached.is_empty(), "{id} says that it struck");
    }
}
