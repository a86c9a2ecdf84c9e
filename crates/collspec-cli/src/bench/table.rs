//! The table, with the columns of nccl-tests. Data that nccl-tests does not have is in lines that begin with `#`, which its
//! readers skip.
use super::line::Line;
use super::operation::{Operation, type_name};
use super::result::{RowResult, average_bus_bandwidth};
use super::row::Row;
use super::sampler::Timing;
use collspec_core::printable::one_line;
use collspec_core::printable::thousands;
use std::io::{self, Write};

/// The information in the table's header.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    /// The library and its device, in one line.
    pub library: &'a str,
    /// The way rows were timed.
    pub timing: Timing,
    /// The clock that measures times.
    pub clock: &'static str,
    /// Number of samples that were planned.
    pub samples: usize,
}

impl Table<'_> {
    /// Writes the results: a table for each operation, then the variation of the samples.
    ///
    /// # Errors
    ///
    /// Writing fails.
    pub fn write(&self, to: &mut dyn Write, results: &[RowResult]) -> io::Result<()> {
        let Timing { warm_up, iterations, over_ranks, verify } = self.timing;
        writeln!(to, "# {}", one_line(self.library))?;
        let (samples, plural) = (self.samples, if self.samples == 1 { "" } else { "s" });
        writeln!(to, "# {samples} sample{plural}, each the median of {iterations} iterations of a new process group")?;
        let checked = if verify { "verified" } else { "not verified" };
        writeln!(to, "# warm-up {warm_up} iterations; times: {}, {}; {checked}", self.clock, over_ranks.describe())?;
        for operation in Operation::ALL {
            let own: Vec<RowResult> =
                results.iter().filter(|result| result.row.operation == operation).cloned().collect();
            if !own.is_empty() {
                write_operation(to, operation, &own)?;
            }
        }
        write_spread(to, results)
    }
}

/// Describes what the rows of one part share, apart from type, reduction and root, which have columns.
fn part(row: &Row) -> String {
    let mut words = vec![row.operation.name().to_owned(), format!("{} ranks", row.ranks)];
    words.extend(row.algorithm.as_ref().map(|value| format!("NCCL_ALGO={value}")));
    words.extend(row.protocol.as_ref().map(|value| format!("NCCL_PROTO={value}")));
    words.join(", ")
}

/// Writes each line of these results, and before the first one of each part its name and the column headers.
pub(super) fn write_parts(
    to: &mut dyn Write,
    results: &[RowResult],
    head: fn(&mut dyn Write) -> io::Result<()>,
    cells: fn(&mut dyn Write, &Row, Option<&RowResult>) -> io::Result<()>,
) -> io::Result<()> {
    let mut above = None;
    for line in Line::of(results) {
        let Some(row) = line.row() else { continue };
        let part = part(row);
        if above.as_ref() != Some(&part) {
            writeln!(to, "#\n# {}\n#", one_line(&part))?;
            head(to)?;
            above = Some(part);
        }
        let redop = row.reduction.map_or("none", |reduction| reduction.name());
        let root = row.root.map_or_else(|| "-1".to_owned(), |root| root.to_string());
        let (bytes, count, dtype) = (row.bytes, row.count(), type_name(row.dtype));
        write!(to, "{bytes:>12}  {count:>12}  {dtype:>8}  {redop:>6}  {root:>6}")?;
        cells(to, row, line.out_of_place)?;
        cells(to, row, line.in_place)?;
        writeln!(to)?;
    }
    Ok(())
}

fn write_operation(to: &mut dyn Write, operation: Operation, results: &[RowResult]) -> io::Result<()> {
    write_parts(to, results, write_head, write_cells)?;
    let wrong: u64 = results.iter().filter_map(|result| result.wrong).fold(0, u64::saturating_add);
    let failed = results.iter().any(RowResult::failed);
    writeln!(to, "# {:<20} : {wrong} {}", "Out of bounds values", if failed { "FAILED" } else { "OK" })?;
    writeln!(to, "# {:<20} : {}", "Avg bus bandwidth", significant(average_bus_bandwidth(results)))?;
    writeln!(to, "#\n# Collective test concluded: {}", operation.name())
}

