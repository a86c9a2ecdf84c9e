//! Measures the cost of both sides' libraries for a process, in turn.
use super::execute::Observer;
use super::side::Side;
use crate::record::{Measuring, PROCESSES, tuning};
use collspec_run::run::{Error, proof};

/// Measures the sides that are libraries, in new processes in turn, so that drift over time affects both equally.
///
/// # Errors
///
/// A process has loaded a library other than the requested one, or several.
pub fn measure_footprints(base: &mut Side, candidate: &mut Side, observer: &mut dyn Observer) -> Result<(), Error> {
    let mut sides: Vec<(Measuring, &mut Side)> = [base, candidate]
        .into_iter()
        .filter_map(|side| match side {
            Side::Live { chosen, options, .. } => Some((Measuring::new(chosen, options), side)),
            Side::Recorded(_) => None,
        })
        .collect();
    if sides.is_empty() {
        return Ok(());
    }
    observer.part(&format!("what each library costs a process, in {PROCESSES} processes each"));
    for _ in 0..PROCESSES {
        sides.iter_mut().for_each(|(measuring, _)| measuring.once());
        sides.reverse();
    }
    for (measuring, side) in sides {
        let footprint = measuring.done();
        let Side::Live { chosen, options, header, .. } = side else { continue };
        if !footprint.loaded.is_empty() {
            proof::check(&chosen.backend, Some(&footprint.mapped()))?;
        }
        header.footprint = Some(Box::new(footprint));
        header.tuning = tuning(chosen, options);
    }
    Ok(())
}
