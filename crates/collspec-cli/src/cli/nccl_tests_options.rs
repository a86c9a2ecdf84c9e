//! The options of nccl-tests' programs, read as these programs read them.
use super::c_numbers::{float, integer};
use anyhow::{Context, bail, ensure};

const OPTIONS: [(char, &str); 31] = [
    ('t', "nthreads"),
    ('g', "ngpus"),
    ('b', "minbytes"),
    ('e', "maxbytes"),
    ('i', "stepbytes"),
    ('f', "stepfactor"),
    ('n', "iters"),
    ('m', "agg_iters"),
    ('w', "warmup_iters"),
    ('N', "run_cycles"),
    ('p', "parallel_init"),
    ('c', "check"),
    ('o', "op"),
    ('d', "datatype"),
    ('r', "root"),
    ('z', "blocking"),
    ('y', "stream_null"),
    ('T', "timeout"),
    ('G', "cudagraph"),
    ('C', "report_cputime"),
    ('S', "report_timestamps"),
    ('J', "output_file"),
    ('a', "average"),
    ('R', "local_register"),
    ('x', "cta_policy"),
    ('D', "device_implementation"),
    ('V', "device_cta_count"),
    ('M', "memory"),
    ('u', "unalign"),
    ('I', "per_iter_timing"),
    ('K', "per_iter_skip"),
];

/// The options of a line, and its other words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    given: Vec<(char, String)>,
    words: Vec<String>,
}

impl Options {
    /// Reads the words after the program.
    ///
    /// # Errors
    ///
    /// An option does not exist, or its value is missing.
    pub fn read(words: &[String]) -> anyhow::Result<Self> {
        let mut read = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (letter, value) = match (word.strip_prefix("--"), word.strip_prefix('-')) {
                (Some(""), _) => break,
                (Some(long), _) => {
                    let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                    (by_name(name)?, value)
                }
                (None, Some(short)) if !short.is_empty() => {
                    let mut letters = short.chars();
                    let letter = letters.next().unwrap_or_default();
                    ensure!(letter != 'h', "with -h nccl-tests prints its help and runs nothing");
                    ensure!(OPTIONS.iter().any(|(own, _)| *own == letter), "nccl-tests has no option `-{letter}`");
                    (letter, Some(letters.as_str()).filter(|rest| !rest.is_empty()))
                }
                _ => {
                    read.words.push(word.clone());
                    continue;
                }
            };
            let value = value.or_else(|| words.next().map(String::as_str));
            read.given.push((letter, value.with_context(|| format!("{word}: the value is missing"))?.to_owned()));
        }
        read.words.extend(words.cloned());
        Ok(read)
    }

    /// The value of an option; the last one counts.
    pub fn value(&self, letter: char) -> Option<&str> {
        self.given.iter().rev().find(|(own, _)| *own == letter).map(|(_, value)| value.as_str())
    }

    /// The value of an option that is a whole number.
    pub fn number<T: TryFrom<i64>>(&self, letter: char) -> anyhow::Result<Option<T>> {
        let number = |value: &str| {
            let number = integer(value).and_then(|(number, _)| T::try_from(number).ok());
            number.with_context(|| format!("-{letter}: `{value}` is not a number that it may have"))
        };
        self.value(letter).map(number).transpose()
    }

    /// What is said of values of which nccl-tests reads only the beginning as a number.
    pub fn partly_read(&self, letters: &str) -> impl Iterator<Item = String> {
        letters.chars().filter_map(|letter| {
            let value = self.value(letter)?;
            let (number, rest) = integer(value)?;
            (!rest.is_empty()).then(|| format!("-{letter} {number}, which is all that nccl-tests reads of `{value}`"))
        })
    }

    /// A size in bytes. As in nccl-tests, it may have a fraction, and only the first letter of its unit matters.
    pub fn size(&self, letter: char) -> anyhow::Result<Option<u64>> {
        let bytes = |value: &str| {
            let (number, rest) = float(value)?;
            let unit = match rest.trim_ascii_start().chars().next().map(|unit| unit.to_ascii_uppercase()) {
                None => 1.0,
                Some('K') => f64::from(1 << 10),
                Some('M') => f64::from(1 << 20),
                Some('G') => f64::from(1 << 30),
                Some(_) => return None,
            };
            let bytes = number * unit;
            // No file may have a larger number.
            (bytes >= 0.0 && bytes <= i64::MAX as f64 / 2.0).then_some(bytes as u64)
        };
        let size = |value| bytes(value).with_context(|| format!("-{letter}: `{value}` is not a number of bytes"));
        self.value(letter).map(size).transpose()
    }

    /// What a name stands for; all there are for `all`.
    pub fn list<T: Copy>(
        &self,
        letter: char,
        all: &[T],
        parse: impl Fn(&str) -> Option<T>,
    ) -> anyhow::Result<Option<Vec<T>>> {
        match self.value(letter) {
            None => Ok(None),
            Some("all") => Ok(Some(all.to_vec())),
            Some(name) => match parse(name) {
                Some(value) => Ok(Some(vec![value])),
                None => bail!("-{letter}: there is no `{name}`"),
            },
        }
    }

    /// The other options, and words that are not options.
    pub fn others(self, letters: &str) -> impl Iterator<Item = String> {
        let others = self.given.into_iter().filter(move |(letter, _)| !letters.contains(*letter));
        others.map(|(letter, value)| format!("-{letter} {value}")).chain(self.words)
    }
}

/// The letter of a long option, of which the beginning is enough.
fn by_name(name: &str) -> anyhow::Result<char> {
    ensure!(name != "help", "with --help nccl-tests prints its help and runs nothing");
    let mut beginning = OPTIONS.iter().filter(|(_, long)| long.starts_with(name));
    let exact = OPTIONS.iter().find(|(_, long)| *long == name);
    match (exact, beginning.next(), beginning.next()) {
        (Some((letter, _)), ..) | (None, Some((letter, _)), None) => Ok(*letter),
        (None, None, _) => bail!("nccl-tests has no option `--{name}`"),
        (None, Some((_, one)), Some((_, other))) => bail!("--{name}: is it --{one} or --{other}?"),
    }
}