fn write_head(to: &mut dyn Write) -> io::Result<()> {
    let place = |name: &str| format!("{name:^33}");
    writeln!(to, "#{:55}{}{}", "", place("out-of-place"), place("in-place").trim_end())?;
    let columns = |size: &str, count: &str, texts: [&str; 3], figures: [&str; 4]| {
        let [dtype, redop, root] = texts;
        let [time, algbw, busbw, wrong] = figures;
        let place = format!("  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>6}");
        format!("# {size:>10}  {count:>12}  {dtype:>8}  {redop:>6}  {root:>6}{place}{place}").trim_end().to_owned()
    };
    let (texts, none) = (["type", "redop", "root"], ["", "", ""]);
    writeln!(to, "{}", columns("size", "count", texts, ["time", "algbw", "busbw", "#wrong"]))?;
    writeln!(to, "{}", columns("(B)", "(elements)", none, ["(us)", "(GB/s)", "(GB/s)", ""]))
}

fn write_cells(to: &mut dyn Write, row: &Row, result: Option<&RowResult>) -> io::Result<()> {
    let wrong = result.and_then(|result| result.wrong).map_or_else(|| "N/A".to_owned(), |wrong| wrong.to_string());
    match result.and_then(RowResult::seconds) {
        Some(seconds) => {
            let (algbw, busbw) = (row.algorithm_bandwidth(seconds), row.bus_bandwidth(seconds));
            let (time, algbw, busbw) = (fixed(seconds * 1e6, 7), fixed(algbw, 6), fixed(busbw, 6));
            write!(to, "  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>6}")
        }
        None => write!(to, "  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A"),
    }
}

/// Writes what has no column: the spread of the samples and the problems.
fn write_spread(to: &mut dyn Write, results: &[RowResult]) -> io::Result<()> {
    let mut of_several: Vec<&RowResult> = results.iter().filter(|result| result.variation().is_some()).collect();
    of_several.sort_by_key(|result| result.row.in_place);
    of_several.sort_by_cached_key(|result| {
        let out = result.row.with_in_place(false).curve();
        results.iter().position(|first| first.row.with_in_place(false).curve() == out)
    });
    let mut above: Option<String> = None;
    for result in of_several {
        let (Some(summary), Some(interval)) = (result.summary, result.interval) else { continue };
        let curve = result.row.curve();
        if above.as_ref() != Some(&curve) {
            writeln!(to, "#\n# Samples of {}", one_line(&curve))?;
            let (size, median, interval, cv) = ("size (B)", "median (us)", "95 % interval (us)", "CV (%)");
            writeln!(to, "# {size:>14}  {:>7}  {median:>11}  {interval:>22}  {cv:>6}", "samples")?;
            above = Some(curve);
        }
        let us = |seconds: f64| fixed(seconds * 1e6, 7);
        let range = format!("{} to {}", us(interval.low), us(interval.high));
        let mut marks = String::new();
        if result.is_noisy() {
            marks.push_str("  noisy");
        }
        if result.is_bimodal() {
            marks.push_str("  bimodal");
        }
        let (size, count, median) = (thousands(result.row.bytes), summary.count, us(summary.median));
        let variation = summary.variation() * 100.0;
        writeln!(to, "# {size:>14}  {count:>7}  {median:>11}  {range:>22}  {variation:>6.1}{marks}")?;
    }
    write_troubles(to, results)
}

