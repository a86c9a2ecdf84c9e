//! Splits work on many elements between the cores of the machine. The results do not depend on the split.
use crate::cores::threads_for;
use std::ops::Range;

/// Contiguous parts of `0..elements`, one per core, or fewer if the work is small; an element takes about `each` additions.
/// All but the last begin and end at multiples of `step`.
pub(crate) fn parts(elements: usize, each: usize, step: usize) -> Vec<Range<usize>> {
    split(elements, threads_for(elements.saturating_mul(each)), step)
}

fn split(elements: usize, parts: usize, step: usize) -> Vec<Range<usize>> {
    let steps = elements.div_ceil(step.max(1));
    let length = steps.div_ceil(parts.max(1)).max(1) * step.max(1);
    (0..elements).step_by(length).map(|from| from..(from + length).min(elements)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_elements_once() {
        for (elements, parts, step) in [(0, 2, 4), (1, 3, 4), (17, 3, 4), (1000, 7, 256), (1024, 2, 256), (5, 0, 1)] {
            let all = split(elements, parts, step);
            assert!(all.len() <= parts.max(1), "{all:?}");
            assert!(all.iter().all(|part| part.start.is_multiple_of(step) && !part.is_empty()), "{all:?}");
            assert_eq!(all.into_iter().flatten().collect::<Vec<_>>(), (0..elements).collect::<Vec<_>>());
        }
    }
}
