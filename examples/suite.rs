//! Runs the scenarios of a folder and prints a line for each case: `cargo run --example suite`.
use collspec::{Options, Suite};

fn main() -> Result<(), collspec::Error> {
    // Cases run in this program, started again: this line must come first.
    collspec::enter_if_asked();
    let suite = Suite::open(&["scenarios"], Options::new())?;
    let counts = suite.run(|report| println!("{}: {:?}", report.case, report.status))?;
    println!("{} of {} passed", counts.pass, suite.names().count());
    Ok(())
}
