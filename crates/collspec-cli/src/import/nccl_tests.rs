//! What a command line of nccl-tests runs, as a scenario.
use super::accepted::{Refusal, accepted, cases, first_refused, judged};
use super::header::header;
use super::text::{Text, quoted};
use super::{Error, Imported};
use crate::bench::{Operation, Reduction, Request, Roots, Row, case_text, each};
use collspec_core::num::DType;
use collspec_core::ops::Extent;
use collspec_core::plan::cost::SEARCH_RANKS;
use collspec_core::scenario::Case;

/// A command line that was read.
#[derive(Debug)]
pub struct Command {
    /// The line itself.
    pub line: String,
    /// The operation of its program.
    pub operation: Operation,
    /// The number of ranks.
    pub ranks: usize,
    /// Its options.
    pub request: Request,
    /// How it registers its buffers, as scenarios call it.
    pub register: Option<&'static str>,
    /// Elements by which all buffers begin later.
    pub offset: u64,
    /// What the line does not say.
    pub guessed: Vec<String>,
    /// Words that do not matter to a scenario.
    pub left_out: Vec<String>,
}

/// More bytes than one element of each type on each rank takes.
const MOST_BYTES_OF_ONE: u64 = 1 << 20;

/// The scenario: every size, type, reduction, root and place that the line asks for, with a table `[bench]` of the same.
///
/// # Errors
///
/// There is no such scenario, because there would be too many cases for example.
pub fn import(command: &Command) -> Result<Imported, Error> {
    let Command { operation, request, ranks, .. } = command;
    let mut remarks = vec!["guessed: values; nccl-tests has its own".to_owned()];
    remarks.extend(command.guessed.iter().map(|guess| format!("guessed: {guess}")));
    if !command.left_out.is_empty() {
        remarks.push(format!("left out: {}", command.left_out.join(" ")));
    }
    let dtypes = request.dtypes.clone().unwrap_or_else(|| vec![DType::F32]);
    let has_elements = |size: &u64| dtypes.iter().all(|dtype| operation.count(*size, *dtype, *ranks).0 > 0);
    // A size without an element for every rank is not run.
    let sizes: Vec<u64> = request.sizes.iter().flatten().copied().filter(has_elements).collect();
    let without = request.sizes.iter().flatten().count() - sizes.len();
    if without > 0 {
        let sizes = if without == 1 { "1 size" } else { &format!("{without} sizes") };
        remarks.push(format!("left out: {sizes} without an element of each type on each rank"));
    }
    let Some(smallest) = sizes.first() else {
        let smallest = (1..MOST_BYTES_OF_ONE).find(has_elements);
        let from = smallest.map_or_else(String::new, |bytes| format!(", which takes {bytes} bytes"));
        return Err(Error::Input(format!("no size is large enough for an element of each type on each rank{from}")));
    };
    if has_windows_in_place_of_one_rank(command) {
        remarks
            .push("left out: cases in place, because they would share a window's memory on the root alone".to_owned());
    }
    let mut unjudged = unjudged(command, &dtypes);
    if !unjudged.is_empty() {
        let said = said(&unjudged, *ranks);
        if unjudged.len() == dtypes.len() * reductions(command).len().max(1) {
            unjudged.clear();
            remarks.push(format!("check refuses this: {said}"));
        } else {
            remarks.push(format!("left out of the cases: {said}; [bench] has them"));
        }
    }
    let text = |of_cases: &[u64]| scenario(command, &unjudged, &remarks, of_cases, &sizes);
    let lengths: Vec<usize> = (1..=sizes.len()).collect();
    let accepted = if text(&sizes).is_ok() {
        sizes.len()
    } else {
        lengths.partition_point(|length| text(&sizes[..*length]).is_ok()).max(1)
    };
    let refused = too_costly(&text(&sizes[..accepted])?)?;
    let fitting = refused.as_ref().map_or(accepted, |(bytes, _)| sizes.iter().take_while(|size| *size < bytes).count());
    let mut of_cases = sizes[..fitting].to_vec();
    if let (0, Some((_, mut why))) = (fitting, refused) {
        let mut smaller = smallest / 2;
        while has_elements(&smaller)
            && let Some((_, still)) = too_costly(&text(&[smaller])?)?
        {
            (smaller, why) = (smaller / 2, still);
        }
        if !has_elements(&smaller) {
            return Err(Error::Input(why));
        }
        remarks.push(format!(
            "guessed: cases of {smaller} bytes, because all sizes cost more than a case or a file may; [bench] has them"
        ));
        of_cases.push(smaller);
    } else if fitting < sizes.len() {
        let (left, last) = (sizes.len() - fitting, sizes[fitting - 1]);
        remarks.push(format!(
            "left out of the cases: {left} sizes above {last} bytes, which cost more than a case or a file may; [bench] \
             has them"
        ));
    }
    let text = scenario(command, &unjudged, &remarks, &of_cases, &sizes)?;
    let remarks = text.lines().map_while(|line| line.strip_prefix("# ")).map(str::to_owned).collect();
    Ok(Imported { text, remarks })
}

