//! Runs a rank's program again and again for its times.
use super::drive::{HaltAt, run_program};
use super::rank::Rank;
use super::session::Run;
use crate::job::Timed;
use std::sync::Arc;

/// All iterations of a rank; the last one, which starts from the inputs as they were, leaves the results that are judged.
pub fn run(run: &Arc<Run>, r: &mut Rank<'_>, timed: Timed) -> Result<(), HaltAt> {
    let program = &run.job().programs[r.rank];
    let halt = HaltAt::outside(false);
    for chunk in chunks(timed.warm_up) {
        for _ in 0..chunk {
            run_program(r, program)?;
        }
        r.drain().map_err(&halt)?;
    }
    let before = run.backend.device.work(r.rank);
    let mut times = Vec::new();
    for chunk in chunks(timed.iterations.saturating_sub(1)) {
        in_a_row(run, r, chunk, &mut times)?;
    }
    run.meet_again().map_err(&halt)?;
    r.fill().map_err(&halt)?;
    in_a_row(run, r, 1, &mut times)?;
    let done =
        before.zip(run.backend.device.work(r.rank)).map(|(before, after)| after.with(before, u64::saturating_sub));
    run.record_times(r.rank, times, done);
    Ok(())
}

/// Iterations that are on a stream at a time: each takes about a kilobyte there.
const IN_A_ROW: u32 = 1_000;

/// Numbers of iterations that are put on the stream before it is emptied.
fn chunks(iterations: u32) -> impl Iterator<Item = u32> {
    (0..iterations).step_by(IN_A_ROW as usize).map(move |from| IN_A_ROW.min(iterations - from))
}

/// Iterations one right after the other on the device, each between two events in the stream.
fn in_a_row(run: &Arc<Run>, r: &mut Rank<'_>, iterations: u32, times: &mut Vec<f64>) -> Result<(), HaltAt> {
    let halt = HaltAt::outside(false);
    run.meet_again().map_err(&halt)?;
    let mut events = vec![r.timestamp().map_err(&halt)?];
    for _ in 0..iterations {
        run_program(r, &run.job().programs[r.rank])?;
        events.push(r.timestamp().map_err(&halt)?);
    }
    r.drain().map_err(&halt)?;
    for pair in events.windows(2) {
        if let [from, to] = pair {
            times.push(r.seconds_between(from, to).map_err(&halt)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_all_iterations() {
        assert_eq!(chunks(0).count(), 0);
        assert_eq!(chunks(1).collect::<Vec<_>>(), [1]);
        assert_eq!(chunks(2_001).collect::<Vec<_>>(), [1_000, 1_000, 1]);
        assert_eq!(chunks(u32::MAX).map(u64::from).sum::<u64>(), u64::from(u32::MAX));
    }
}
