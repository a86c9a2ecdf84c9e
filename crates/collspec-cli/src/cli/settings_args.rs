//! The settings of a run that several commands take; the comments here are their help text.
use super::args::{BACKEND, MANNER, SOFTWARE};
use clap::Args as ClapArgs;
use collspec_core::scenario::Placement;
use collspec_run::run::{RanksPerGpu, seconds};
use collspec_suite::suite::options::{NAMED, NamedOption, OptionError, machine_name, nodes};
use collspec_suite::suite::{BackendRequest, RunOptions};
use std::num::NonZeroUsize;

/// How cases run.
#[derive(Debug, ClapArgs)]
pub struct SettingsArgs {
    #[command(flatten)]
    pub common: CommonArgs,

    #[command(flatten)]
    pub software: SoftwareArgs,

    /// How ranks are placed in files that do not say: threads, processes or one_thread. Cases that cannot run this way run
    /// in the default placement.
    #[arg(long, value_name = "NAME", value_parser = Placement::parse, help_heading = MANNER)]
    pub placement: Option<Placement>,
}

/// What holds for every library.
#[derive(Debug, ClapArgs)]
pub struct CommonArgs {
    /// Have software GPUs be those of this machine, with its NVLinks, PCIe switches and network adapters: one of those that `collspec machine list`
    /// shows, the path of a profile, or the .xml file that NCCL writes to NCCL_TOPO_DUMP_FILE on a machine of yours.
    #[arg(long, value_name = "NAME|FILE", value_parser = machine_name, help_heading = BACKEND)]
    pub machine: Option<String>,

    /// Run on this many nodes with software GPUs, each of which is a process with a thread for each of its ranks. The ranks of a case are dealt
    /// to the nodes in equal blocks.
    #[arg(long, value_name = "N", value_parser = nodes, help_heading = BACKEND)]
    pub nodes: Option<NonZeroUsize>,

    /// How many ranks may share a GPU if a case has more ranks than there are GPUs: a number, or auto for as many as the
    /// case needs. Ranks that share a GPU each run in a separate process. With 1, such cases are skipped.
    #[arg(long, value_name = "N", default_value = "1", value_parser = RanksPerGpu::parse, help_heading = BACKEND)]
    pub ranks_per_gpu: RanksPerGpu,

    /// Time limit in seconds for cases whose file sets none [default: 30].
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = MANNER)]
    pub timeout: Option<f64>,

    /// Time limit in seconds for what comes before and after a case: making communicators and filling buffers, and destroying
    /// communicators [default: 60].
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = MANNER, hide_short_help = true)]
    pub opening_timeout: Option<f64>,
}

/// What only the software library and software GPUs have: the options of the table with a help.
#[derive(Clone, Debug, Default)]
pub struct SoftwareArgs(Vec<(&'static str, String)>);

fn of_software() -> impl Iterator<Item = (&'static NamedOption, (&'static str, &'static str))> {
    NAMED.iter().filter_map(|option| Some((option, option.help?)))
}

impl clap::Args for SoftwareArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        of_software().fold(command, |command, (option, (value, help))| {
            let check = |text: &str| match RunOptions::default().set(option.name, text) {
                Ok(()) => Ok(text.to_owned()),
                Err(OptionError::Value { reason, .. }) => Err(reason),
                Err(error) => Err(error.to_string()),
            };
            let argument = clap::Arg::new(option.name).long(option.name).value_name(value).value_parser(check);
            command.arg(argument.help(help).help_heading(SOFTWARE).hide_short_help(true))
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for SoftwareArgs {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let given = |(option, _): (&'static NamedOption, _)| {
            Some((option.name, matches.get_one::<String>(option.name)?.clone()))
        };
        Ok(Self(of_software().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl SettingsArgs {
    /// The options, with what was typed.
    pub fn apply(&self, options: RunOptions) -> RunOptions {
        let options = self.software.apply(self.common.apply(options));
        RunOptions { placement: self.placement, ..options }
    }
}

impl CommonArgs {
    /// The options, with what was typed.
    pub fn apply(&self, options: RunOptions) -> RunOptions {
        RunOptions {
            backend: BackendRequest { machine: self.machine.clone(), nodes: self.nodes, ..options.backend },
            ranks_per_gpu: self.ranks_per_gpu,
            timeout: self.timeout,
            opening_timeout: self.opening_timeout,
            ..options
        }
    }
}

impl SoftwareArgs {
    /// True if this option was typed.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(given, _)| *given == name)
    }

    /// The options, with what was typed.
    pub fn apply(&self, mut options: RunOptions) -> RunOptions {
        for (name, value) in &self.0 {
            // Each value was checked when it was read.
            let _ = options.set(name, value);
        }
        options
    }
}