/// A type and the reduction of its values.
type Reduced = (DType, Reduction);

/// The reductions that the line names, if its operation reduces.
fn reductions(command: &Command) -> &[Reduction] {
    command.request.reductions.as_deref().filter(|_| command.operation.reduces()).unwrap_or_default()
}

/// The averages whose results cannot be judged. An average divides by the number of ranks, which rounds even whole numbers, and with many
/// ranks the rounding errors can be as large as the result. Every other reduction has inputs whose result is exact.
fn unjudged(command: &Command, dtypes: &[DType]) -> Vec<Reduced> {
    let averages = reductions(command).iter().filter(|reduction| **reduction == Reduction::Avg);
    let averages: Vec<Reduced> = averages.flat_map(|avg| dtypes.iter().map(|dtype| (*dtype, *avg))).collect();
    let is_refused = |(dtype, reduction): &Reduced| {
        let (_, bytes) = Operation::AllReduce.count(1 << 7, *dtype, command.ranks);
        judged(&case_text(&row(Operation::AllReduce, Some(*reduction), *dtype, command.ranks, bytes))).is_err()
    };
    averages.into_iter().filter(is_refused).collect()
}

fn said(unjudged: &[Reduced], ranks: usize) -> String {
    let types: Vec<&str> = unjudged.iter().map(|(dtype, _)| dtype.name()).collect();
    format!("avg of {ranks} ranks' {}, which round so often that no result can be judged", types.join(", "))
}

/// A row with contents and a size, and nothing else in particular.
fn row(operation: Operation, reduction: Option<Reduction>, dtype: DType, ranks: usize, bytes: u64) -> Row {
    Row { operation, reduction, dtype, algorithm: None, protocol: None, ranks, root: None, bytes, in_place: false }
}

/// The smallest size in bytes with which the cases cost more than a case or a file may, and what planning says.
///
/// # Errors
///
/// A case is refused for another reason.
fn too_costly(text: &str) -> Result<Option<(u64, String)>, Error> {
    let mut cases = cases(text).unwrap_or_default();
    cases.sort_by_key(bytes);
    match first_refused(cases) {
        Some((case, Refusal { why, is_wrong: false, .. })) => Ok(Some((bytes(&case), why))),
        Some((case, Refusal { why, .. })) => Err(Error::Input(format!("{}: {why}", case.name))),
        None => Ok(None),
    }
}

/// The size that a case's name says.
fn bytes(case: &Case) -> u64 {
    let (_, size) = case.name.rsplit_once("bytes=").unwrap_or_default();
    size.split([',', ']']).next().and_then(|size| size.parse().ok()).unwrap_or(0)
}

/// True if cases in place would share memory between input and output on the root alone, which ranks with one window may not.
fn has_windows_in_place_of_one_rank(command: &Command) -> bool {
    command.register == Some("window") && matches!(command.operation, Operation::Gather | Operation::Scatter)
}

