//! `collspec completions` and `collspec man`: what shells and manuals want to know about the command line.
use super::args::Args;
use super::exit::Exit;
use super::terminal;
use anyhow::Context;
use clap::{Args as ClapArgs, CommandFactory};
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;

/// Print a script that completes the command line in a shell.
///
/// For bash: `collspec completions bash > ~/.local/share/bash-completion/completions/collspec`
#[derive(Debug, ClapArgs)]
pub struct CompletionsArgs {
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

/// Print the manual page, or write those of all commands to a folder.
#[derive(Debug, ClapArgs)]
pub struct ManArgs {
    /// Write collspec.1, collspec-run.1 and so on to this folder.
    #[arg(long, short, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
}

pub fn completions(args: &CompletionsArgs) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "collspec", &mut script);
    print(&script)
}

pub fn man(args: &ManArgs) -> anyhow::Result<Exit> {
    let command = Args::command();
    let Some(folder) = &args.output else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return print(&page);
    };
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    Ok(Exit::ALL_PASSED)
}

fn print(text: &[u8]) -> anyhow::Result<Exit> {
    let mut out = terminal::out();
    out.write_all(text)?;
    out.flush()?;
    Ok(Exit::ALL_PASSED)
}
