//! Counts the outcomes of the smaller cases that were tried, and gives the reason ranks, elements or steps are left.
use super::size::{Size, counted};

/// The result of running a smaller case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Became {
    /// The smaller case passes.
    Passes,
    /// It fails, but in another way.
    FailsOtherwise,
    /// It was not run, or its run was cut off: it would take longer than the time that was left.
    TooLong,
}

/// The smaller cases that were given up, since the last one that was kept.
#[derive(Clone, Copy, Debug, Default)]
struct GivenUp {
    passed: u64,
    failed_otherwise: u64,
    too_long: u64,
}

/// Those with fewer ranks, with fewer elements and with fewer steps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept([GivenUp; 3]);

impl Kept {
    /// Notes a case that is given up.
    pub(super) fn give_up(&mut self, now: Size, tried: Size, became: Became) {
        for (given_up, _) in self.reduced(now, tried) {
            match became {
                Became::Passes => given_up.passed += 1,
                Became::FailsOtherwise => given_up.failed_otherwise += 1,
                Became::TooLong => given_up.too_long += 1,
            }
        }
    }

    /// Records a case that is kept: earlier attempts mean nothing for still smaller cases.
    pub(super) fn keep(&mut self, now: Size, tried: Size) {
        for (given_up, _) in self.reduced(now, tried) {
            *given_up = GivenUp::default();
        }
    }

    /// The dimensions in which the case that is tried is smaller.
    fn reduced(&mut self, now: Size, tried: Size) -> impl Iterator<Item = (&mut GivenUp, u64)> {
        let sizes = now.dimensions().into_iter().zip(tried.dimensions());
        let pairs = self.0.iter_mut().zip(sizes);
        pairs.filter_map(|(given_up, ((old, _), (new, _)))| (new < old).then_some((given_up, new)))
    }

    /// A sentence for each of ranks, elements and steps with more than one left.
    pub(super) fn sentences(&self, size: Size, out_of_time: bool) -> Vec<String> {
        let left = size.dimensions().into_iter().zip(&self.0).filter(|((number, _), _)| *number > 1);
        left.map(|((number, one), given_up)| {
            format!("{} are left: {}", counted(number, one), given_up.reason(one, out_of_time))
        })
        .collect()
    }
}

impl GivenUp {
    fn reason(&self, one: &str, out_of_time: bool) -> String {
        let cases = |number: u64, one_does: &str, several_do: &str| {
            (number > 0).then(|| {
                format!("{} {}", counted(number, "smaller case"), if number == 1 { one_does } else { several_do })
            })
        };
        let known = [
            cases(self.passed, "passes", "pass"),
            cases(self.failed_otherwise, "fails in another way", "fail in another way"),
            cases(
                self.too_long,
                "would take longer than the time that was left",
                "would take longer than the time that was left",
            ),
        ];
        let mut parts: Vec<String> = known.into_iter().flatten().collect();
        if out_of_time {
            parts.push("the time was over before all were tried".to_owned());
        }
        if parts.is_empty() {
            return format!("no valid scenario with fewer {one}s was found");
        }
        parts.join("; ")
    }
}
