//! Stripes: the passes of a ring's channel are divided among several lanes, so that several threads can move them. Every element stays
//! in its pass and its part, so that the order of additions does not change.
use super::{Lane, Link, Script, Step};

/// Divides the passes of an operation's channels into lanes.
#[derive(Clone, Copy)]
pub(super) struct Stripes {
    /// Lanes of each channel.
    pub number: usize,
    /// Channels of the operation.
    pub channels: usize,
    /// Steps of a pass.
    pub steps: u64,
}

impl Stripes {
    /// The lanes of a channel with `passes` passes, each a copy of the channel's whole lane. Links have numbers in a byte: with too
    /// many channels, or with a single pass, there is one lane.
    pub fn deal(self, channel: usize, passes: usize, whole: impl Fn() -> Lane) -> Vec<Lane> {
        let number = if self.number * self.channels > usize::from(u8::MAX) { 1 } else { self.number.min(passes) };
        if number <= 1 {
            return vec![whole()];
        }
        let lane = |stripe: usize| Stripe {
            whole: whole(),
            steps: self.steps,
            stripe: stripe as u64,
            number: number as u64,
            lane: (channel + stripe * self.channels) as u8,
        };
        (0..number).map(|stripe| Box::new(lane(stripe)) as Lane).collect()
    }
}

/// Every pass of a channel whose number leaves the stripe's as the rest.
struct Stripe {
    whole: Lane,
    steps: u64,
    stripe: u64,
    number: u64,
    /// Number of its links.
    lane: u8,
}

impl Script for Stripe {
    fn step(&self, cursor: u64) -> Option<Step> {
        let pass = (cursor / self.steps).checked_mul(self.number)?.checked_add(self.stripe)?;
        let step = self.whole.step(pass.checked_mul(self.steps)?.checked_add(cursor % self.steps)?)?;
        let own = |link: Link| Link { lane: self.lane, ..link };
        Some(Step { recv: step.recv.map(own), send: step.send.map(own), ..step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes of three steps; the count of each step is its number.
    struct Counted {
        steps: u64,
    }

    impl Script for Counted {
        fn step(&self, cursor: u64) -> Option<Step> {
            let link = Some(Link { lane: 0, peer: 1 });
            (cursor < self.steps).then(|| Step { recv: link, send: link, count: cursor as usize, ..Step::default() })
        }
    }

    fn dealt(number: usize, channels: usize, channel: usize, passes: usize) -> Vec<Vec<Step>> {
        let steps = 3 * passes as u64;
        let lanes = Stripes { number, channels, steps: 3 }.deal(channel, passes, || Box::new(Counted { steps }));
        lanes.iter().map(|lane| (0..).map_while(|cursor| lane.step(cursor)).collect()).collect()
    }

    #[test]
    fn every_pass_is_in_one_stripe_and_whole() {
        for passes in 1..20 {
            for number in 1..6 {
                let lanes = dealt(number, 1, 0, passes);
                assert_eq!(lanes.len(), number.min(passes));
                for (stripe, steps) in lanes.iter().enumerate() {
                    for (at, step) in steps.iter().enumerate() {
                        assert_eq!(step.count, 3 * (at / 3 * lanes.len() + stripe) + at % 3);
                    }
                }
                assert_eq!(lanes.concat().len(), 3 * passes);
            }
        }
    }

    #[test]
    fn no_two_stripes_share_a_link() {
        let mut seen = std::collections::BTreeSet::new();
        for channel in 0..3 {
            for steps in dealt(4, 3, channel, 9) {
                let [first, ..] = &steps[..] else { panic!("no steps") };
                let lane = first.send.unwrap().lane;
                assert!(steps.iter().all(|step| [step.send, step.recv].iter().all(|l| l.unwrap().lane == lane)));
                assert!(seen.insert(lane), "{lane}");
            }
        }
        assert_eq!(dealt(4, 64, 0, 9).len(), 1, "a lane's number is a byte");
    }
}