/// Writes the problems and the skipped rows.
pub(super) fn write_troubles(to: &mut dyn Write, results: &[RowResult]) -> io::Result<()> {
    for result in results {
        if let Some(trouble) = &result.trouble {
            writeln!(to, "# FAILED {}: {}", result.row, one_line(trouble))?;
        }
    }
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for reason in results.iter().filter_map(|result| result.skipped.as_deref()) {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    for (reason, count) in reasons {
        writeln!(to, "# skipped {} rows: {}", thousands(count as u64), one_line(reason))?;
    }
    Ok(())
}

/// A number with this width: two decimals where there is room, fewer for large numbers.
fn fixed(value: f64, width: usize) -> String {
    let digits = if value < 1.0 { 0 } else { value.log10().floor() as usize + 1 };
    match digits {
        digits if digits + 2 < width => format!("{value:.2}"),
        digits if digits + 1 < width => format!("{value:.1}"),
        digits if digits <= width => format!("{value:.0}"),
        _ => format!("{value:.1e}"),
    }
}

/// Six significant digits, without zeros at the end.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".into();
    }
    let behind = (5 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.behind$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::fixture::sum;
    use crate::bench::sample::{OverRanks, RowOutcome, RowSample};

    #[test]
    fn numbers_fit_their_columns() {
        assert_eq!(
            [0.0, 1.234, 1234.5, 12345.67, 123456.7, 1e7 - 1.0, 1e8].map(|v| fixed(v, 7)),
            ["0.00", "1.23", "1234.50", "12345.7", "123457", "9999999", "1.0e8"]
        );
        assert_eq!([0.004, 161.14, 1234.5].map(|v| fixed(v, 6)), ["0.00", "161.14", "1234.5"]);
        assert_eq!([0.0, 92.340_5, 745.53, 1e-5].map(significant), ["0", "92.3405", "745.53", "0.00001"]);
    }

    fn written() -> String {
        let rows = [sum(8, 8_388_608, false), sum(8, 8_388_608, true), sum(8, 16, false)];
        let timed = |row: &Row, seconds: f64, wrong: Option<u64>| RowSample {
            row: row.clone(),
            outcome: RowOutcome::Timed {
                seconds,
                iterations: vec![seconds],
                wrong,
                finding: wrong.filter(|wrong| *wrong > 0).map(|_| "rank 1: element 3".into()),
            },
        };
        let samples = [
            vec![timed(&rows[0], 91.0e-6, Some(0)), timed(&rows[1], 94.94e-6, Some(2))],
            vec![
                timed(&rows[0], 91.2e-6, Some(0)),
                RowSample { row: rows[2].clone(), outcome: RowOutcome::Failed { reason: "hang\n".into() } },
            ],
        ];
        let timing = Timing { warm_up: 5, iterations: 20, over_ranks: OverRanks::Mean, verify: true };
        let mut text = Vec::new();
        let table = Table { library: "NCCL 2.30.7", timing, clock: "CUDA events", samples: 2 };
        table.write(&mut text, &RowResult::of(&rows, &samples)).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Lines other than comments have the 13 columns of nccl-tests, and the closing line its wording.
    #[test]
    fn readers_of_nccl_tests_find_its_columns() {
        let text = written();
        let rows: Vec<Vec<&str>> =
            text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_whitespace().collect()).collect();
        let expected = "8388608 2097152 float sum -1 91.10 92.08 161.14 0 94.94 88.36 154.62 2";
        assert_eq!(rows[0].join(" "), expected);
        assert_eq!(rows[1].join(" "), "16 4 float sum -1 N/A N/A N/A N/A N/A N/A N/A N/A");
        assert_eq!(rows.len(), 2);
        let average = text.lines().find(|line| line.starts_with("# Avg bus bandwidth    : ")).expect("the line");
        let average: f64 = average.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((average - (161.143 + 154.625) / 2.0).abs() < 0.01, "{average}");
        assert!(text.contains("# Out of bounds values : 2 FAILED"), "{text}");
    }

    #[test]
    fn the_spread_and_what_failed_are_comments() {
        let text = written();
        assert!(text.contains("# FAILED all_reduce, sum, float, 8 ranks, out of place, 16 bytes: hang"), "{text}");
        assert!(text.contains("8,388,608        2        91.10"), "{text}");
        assert!(!text.contains("noisy"), "{text}");
    }
}