/// The file, with cases of some sizes and measurements of all.
fn scenario(
    command: &Command,
    unjudged: &[Reduced],
    remarks: &[String],
    of_cases: &[u64],
    sizes: &[u64],
) -> Result<String, Error> {
    let Command { operation, request, ranks, .. } = command;
    let ranks = *ranks;
    let dtypes = request.dtypes.clone().unwrap_or_else(|| vec![DType::F32]);
    let mut text = header(remarks, "From a command line of nccl-tests", &command.line, "nccl_tests", ranks);
    text.line(format!("op = {}", quoted(operation.name())));
    if *operation == Operation::SendRecv {
        text.line("to = \"(rank + 1) % n\"");
        text.line("from = \"(rank + n - 1) % n\"");
    }
    for (variable, values) in [("NCCL_ALGO", &request.algorithms), ("NCCL_PROTO", &request.protocols)] {
        if let Some([Some(value)]) = values.as_deref() {
            text.line(format!("env.{variable} = {}", quoted(value)));
        }
    }
    if let Some(form) = command.register {
        text.line(format!("register = {}", quoted(form)));
    }
    if command.offset > 0 {
        text.line(format!("offset = {}", command.offset));
    }
    // Values whose result is exact in every order, which is quick to judge. Several reductions share random values where the
    // judge tries every order; elsewhere each has its own.
    let reductions = reductions(command);
    let are_several = reductions.len() > 1;
    let by_reduction = are_several && ranks > SEARCH_RANKS;
    let contents = |dtype: DType, reduction: Option<Reduction>| {
        let values = if are_several && !by_reduction {
            "random = { seed = 0 }".to_owned()
        } else {
            format!("each = {}", quoted(&each(&row(*operation, reduction, dtype, ranks, 0))))
        };
        format!("inputs = {{ {values}, count = {} }}", quoted(&count(*operation, dtype, ranks)))
    };
    let first = reductions.first().copied().or(operation.reduces().then_some(Reduction::Sum));
    if let [dtype] = dtypes.as_slice() {
        text.line(format!("dtype = {}", quoted(dtype.name())));
        if !by_reduction {
            text.line(contents(*dtype, first));
        }
    }
    axis(&mut text, "bytes", of_cases.iter().map(u64::to_string));
    if !by_reduction {
        axis(&mut text, "reduce", reductions.iter().map(|reduction| reduction.scenario_value().to_owned()));
    }
    let roots = match &request.roots {
        Some(_) if !operation.is_rooted() => Vec::new(),
        Some(Roots::All) => (0..ranks).collect(),
        Some(Roots::These(roots)) => roots.clone(),
        None => Vec::new(),
    };
    axis(&mut text, "root", roots.iter().map(usize::to_string));
    if operation.works_in_place() && !has_windows_in_place_of_one_rank(command) {
        axis(&mut text, "in_place", ["false", "true"].map(str::to_owned).into_iter());
    }
    let of_variants: Vec<Option<Reduction>> =
        if by_reduction { reductions.iter().copied().map(Some).collect() } else { vec![first] };
    if dtypes.len() > 1 || by_reduction {
        text.line("[variants]");
    }
    for dtype in dtypes.iter().filter(|_| dtypes.len() > 1 || by_reduction) {
        for reduction in &of_variants {
            if reduction.is_some_and(|reduction| unjudged.contains(&(*dtype, reduction))) {
                continue;
            }
            let (mut name, mut keys) = (Vec::new(), Vec::new());
            if dtypes.len() > 1 {
                name.push(dtype.name());
                keys.push(format!("dtype = {}", quoted(dtype.name())));
            }
            if let Some(reduction) = reduction.filter(|_| by_reduction) {
                name.push(reduction.name());
                keys.push(format!("reduce = {}", reduction.scenario_value()));
            }
            keys.push(contents(*dtype, *reduction));
            text.line(format!("{} = {{ {} }}", name.join("_"), keys.join(", ")));
        }
    }
    bench(&mut text, command, sizes, &dtypes, reductions, &roots);
    accepted(text.to_string(), "ask for fewer sizes, types or reductions")
}

/// The elements of an input for a size of `bytes`: nccl-tests' size is that of the larger buffer, and where that has a part for every
/// rank, each part is a multiple of 16 bytes.
fn count(operation: Operation, dtype: DType, ranks: usize) -> String {
    let size = dtype.size();
    let (send, recv) = operation.collective().map_or((Extent::One, Extent::One), |c| (c.send, c.recv));
    if send == Extent::One && recv == Extent::One {
        return format!("floor(bytes / {size})");
    }
    let whole = (16 / size).max(1);
    let parts = if send == Extent::One { 1 } else { ranks };
    format!("floor(floor(bytes / {size}) / {ranks} / {whole}) * {}", whole * parts)
}

/// An axis of the matrix; a single value is the file's own, and none is not there.
fn axis(text: &mut Text, name: &str, values: impl Iterator<Item = String>) {
    let values: Vec<String> = values.collect();
    match values.as_slice() {
        [] => {}
        [value] if name != "bytes" => text.line(format!("{name} = {value}")),
        values => text.line(format!("matrix.{name} = [{}]", values.join(", "))),
    }
}

fn bench(
    text: &mut Text,
    command: &Command,
    sizes: &[u64],
    dtypes: &[DType],
    reductions: &[Reduction],
    roots: &[usize],
) {
    let words = |names: Vec<&str>| names.into_iter().map(quoted).collect::<Vec<_>>().join(", ");
    text.line("[bench]");
    text.line(format!("op = {}", quoted(command.operation.name())));
    text.line(format!("dtype = [{}]", words(dtypes.iter().map(|dtype| dtype.name()).collect())));
    if !reductions.is_empty() {
        let name = |reduction: &Reduction| match reduction {
            Reduction::MulSum => "premul_sum",
            other => other.name(),
        };
        text.line(format!("reduce = [{}]", words(reductions.iter().map(name).collect())));
    }
    if !roots.is_empty() {
        text.line(format!("root = [{}]", roots.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")));
    }
    text.line(format!("bytes = [{}]", sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")));
    for (key, value) in [("iterations", command.request.iterations), ("warm_up", command.request.warm_up)] {
        if let Some(value) = value {
            text.line(format!("{key} = {value}"));
        }
    }
}
