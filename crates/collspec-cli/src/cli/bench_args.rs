//! The options of `collspec bench`; the comments here are the help text. Those that nccl-tests has too are called as there.
use super::args::{BACKEND, LaunchArgs, LimitArgs};
use super::backend_args::BackendArgs;
use super::settings_args::SoftwareArgs;
use crate::bench::{Operation, OverRanks, Reduction, Request, Roots, Sizes, Step};
use clap::{Args as ClapArgs, ValueEnum};
use collspec_core::num::DType;
use collspec_run::child::Workers;
use collspec_run::run::{RanksPerGpu, seconds};
use collspec_suite::suite::options::size;
use collspec_suite::suite::{Reading, RunOptions};
use std::path::PathBuf;

const WHAT: &str = "What is measured";
const MANNER: &str = "How it is measured";

const REPORT: &str = "Report";

/// Time operations: algorithm and bus bandwidth by size, with nccl-tests' options and columns.
///
/// Each sample is taken in new processes with new communicators. A row's sample is the median of its iterations in them, and all
/// statistics are over samples. The results of each row's last iteration are verified; a wrong one means exit code 1.
#[derive(Debug, ClapArgs)]
pub struct BenchArgs {
    /// Operations (all_reduce, reduce, broadcast, all_gather, gather, reduce_scatter, scatter, all_to_all, send_recv, or
    /// the names of nccl-tests' programs), or scenario files with a table `[bench]`, or folders of them.
    #[arg(value_name = "OPERATION|PATH", required = true)]
    pub what: Vec<String>,

    /// The smallest size in bytes, for example 8, 32K or 1M [default: 8].
    #[arg(long, short = 'b', value_name = "SIZE", value_parser = size, help_heading = WHAT)]
    pub minbytes: Option<u64>,

    /// The largest size in bytes [default: 4M].
    #[arg(long, short = 'e', value_name = "SIZE", value_parser = size, help_heading = WHAT)]
    pub maxbytes: Option<u64>,

    /// Each size is the previous one times this [default: 2]; 1 with --stepbytes.
    #[arg(long, short = 'f', value_name = "N", help_heading = WHAT)]
    pub stepfactor: Option<u64>,

    /// Each size is the previous one plus this many bytes.
    #[arg(long, short = 'i', value_name = "SIZE", value_parser = size, help_heading = WHAT)]
    pub stepbytes: Option<u64>,

    /// Numbers of ranks, separated by commas [default: the number of GPUs; in software 4; under a launcher as many as fit into
    /// its processes].
    #[arg(long, short = 'g', visible_alias = "ngpus", value_name = "LIST", value_delimiter = ',', help_heading = WHAT)]
    pub ranks: Vec<usize>,

    /// Element types, separated by commas, or all: int8, uint8, int32, uint32, int64, uint64, half, bfloat16, float,
    /// double, f8e4m3, f8e5m2, or the names that scenarios use [default: float].
    #[arg(long, short = 'd', value_name = "LIST", value_delimiter = ',', help_heading = WHAT)]
    pub datatype: Vec<String>,

    /// Reductions, separated by commas, or all: sum, prod, max, min, avg, mulsum [default: sum].
    #[arg(long, short = 'o', value_name = "LIST", value_delimiter = ',', help_heading = WHAT)]
    pub op: Vec<String>,

    /// Roots, separated by commas; -1 means every rank in turn [default: 0].
    #[arg(long, short = 'r', value_name = "LIST", value_delimiter = ',', allow_negative_numbers = true, help_heading = WHAT)]
    pub root: Vec<i64>,

    /// Out of place, in place, or both. Operations that cannot work in place are measured out of place.
    #[arg(long, value_enum, value_name = "WHICH", help_heading = WHAT)]
    pub place: Option<Place>,

    /// Values of NCCL_ALGO, separated by commas, for example Ring,Tree; auto lets the library choose.
    #[arg(long, visible_alias = "algorithm", value_name = "LIST", value_delimiter = ',', help_heading = WHAT)]
    pub algo: Vec<String>,

    /// Values of NCCL_PROTO, separated by commas, for example LL,Simple; auto lets the library choose.
    #[arg(long, visible_alias = "protocol", value_name = "LIST", value_delimiter = ',', help_heading = WHAT)]
    pub proto: Vec<String>,

    /// Number of samples of each row, each in a new process group [default: 5].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = MANNER)]
    pub samples: Option<u32>,

