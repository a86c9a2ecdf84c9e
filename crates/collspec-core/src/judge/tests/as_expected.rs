//! Images that are found right where they are read, and are not kept, give the same verdicts as images that are kept.
use crate::job::Observation;
use crate::judge::test_case::{TestCase, planned_case};
use crate::judge::{Status, Verdict};

const PROGRAMS: [&str; 5] = [
    "world_size = 2\nop = \"reduce_scatter\"\ninputs = [[1, 2], [3, 4]]\nexpect = [[4], [6]]",
    "world_size = 3\nop = \"all_gather\"\nin_place = true\noffset = \"rank\"\ninputs = { each = \"10 * rank + i\", count = 5 }",
    // The first result has several right values, which the second step copies.
    "world_size = 3\ninputs.x = { each = \"1e8 * (rank - 1) + rank + i\", count = 4 }\nassert = [\"same(y, z)\"]\n\
     steps = [{ op = \"all_reduce\", in = \"x\", out = \"y\" }, { op = \"broadcast\", in = \"y\", out = \"z\" }]",
    "world_size = 2\nrepeat = 3\ndtype = \"i32\"\nop = \"all_to_all\"\ninputs = { each = \"100 * rank + i\", count = 6 }",
    "world_size = 2\ninputs.x = { each = \"rank\", count = 3 }\nassert = [\"y == x\"]\n\
     steps = [{ op = \"map\", expr = \"x\", out = \"y\" }, { op = \"send_recv\", in = \"x\", out = \"z\", to = \"1 - rank\", from = \"1 - rank\" }]",
];

/// The observation without the images that are the only right ones.
fn without_right_images(planned: &TestCase, mut seen: Observation) -> Observation {
    let right = seen.images.iter().enumerate().map(|(alloc, image)| planned.forecast.is_only_last_image(alloc, image));
    seen.as_expected = right.collect();
    for (image, _) in seen.images.iter_mut().zip(&seen.as_expected).filter(|(_, right)| **right) {
        image.clear();
    }
    seen
}

fn judge_both(planned: &TestCase, runs: &[Observation]) -> [Verdict; 2] {
    let without: Vec<_> = runs.iter().map(|run| without_right_images(planned, run.clone())).collect();
    [planned.judge(runs), planned.judge(&without)]
}

#[test]
fn right_images_that_are_not_kept_change_no_verdict() {
    let mut left_out = 0;
    for program in PROGRAMS {
        let planned = planned_case(program);
        let runs = vec![planned.perfect(); planned.plan.case.repeat as usize];
        left_out += without_right_images(&planned, runs[0].clone()).as_expected.iter().filter(|right| **right).count();
        let [kept, without] = judge_both(&planned, &runs);
        assert_eq!(kept.status, Status::Pass, "{program}: {:?}", kept.findings);
        assert_eq!(format!("{kept:?}"), format!("{without:?}"), "{program}");
    }
    assert!(left_out > 15, "{left_out}");
}

#[test]
fn a_changed_byte_anywhere_is_no_right_image_and_gives_the_same_verdict() {
    for program in PROGRAMS {
        let planned = planned_case(program);
        let runs = vec![planned.perfect(); planned.plan.case.repeat as usize];
        for (alloc, spec) in planned.plan.allocs.iter().enumerate() {
            let (start, end) = (spec.start() as usize, (spec.start() + spec.payload) as usize);
            let len = runs[0].images[alloc].len();
            for at in [0, 7, start - 1, start, end - 1, end, len - 1] {
                for run in [0, runs.len() - 1] {
                    let mut runs = runs.clone();
                    runs[run].images[alloc][at] ^= 0x10;
                    assert!(!planned.forecast.is_only_last_image(alloc, &runs[run].images[alloc]), "{program}: {at}");
                    let [kept, without] = judge_both(&planned, &runs);
                    assert_eq!(format!("{kept:?}"), format!("{without:?}"), "{program}: byte {at} of {alloc}");
                    assert_eq!(kept.status, Status::Fail, "{program}: byte {at} of {alloc}");
                }
            }
        }
    }
}

#[test]
fn an_image_of_another_length_is_not_right() {
    let planned = planned_case(PROGRAMS[0]);
    let image = &planned.perfect().images[0];
    assert!(planned.forecast.is_only_last_image(0, image));
    assert!(!planned.forecast.is_only_last_image(0, &image[1..]));
    assert!(!planned.forecast.is_only_last_image(0, &[]));
    assert!(!planned.forecast.is_only_last_image(1000, image));
}

#[test]
fn any_part_of_the_right_image_can_be_asked_for() {
    for program in PROGRAMS {
        let planned = planned_case(program);
        for alloc in 0..planned.plan.allocs.len() {
            let Some(image) = planned.forecast.only_last_image(alloc).map(|image| image.to_vec()) else { continue };
            let places = [0, 1, 4095, 4096, 4097, 4100, image.len() - 4096, image.len() - 1, image.len()];
            for range in
                places.iter().flat_map(|from| places.map(|to| *from..to)).filter(|range| range.start <= range.end)
            {
                let part = planned.forecast.only_last_bytes(alloc, range.clone());
                assert_eq!(part.as_deref(), Some(&image[range.clone()]), "{program}: {range:?} of {alloc}");
            }
            assert!(planned.forecast.only_last_bytes(alloc, 0..image.len() + 1).is_none());
        }
    }
}
