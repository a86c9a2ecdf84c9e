//! `collspec hang`.
use super::exit::Exit;
use super::hang_args::HangArgs;
use super::{output, terminal};
use crate::hang::{Evidence, Kind, diagnose, markdown, read, text};
use crate::import::{Imported, flight_recorder, nccl_log};
use collspec_core::printable::write_json;
use std::io::Write;

/// Complete steps that the scenario keeps before the first one that was not complete.
const STEPS: usize = 20;

pub fn hang(args: &HangArgs) -> anyhow::Result<Exit> {
    output::check("scenario", args.output.as_slice(), args.paths.clone())?;
    let evidence = read(&args.paths)?;
    // Also what was found in folders.
    output::check("scenario", args.output.as_slice(), evidence.files().to_vec())?;
    let scenario = args.output.as_ref().map(|path| (path, scenario(&evidence)));
    let diagnosis = diagnose(&evidence.job(&mut |_| ())?);
    let said = if args.json {
        let mut json = Vec::new();
        write_json(&mut json, &diagnosis)?;
        String::from_utf8_lossy(&json).into_owned() + "\n"
    } else if args.markdown {
        markdown(&diagnosis)
    } else {
        text(&diagnosis)
    };
    let mut out = terminal::out();
    out.write_all(said.as_bytes())?;
    out.flush()?;
    if let Some((path, scenario)) = scenario {
        output::replace(path, scenario?.text.as_bytes())?;
    }
    Ok(match diagnosis.findings.as_slice() {
        [] if diagnosis.waiting.iter().any(|waiting| waiting.is_unknown) => Exit::NO_VERDICT,
        [] => Exit::ALL_PASSED,
        _ if diagnosis.is_guess() => Exit::NO_VERDICT,
        _ => Exit::SOME_FAILED,
    })
}

fn scenario(evidence: &Evidence) -> anyhow::Result<Imported> {
    Ok(match evidence.kind() {
        Kind::Dumps => flight_recorder::import(evidence.dump_files(), STEPS, true)?,
        Kind::Logs => nccl_log::import(evidence.logs(), nccl_log::Form::Rounds, &mut |_| ())?,
    })
}