    /// Number of timed iterations of each row in a sample [default: 20].
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = MANNER)]
    pub iters: Option<u32>,

    /// Number of iterations before these that are not timed [default: 5].
    #[arg(long = "warmup-iters", alias = "warmup_iters", short = 'w', value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000), help_heading = MANNER)]
    pub warm_up: Option<u32>,

    /// Verify results: 1 yes, 0 no [default: 1].
    #[arg(long, short = 'c', value_name = "0|1", value_parser = clap::value_parser!(u32).range(0..=1), help_heading = MANNER)]
    pub check: Option<u32>,

    /// Which of the ranks' times counts: 0 rank 0's, 1 the mean, 2 the shortest, 3 the longest [default: 1].
    #[arg(long, short = 'a', value_name = "0-3", value_parser = clap::value_parser!(u32).range(0..=3), help_heading = MANNER)]
    pub average: Option<u32>,

    /// Time limit in seconds for all iterations of a row in one sample [default: 300].
    #[arg(long, short = 'T', value_name = "S", value_parser = seconds, help_heading = MANNER)]
    pub timeout: Option<f64>,

    /// Time limit in seconds for making and destroying communicators and filling buffers [default: 60].
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = MANNER, hide_short_help = true)]
    pub opening_timeout: Option<f64>,

    #[command(flatten)]
    pub backend: BackendArgs,

    /// How many ranks may share a GPU, as for `collspec run`.
    #[arg(long, value_name = "N", default_value = "1", value_parser = RanksPerGpu::parse, help_heading = BACKEND)]
    pub ranks_per_gpu: RanksPerGpu,

    #[command(flatten)]
    pub software: SoftwareArgs,

    #[command(flatten)]
    pub launch: LaunchArgs,

    #[command(flatten)]
    pub bounds: LimitArgs,

    /// Format of the report: text, or one JSON object with nccl-tests' fields.
    #[arg(long, value_enum, default_value_t = BenchFormat::Text, help_heading = REPORT)]
    pub format: BenchFormat,

    /// Write the report to this file instead of standard output.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub output: Option<PathBuf>,

    /// Plot time and bus bandwidth by size in this SVG file.
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub plot: Option<PathBuf>,

    /// Also write the JSON object to this file.
    #[arg(long, short = 'J', value_name = "FILE", help_heading = REPORT)]
    pub json: Option<PathBuf>,
}

/// Which buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Place {
    /// Separate send and receive buffers.
    Out,
    /// One buffer for both.
    In,
    /// First out of place, then in place.
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchFormat {
    /// A table with the columns of nccl-tests.
    Text,
    /// One JSON object.
    Json,
}

impl BenchArgs {
    /// The settings given, without the operations.
    ///
    /// # Errors
    ///
    /// A type or reduction does not exist, or sizes do not grow.
    pub fn request(&self) -> anyhow::Result<Request> {
        let (factor, bytes) = (self.stepfactor, self.stepbytes);
        // nccl-tests reads a factor of 1 as a request to grow by bytes.
        anyhow::ensure!(
            bytes.is_none() || factor.is_none_or(|factor| factor == 1),
            "--stepfactor and --stepbytes: a size is the one before times a factor or plus a number of bytes, not both"
        );
        let sizes = self.sizes().map(Sizes::list).transpose()?;
        let roots = match self.root.as_slice() {
            [] => None,
            roots if roots.contains(&-1) => Some(Roots::All),
            roots => Some(Roots::These(roots.iter().map(|root| root_number(*root)).collect::<Result<_, _>>()?)),
        };
        let choices = |words: &[String]| given(words.iter().map(|word| choice(word)).collect::<Vec<_>>());
        anyhow::ensure!(!self.ranks.contains(&0), "--ranks: there must be at least 1");
        Ok(Request {
            operations: None,
            reductions: given(all_or(&self.op, &Reduction::ALL, |word| {
                let known = Reduction::ALL.map(Reduction::name).join(", ");
                Reduction::parse(word).ok_or_else(|| anyhow::anyhow!("--op: `{word}` is not one of {known}, all"))
            })?),
            dtypes: given(all_or(&self.datatype, &DType::all(), |word| {
                DType::parse(word).ok_or_else(|| anyhow::anyhow!("--datatype: there is no type `{word}`"))
            })?),
            algorithms: choices(&self.algo),
            protocols: choices(&self.proto),
            ranks: given(self.ranks.clone()),
            roots,
            sizes,
            in_place: self.place.map(|place| match place {
                Place::Out => vec![false],
                Place::In => vec![true],
                Place::Both => vec![false, true],
            }),
            warm_up: self.warm_up,
            iterations: self.iters,
            samples: self.samples.map(|samples| samples as usize),
            over_ranks: self.average.map(|which| match which {
                0 => OverRanks::First,
                2 => OverRanks::Min,
                3 => OverRanks::Max,
                _ => OverRanks::Mean,
            }),
            verify: self.check.map(|check| check > 0),
        })
    }

    /// The sizes, if anything was said of them.
    fn sizes(&self) -> Option<Sizes> {
        let step = match (self.stepfactor, self.stepbytes) {
            (_, Some(bytes)) => Some(Step::Bytes(bytes)),
            (Some(factor), None) => Some(Step::Factor(factor)),
            (None, None) => None,
        };
        if self.minbytes.is_none() && self.maxbytes.is_none() && step.is_none() {
            return None;
        }
        let usual = crate::bench::SIZES;
        let from = self.minbytes.unwrap_or(usual.from);
        let to = self.maxbytes.unwrap_or(usual.to.max(from));
        Some(Sizes { from, to, step: step.unwrap_or(usual.step) })
    }

