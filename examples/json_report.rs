//! Runs one scenario file and prints a JSON report of each of its cases:
//! `cargo run --example json_report -- scenarios/documented/all_gather_text.toml`.
use collspec::{Options, Suite};
use std::error::Error;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    collspec::enter_if_asked();
    let Some(file) = std::env::args_os().nth(1) else {
        eprintln!("usage: json_report FILE");
        return Ok(ExitCode::from(2));
    };
    let suite = Suite::open(&[file], Options::new())?;
    let mut reports = Vec::new();
    let counts = suite.run(|report| reports.push(report.clone()))?;
    println!("{}", serde_json::to_string_pretty(&reports)?);
    Ok(if counts.fail == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
