//! `collspec tuning`.
use super::exit::Exit;
use super::tuning_args::TuningArgs;
use super::{backend, output, own_json, run, terminal};
use crate::footprint::choices_in_words;
use crate::tuning::{Calls, Changes, Request, TELLS, Tuning, TuningError, VERSION, ask, changes, nodes_of};
use collspec_core::printable::one_line;
use collspec_run::child::Workers;
use collspec_run::child::guard::end_all;
use collspec_run::run::Backend;
use collspec_run::signals;
use collspec_suite::suite::{ChosenBackend, RunOptions};
use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

/// Limit on the sizes of an operation.
const MOST_SIZES: usize = 1000;

pub fn tuning(args: &TuningArgs) -> anyhow::Result<Exit> {
    run::warn_of_variables()?;
    output::check("JSON", &Vec::from_iter(output::file(&args.json)), args.against.clone())?;
    let is_standard_output = args.json.as_deref() == Some(Path::new("-"));
    anyhow::ensure!(
        !(is_standard_output && args.against.is_some()),
        "--json - leaves no room for what --against shows: name a file"
    );
    let against = args.against.as_deref().map(read).transpose()?;
    let options = args.options();
    let chosen = match backend::resolve(&options)? {
        Ok(chosen) => chosen,
        Err(exit) => return Ok(exit),
    };
    signals::at_interrupt(end_all)?;
    let tuning = ask(&request(args, &chosen, &options)?)?;
    let mut out = terminal::out();
    if own_json::write(&mut out, &args.json, &tuning)? {
        show(&mut out, &tuning)?;
        if let Some(before) = &against {
            compare(&mut out, before, &tuning)?;
        }
    }
    out.flush()?;
    Ok(Exit::ALL_PASSED)
}

fn request(args: &TuningArgs, chosen: &ChosenBackend, options: &RunOptions) -> anyhow::Result<Request> {
    let (Backend::Nccl { library, .. }, Some(machine), true) =
        (&chosen.backend, &chosen.machine, chosen.backend.has_software_gpus())
    else {
        anyhow::bail!("tuning asks a real library: name one by --nccl");
    };
    if machine.probed.version < TELLS {
        return Err(TuningError::Silent { library: chosen.describe() }.into());
    }
    let sizes = std::iter::successors(Some(args.minbytes), |bytes| bytes.checked_mul(args.stepfactor));
    let sizes: Vec<u64> = sizes.take_while(|bytes| *bytes <= args.maxbytes).take(MOST_SIZES).collect();
    anyhow::ensure!(!sizes.is_empty() && args.minbytes > 0, "there are no sizes from -b to -e");
    let operations = match args.operations.as_slice() {
        [] => Calls::usual().operations,
        named => named.to_vec(),
    };
    let gpus = machine.gpus.devices.len();
    let nodes = machine.node_names().len().max(1);
    let calls = Calls { operations, sizes, dtype: args.datatype };
    let ranks = args.ranks.map_or(gpus * nodes, NonZeroUsize::get);
    anyhow::ensure!(
        ranks > 1,
        "one rank has nothing to decide: ask for two or more (-g), or name a machine with more GPUs"
    );
    let nodes = nodes_of(chosen, options, library, machine, ranks, &calls).ok_or_else(|| {
        anyhow::anyhow!("{ranks} ranks do not fit: each node has {gpus} GPUs and needs a rank (--nodes {nodes})")
    })?;
    Ok(Request {
        library: chosen.describe(),
        nodes,
        limit: Duration::try_from_secs_f64(args.timeout).unwrap_or(Duration::MAX),
        workers: Workers::CurrentExe,
    })
}

/// Reads what --json wrote.
fn read(path: &Path) -> anyhow::Result<Tuning> {
    let tuning: Tuning = own_json::read(path, "tuning")?;
    let version = tuning.collspec_tuning;
    anyhow::ensure!(version == VERSION, "{} has version {version}, and this program reads {VERSION}", path.display());
    Ok(tuning)
}

fn show(out: &mut impl Write, tuning: &Tuning) -> anyhow::Result<()> {
    writeln!(out, "{}\n{} ranks\n", one_line(&tuning.library), tuning.ranks)?;
    for (name, value) in &tuning.communicator {
        writeln!(out, "{:<28}{}", one_line(name), one_line(value))?;
    }
    let mut by_operation: BTreeMap<&str, Vec<(u64, &str)>> = BTreeMap::new();
    for choice in &tuning.choices {
        let operation = choice.operation.as_deref().unwrap_or("operations");
        by_operation.entry(operation).or_default().push((choice.bytes, &choice.words));
    }
    for (operation, choices) in by_operation {
        writeln!(out, "\n{}", one_line(operation))?;
        for run in choices_in_words(&choices) {
            writeln!(out, "  {}", one_line(&run))?;
        }
    }
    Ok(())
}

fn compare(out: &mut impl Write, before: &Tuning, after: &Tuning) -> anyhow::Result<()> {
    writeln!(out, "\nagainst {}, {} ranks:", one_line(&before.library), before.ranks)?;
    let Changes { facts, choices, compared } = changes(before, after);
    let mut asked = vec![
        ("ranks", before.ranks.to_string(), after.ranks.to_string()),
        ("type", before.dtype.clone(), after.dtype.clone()),
    ];
    asked.retain(|(_, before, after)| before != after);
    for (name, before, after) in &asked {
        writeln!(out, "  asked for other {name}: {} -> {}", one_line(before), one_line(after))?;
    }
    if compared.is_empty() {
        writeln!(out, "  no operation is in both in the same size")?;
    } else if facts.is_empty() && choices.is_empty() && asked.is_empty() {
        writeln!(out, "  nothing is different in {}", one_line(&Vec::from_iter(compared).join(", ")))?;
    }
    for (name, before, after) in facts {
        let [before, after] = [before, after].map(|value| one_line(value.unwrap_or("not told")).into_owned());
        writeln!(out, "  {}: {before} -> {after}", one_line(name))?;
    }
    for change in choices {
        writeln!(out, "  {} {}", one_line(change.operation), one_line(&change.in_words()))?;
    }
    Ok(())
}
