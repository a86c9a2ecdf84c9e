//! `collspec machine`.
use super::exit::Exit;
use super::terminal;
use clap::{Args as ClapArgs, Subcommand};
use collspec_core::printable::{one_line, printable};
use collspec_run::machines::{Gpu, MachineProfile, NOT_AS_ON_THE_MACHINE, Nic};
use std::io::Write;

#[derive(Debug, Subcommand)]
pub enum MachineCommand {
    /// List the machines that software GPUs can be (--machine).
    List,
    Show(ShowArgs),
    /// Check profiles and topology files: each is a machine, or an error that names the line.
    Check {
        /// A profile (.toml), or a file that NCCL wrote to NCCL_TOPO_DUMP_FILE (.xml).
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
    },
}

/// Show a machine: its GPUs, NVLinks and network adapters, where its facts come from, and what is not as on the machine.
#[derive(Debug, ClapArgs)]
pub struct ShowArgs {
    /// One of those that `collspec machine list` shows, a profile (.toml), or a file that NCCL wrote to NCCL_TOPO_DUMP_FILE (.xml).
    #[arg(value_name = "NAME|FILE")]
    pub machine: String,

    /// Print the topology file that NCCL gets, and nothing else.
    #[arg(long)]
    pub topology: bool,
}

pub fn machine(command: &MachineCommand) -> anyhow::Result<Exit> {
    match command {
        MachineCommand::List => list(),
        MachineCommand::Show(args) => show(args),
        MachineCommand::Check { files } => check(files),
    }
}

fn list() -> anyhow::Result<Exit> {
    let machines = MachineProfile::all();
    let width = machines.iter().map(|machine| machine.name.len()).max().unwrap_or(0);
    let mut out = terminal::out();
    for machine in machines {
        writeln!(out, "{:width$}  {}", machine.name, machine.summary())?;
    }
    out.flush()?;
    Ok(Exit::ALL_PASSED)
}

fn show(ShowArgs { machine, topology }: &ShowArgs) -> anyhow::Result<Exit> {
    let machine = MachineProfile::find(machine)?;
    let mut out = terminal::out();
    if *topology {
        write!(out, "{}", machine.topology())?;
        out.flush()?;
        return Ok(Exit::ALL_PASSED);
    }
    writeln!(out, "{}\n{}", one_line(&machine.title), one_line(&machine.summary()))?;
    let kind = &machine.gpu;
    writeln!(out, "each GPU: {} multiprocessors, {} GiB", kind.multiprocessors, kind.memory >> 30)?;
    for (number, Gpu { bus, nvlinks, gpudirect }) in machine.gpus.iter().enumerate() {
        let reached = if *gpudirect { "" } else { ", without GPUDirect" };
        writeln!(out, "  GPU {number} at {bus}: {nvlinks} NVLinks{reached}")?;
    }
    for Nic { name, bus, speed, link } in &machine.nics {
        writeln!(out, "  {name} at {bus}: {speed} Gb/s, {link:?}")?;
    }
    for line in &machine.left_out {
        writeln!(out, "left out of the file: {line}")?;
    }
    for source in &machine.sources {
        writeln!(out, "source: {}", one_line(source))?;
    }
    writeln!(out, "not as on the machine: {}", NOT_AS_ON_THE_MACHINE.join("; "))?;
    out.flush()?;
    Ok(Exit::ALL_PASSED)
}

fn check(files: &[String]) -> anyhow::Result<Exit> {
    let mut exit = Exit::ALL_PASSED;
    let mut out = terminal::out();
    for file in files {
        match MachineProfile::find(file) {
            Ok(machine) => writeln!(out, "{}: {}", printable(file), one_line(&machine.summary()))?,
            Err(error) => {
                writeln!(terminal::err(), "collspec: {}", printable(&error.to_string()))?;
                exit = Exit::WRONG_INPUT;
            }
        }
    }
    out.flush()?;
    Ok(exit)
}
