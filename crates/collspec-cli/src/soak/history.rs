//! Steps that run before the program, on communicators that the program does not use.
use super::program::World;
use super::steps;

/// Steps for `before`. They change nothing for the steps that follow: those have the inputs and the communicators of the file.
pub(super) fn before(world: &mut World) -> Vec<String> {
    let (buffers, communicators) = (world.buffers.clone(), world.communicators.clone());
    let mut lines = Vec::new();
    for _ in 0..world.rng.between(1, 3) {
        let block = steps::step(world);
        // Blocks with steps that may fail are refused.
        if !block.iter().any(|step| step.contains("error = ")) {
            lines.extend(block);
        }
    }
    (world.buffers, world.communicators) = (buffers, communicators);
    world.streams.clear();
    lines
}
