//! `collspec PATH...` and `collspec --OPTION ...` as `collspec run ...`.
use super::args::Args;
use clap::CommandFactory;
use std::ffi::OsStr;
use std::path::Path;

/// True if the first argument is not a subcommand and `run` is meant: a path, or an option of `run`.
pub fn is_meant(first: &OsStr) -> bool {
    let command = Args::command();
    let text = first.to_string_lossy();
    if text == "help" || command.find_subcommand(first).is_some() {
        return false;
    }
    if text.starts_with('-') {
        let run = command.find_subcommand("run");
        return run.is_some_and(|run| run.get_arguments().any(|option| is_option(&text, option)));
    }
    // A path that does not exist is still better answered by `run` than as an unknown subcommand.
    Path::new(first).symlink_metadata().is_ok() || text.ends_with(".toml") || text.contains('/')
}

fn is_option(text: &str, option: &clap::Arg) -> bool {
    let named = |name: &str| option.get_long_and_visible_aliases().is_some_and(|names| names.contains(&name));
    match text.strip_prefix("--") {
        Some(long) => named(long.split('=').next().unwrap_or(long)),
        None => text.chars().nth(1).is_some_and(|short| option.get_short() == Some(short)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_or_an_option_of_run_means_run() {
        let meant = |text: &str| is_meant(OsStr::new(text));
        for text in
            ["src", "Cargo.toml", "nowhere.toml", "no/where", "-k", "-ksum", "--filter=x", "--memory", "-j4", "."]
        {
            assert!(meant(text), "{text}");
        }
        for text in ["run", "check", "help", "walk", "--help", "-h", "--version", "-V", "--every-case", "--"] {
            assert!(!meant(text), "{text}");
        }
    }
}
