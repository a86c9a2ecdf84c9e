//! Whatever the input, there is a scenario or an error.
use super::super::Form;
use super::{call, init, of_text};
use crate::import::golden::data;
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_bytes_are_refused_or_become_a_scenario(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = of_text(&bytes, Form::Rounds);
    }

    /// A log whose bytes were changed, cut and put elsewhere.
    #[test]
    fn changed_logs_are_refused_or_become_a_scenario(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..4),
        rounds in any::<bool>(),
    ) {
        let mut log = std::fs::read(data("nccl_log/2.31.2.log")).unwrap();
        for (at, byte) in changes {
            let at = at.index(log.len());
            log[at] = byte;
        }
        for (one, other) in cuts {
            let (one, other) = (one.index(log.len()), other.index(log.len()));
            let length = (log.len() - one.max(other)).min(120);
            log.drain(one.min(other)..one.min(other) + length.min(log.len() - one.min(other) - 1));
        }
        let _ = of_text(&log, if rounds { Form::Rounds } else { Form::Unique { bench: true } });
    }

    /// Groups of a recording that have anything in them, on two communicators.
    #[test]
    fn recordings_with_any_groups_are_refused_or_become_a_scenario(
        calls in prop::collection::vec((0..3usize, 0..4usize, 0..3usize, 0..4u64, any::<bool>()), 0..40),
        rounds in any::<bool>(),
    ) {
        const NAMES: [&str; 4] = ["AllReduce", "AllGather", "Send", "Recv"];
        let mut log = "h:1:1 [0] NCCL INFO collspec record\n".to_owned();
        for rank in 0..3 {
            log.push_str(&init(rank, 3, 1));
            log.push_str(&init(rank, 3, 1).replace(" 0xa", " 0xb").replace("0x77", "0x78"));
        }
        for (rank, name, root, group, other) in calls {
            let call = call(rank, 1, NAMES[name], 0, 6, root);
            let call = if other { call.replace(" 0xa", " 0xb") } else { call };
            let group = if group == 0 { String::new() } else { format!(" group {group}") };
            log.push_str(&format!("{}{group}\n", call.trim_end()));
        }
        let _ = of_text(log.as_bytes(), if rounds { Form::Rounds } else { Form::Unique { bench: true } });
    }

    /// Numbers in a line that say anything.
    #[test]
    fn lines_with_any_numbers_are_refused_or_become_a_scenario(
        calls in prop::collection::vec((0..3usize, 0..11usize, 0..4usize, prop_oneof![0..9u64, any::<u64>()], 0..4usize), 0..30),
        rounds in any::<bool>(),
    ) {
        const NAMES: [&str; 11] = ["AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter", "Send", "Recv", "Else"];
        let mut log = init(0, 3, 1) + &init(1, 3, 2) + &init(2, 3, 2);
        for (rank, name, number, count, root) in calls {
            log.push_str(&call(rank, 1 + usize::from(rank > 0), NAMES[name], number, count, root));
        }
        let _ = of_text(log.as_bytes(), if rounds { Form::Rounds } else { Form::Unique { bench: true } });
    }
}