    /// The options for running it.
    pub fn options(&self) -> RunOptions {
        self.software.apply(RunOptions {
            backend: self.backend.request(),
            ranks_per_gpu: self.ranks_per_gpu,
            timeout: self.timeout,
            opening_timeout: self.opening_timeout,
            ranks_per_process: self.launch.ranks_per_process,
            reading: Reading { limits: self.bounds.limits(), ..Reading::default() },
            workers: Workers::CurrentExe,
            ..RunOptions::default()
        })
    }
}

/// A list, if anything is in it.
fn given<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

/// The values of the words; all there are for the word `all`.
fn all_or<T: Copy>(words: &[String], all: &[T], parse: impl Fn(&str) -> anyhow::Result<T>) -> anyhow::Result<Vec<T>> {
    if words.iter().any(|word| word == "all") {
        return Ok(all.to_vec());
    }
    words.iter().map(|word| parse(word)).collect()
}

/// The value of a variable; `auto` sets none.
fn choice(word: &str) -> Option<String> {
    (word != "auto").then(|| word.to_owned())
}

fn root_number(root: i64) -> anyhow::Result<usize> {
    usize::try_from(root).map_err(|_| anyhow::anyhow!("--root: {root} is not a rank; -1 is every rank in turn"))
}

/// The operation that a word names; `None` for a path.
pub fn operation(word: &str) -> Option<Operation> {
    Operation::parse(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Args, Command};
    use clap::Parser;

    fn args(words: &[&str]) -> BenchArgs {
        let all = ["collspec", "bench"].iter().chain(words);
        match Args::try_parse_from(all).unwrap_or_else(|error| panic!("{error}")).command {
            Command::Bench(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_of_nccl_tests_mean_what_they_mean_there() {
        let line = "all_reduce_perf -b 8 -e 128M -f 2 -g 4 -n 30 -w 3 -d half -o max -r 1 -c 0 -a 3 -T 60 -J out.json";
        let args = args(&line.split(' ').collect::<Vec<_>>());
        let request = args.request().unwrap();
        assert_eq!(request.sizes.as_ref().map(Vec::len), Some(25));
        assert_eq!((request.ranks, request.iterations, request.warm_up), (Some(vec![4]), Some(30), Some(3)));
        assert_eq!((request.dtypes, request.reductions), (Some(vec![DType::F16]), Some(vec![Reduction::Max])));
        assert_eq!((request.verify, request.over_ranks), (Some(false), Some(OverRanks::Max)));
        assert_eq!(request.roots, Some(Roots::These(vec![1])));
        assert_eq!(operation(&args.what[0]), Some(Operation::AllReduce));
        assert_eq!((args.timeout, args.json), (Some(60.0), Some("out.json".into())));
    }

    #[test]
    fn a_factor_of_one_leaves_the_step_in_bytes() {
        let sizes = |line: &str| args(&line.split(' ').collect::<Vec<_>>()).request().map(|request| request.sizes);
        let by_bytes = sizes("all_reduce -b 192K -e 200K -i 1024").unwrap();
        assert_eq!(by_bytes.as_ref().map(Vec::len), Some(9));
        assert_eq!(sizes("all_reduce -b 192K -e 200K -f 1 -i 1024").unwrap(), by_bytes);
        assert!(sizes("all_reduce -b 192K -e 200K -f 2 -i 1024").is_err());
    }

    #[test]
    fn lists_have_commas_and_all_is_all() {
        let args = args(&["reduce", "-d", "float,bf16", "-o", "all", "-r", "-1", "-g", "2,8", "--algo", "auto,Ring"]);
        let request = args.request().unwrap();
        assert_eq!(request.dtypes, Some(vec![DType::F32, DType::Bf16]));
        assert_eq!(request.reductions.map(|list| list.len()), Some(6));
        assert_eq!((request.roots, request.ranks), (Some(Roots::All), Some(vec![2, 8])));
        assert_eq!(request.algorithms, Some(vec![None, Some("Ring".into())]));
        assert_eq!(request.sizes, None);
    }

    #[test]
    fn what_has_no_meaning_is_an_error() {
        for words in [["-o", "xor"], ["-d", "f12"], ["-r", "-2"], ["-g", "0"], ["-f", "1"], ["-b", "8M"]] {
            let words = ["all_reduce", "-e", "1M"].iter().chain(&words).copied().collect::<Vec<_>>();
            assert!(args(&words).request().is_err(), "{words:?}");
        }
        assert_eq!([size("32K"), size("1GiB"), size("7")], [Ok(32 << 10), Ok(1 << 30), Ok(7)]);
        for bad in ["", "0", "K", "1X", "-1", "99999999999G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
