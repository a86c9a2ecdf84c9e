//! How much has to run; the comments here are the help text.
use super::headings::CASES;
use clap::Args as ClapArgs;
use collspec_suite::suite::AtLeast;

#[derive(Clone, Debug, ClapArgs)]
pub struct CoverageArgs {
    /// How many of the selected cases must run, and not be skipped: a number, or a part of them such as 95%. In a comparison, on both
    /// libraries.
    #[arg(long, value_name = "N|PERCENT", value_parser = AtLeast::parse, help_heading = CASES)]
    at_least: Option<AtLeast>,

    /// No selected case may be skipped: as --at-least 100%.
    #[arg(long, conflicts_with = "at_least", help_heading = CASES)]
    no_skips: bool,
}

impl CoverageArgs {
    pub fn at_least(&self) -> Option<AtLeast> {
        if self.no_skips { Some(AtLeast::ALL) } else { self.at_least }
    }
}
