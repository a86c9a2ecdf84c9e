//! Logs of a few ranks, as text.
mod agreement;
mod any_input;
mod costs;
mod ranks;
mod reading;
mod releases;

use super::super::source::Source;
use super::collect::Collector;
use super::read::read;
use super::{Form, import};
use std::path::PathBuf;

fn imported(files: &[PathBuf], form: Form) -> String {
    import(&files.iter().cloned().map(Source::File).collect::<Vec<_>>(), form, &mut |_| ())
        .unwrap_or_else(|error| panic!("{files:?}: {error}"))
        .text
}

/// The scenario of a text, or why there is none.
fn of_text(text: &[u8], form: Form) -> Result<String, String> {
    of_files(&[text], form)
}

fn of_files(files: &[&[u8]], form: Form) -> Result<String, String> {
    let mut collector = Collector::new(form == Form::Rounds);
    for text in files {
        read(*text, "text.log", &mut collector, &mut |_| ()).map_err(|error| error.to_string())?;
    }
    collector.end()?;
    let imported = super::build::build(&collector, &[], form).map_err(|error| error.to_string())?;
    Ok(imported.text)
}

/// The lines that matter, with the operation and what follows it.
fn steps(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("{ op = \""));
    lines.filter(|line| !line.contains("\"loop\"")).collect()
}

fn init(rank: usize, n: usize, pid: usize) -> String {
    format!(
        "h:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRank comm 0xa{rank} rank {rank} nranks {n} cudaDev {rank} nvmlDev 0 \
         busId 1 commId 0x77 - Init START\n"
    )
}

fn call(rank: usize, pid: usize, name: &str, number: usize, count: u64, root: usize) -> String {
    format!(
        "h:{pid}:{pid} [{rank}] NCCL INFO {name}: opCount {number:x} sendbuff 0x1000 recvbuff 0x2000 count {count} datatype 7 op 0 \
         root {root} comm 0xa{rank} stream 0x5\n"
    )
}
