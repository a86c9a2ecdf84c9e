//! A case that fails in some starts of the library only is made smaller all the same.
use super::{library, run};
use crate::support::Home;

#[test]
fn a_case_that_fails_now_and_then_is_made_smaller() {
    let home = Home::new();
    home.file(
        "now-and-then.toml",
        "world_size = 4\ninputs.x = { each = \"rank + i\", count = 100 }\nsteps = [\n  \
         { op = \"broadcast\", root = 1, in = \"x\", out = \"y\" },\n  { op = \"all_reduce\", in = \"y\", out = \"z\" },\n]\n",
    );
    let library = library(&home, "faulty", "wrong-start=5");
    let args = ["minimize", "now-and-then.toml", "--repeats", "60", "--budget", "15", "--output", "small.toml"];
    let run = run(&home, 4, &library, &args);
    assert_eq!(run.code, 0, "{run}");
    let rate = run.err.split("the case fails now and then: ").nth(1).unwrap_or_else(|| panic!("{run}"));
    let mut numbers = rate.split(' ').filter_map(|word| word.parse::<u32>().ok());
    let (failed, all) = (numbers.next().unwrap(), numbers.next().unwrap());
    assert!(failed >= 1 && failed < all, "{run}");
    let sizes = run.err.split("4 ranks, 100 elements, 2 steps became ").nth(1).unwrap_or_else(|| panic!("{run}"));
    assert!(!sizes.starts_with("4 ranks, 100 elements, 2 steps"), "{run}");
}
