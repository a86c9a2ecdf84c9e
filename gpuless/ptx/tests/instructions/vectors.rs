//! Every kind of vectors gives the same bits as one lane at a time.
use crate::list::{INSTRUCTIONS, kernels, operands};
use crate::software::results;
use ptx::run::Vectors;

/// Threads: two whole warps, and one with lanes that have ended.
const THREADS: usize = 90;

#[test]
fn all_kinds_of_vectors_give_the_same_bits() {
    let texts = kernels(THREADS);
    for seed in 1..20 {
        let input = [operands(THREADS, seed), operands(THREADS, seed + 100), operands(THREADS, seed + 200)].concat();
        let expected = results(&texts, Vectors::OneByOne, &input, 1);
        for vectors in Vectors::available() {
            let found = results(&texts, vectors, &input, 1);
            for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let differs = (0..THREADS).find(|thread| found[*thread] != expected[*thread]);
                if let Some(thread) = differs {
                    let operands: Vec<String> =
                        (0..3).map(|which| format!("{:#x}", input[which * THREADS + thread])).collect();
                    panic!(
                        "{} with {vectors:?} of {}: {:#x} and not {:#x}",
                        INSTRUCTIONS[number].0,
                        operands.join(", "),
                        found[thread],
                        expected[thread]
                    );
                }
            }
        }
    }
}
