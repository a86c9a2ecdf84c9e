//! What a command line of nccl-tests runs, as a scenario.
use super::accepted::{accepted, cases};
use super::header::header;
use super::text::{Text, quoted};
use super::{Error, Imported};
use crate::bench::{Operation, Reduction, Request, Roots, Row, each};
use collspec_core::num::DType;
use collspec_core::ops::Extent;
use collspec_core::plan::{Limits, plan};
use collspec_core::scenario::Case;
use std::sync::Arc;

/// A command line that was read.
#[derive(Debug)]
pub struct Command {
    /// The line itself.
    pub line: String,
    /// The operation of its program.
    pub operation: Operation,
    /// The number of ranks, if the line says it.
    pub ranks: Option<usize>,
    /// Its options.
    pub request: Request,
    /// Words that do not matter to a scenario.
    pub left_out: Vec<String>,
}

/// Ranks if the line does not say how many.
const RANKS: usize = 2;

/// The scenario: every size, type, reduction, root and place that the line asks for, with a table `[bench]` of the same.
///
/// # Errors
///
/// There is no such scenario, because there would be too many cases for example.
pub fn import(command: &Command) -> Result<Imported, Error> {
    let Command { operation, request, .. } = command;
    let mut remarks = vec!["guessed: values; nccl-tests has its own".to_owned()];
    let ranks = command.ranks.unwrap_or_else(|| {
        remarks.push(format!("guessed: {RANKS} ranks; nccl-tests uses one GPU unless -g or a launcher says otherwise"));
        RANKS
    });
    if !command.left_out.is_empty() {
        remarks.push(format!("left out: {}", command.left_out.join(" ")));
    }
    let dtypes = request.dtypes.clone().unwrap_or_else(|| vec![DType::F32]);
    let sizes = request.sizes.clone().unwrap_or_default();
    // A size without an element for every rank is not run.
    let sizes: Vec<u64> = sizes
        .into_iter()
        .filter(|size| dtypes.iter().all(|dtype| operation.count(*size, *dtype, ranks).0 > 0))
        .collect();
    if sizes.is_empty() {
        return Err(Error::Input("no size is large enough for an element of each type on each rank".to_owned()));
    }
    let mut of_cases = sizes.clone();
    let mut text = scenario(command, ranks, &remarks, &of_cases, &sizes)?;
    while !is_affordable(&text, *of_cases.last().unwrap_or(&0)) {
        of_cases.pop();
        if of_cases.is_empty() {
            return Err(Error::Input("the smallest size costs more than a case may".to_owned()));
        }
        let (left, last) = (sizes.len() - of_cases.len(), of_cases.last().unwrap_or(&0));
        let mut remarks = remarks.clone();
        remarks.push(format!(
            "left out of the cases: {left} sizes above {last} bytes, which cost more than a case may; [bench] has them"
        ));
        text = scenario(command, ranks, &remarks, &of_cases, &sizes)?;
    }
    let remarks = text.lines().map_while(|line| line.strip_prefix("# ")).map(str::to_owned).collect();
    Ok(Imported { text, remarks })
}

/// True if every case of this size can be planned within the limits.
fn is_affordable(text: &str, bytes: u64) -> bool {
    let of_size =
        |case: &Case| case.name.contains(&format!("bytes={bytes},")) || case.name.contains(&format!("bytes={bytes}]"));
    let all = cases(text).unwrap_or_default();
    all.into_iter().filter(of_size).all(|case| plan(&Arc::new(case), &Limits::default()).is_ok())
}

/// The file, with cases of some sizes and measurements of all.
fn scenario(
    command: &Command,
    ranks: usize,
    remarks: &[String],
    of_cases: &[u64],
    sizes: &[u64],
) -> Result<String, Error> {
    let Command { operation, request, .. } = command;
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
    // With one reduction, values whose result is exact in every order, which is quick to judge.
    let reductions = request.reductions.clone().filter(|_| operation.reduces()).unwrap_or_default();
    let contents = |dtype: DType| {
        let exact = Row {
            operation: *operation,
            reduction: reductions.first().copied().or(operation.reduces().then_some(Reduction::Sum)),
            dtype,
            algorithm: None,
            protocol: None,
            ranks,
            root: None,
            bytes: 0,
            in_place: false,
        };
        let values = match reductions.as_slice() {
            [_, _, ..] => "random = { seed = 0 }".to_owned(),
            _ => format!("each = {}", quoted(&each(&exact))),
        };
        format!("inputs = {{ {values}, count = {} }}", quoted(&count(*operation, dtype, ranks)))
    };
    if let [dtype] = dtypes.as_slice() {
        text.line(format!("dtype = {}", quoted(dtype.name())));
        text.line(contents(*dtype));
    }
    axis(&mut text, "bytes", of_cases.iter().map(u64::to_string));
    axis(&mut text, "reduce", reductions.iter().map(|reduction| reduction.scenario_value().to_owned()));
    let roots = match &request.roots {
        Some(_) if !operation.is_rooted() => Vec::new(),
        Some(Roots::All) => (0..ranks).collect(),
        Some(Roots::These(roots)) => roots.clone(),
        None => Vec::new(),
    };
    axis(&mut text, "root", roots.iter().map(usize::to_string));
    if operation.works_in_place() {
        axis(&mut text, "in_place", ["false", "true"].map(str::to_owned).into_iter());
    }
    if dtypes.len() > 1 {
        text.line("[variants]");
        for dtype in &dtypes {
            text.line(format!("{0} = {{ dtype = \"{0}\", {1} }}", dtype.name(), contents(*dtype)));
        }
    }
    bench(&mut text, command, sizes, &dtypes, &reductions, &roots);
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
