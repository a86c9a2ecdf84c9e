//! What came of running a program on two libraries, and whether anything got worse.
use super::calls::Calls;
use super::changes::{Changes, Found};
use crate::bench::comparison::counts;
use crate::judge::{NOT_ENDED, REFUSED, Tally};
use collspec_core::printable::{one_line, thousands};
use collspec_run::job::Work;
use serde_json::{Value, json};

/// A run of the program.
pub struct ProgramRun {
    /// How it ended, in words.
    pub ended: String,
    /// True if it ended by itself with exit code 0.
    pub is_good: bool,
    pub tally: Tally,
    pub calls: Calls,
    /// The work of its kernels, if it was counted.
    pub work: Option<Work>,
}

/// The runs on one library.
pub struct ProgramSide {
    pub name: &'static str,
    /// As it was typed.
    pub text: String,
    /// The file of the library.
    pub file: String,
    pub runs: Vec<ProgramRun>,
}

/// Both sides and what differs.
pub struct ProgramComparison {
    /// On what it ran, if that limits what it says.
    pub ran_on: Option<String>,
    pub sides: [ProgramSide; 2],
    /// Between the first runs of both.
    pub changes: Changes,
    /// Between the first two runs of the base.
    pub own: Option<Changes>,
    /// How the first element with other bits was added up on both, in words.
    pub orders: Option<String>,
    /// Different bits and calls count as worse.
    pub is_strict: bool,
}

/// What it comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramVerdict {
    NothingWorse,
    Worse(Vec<String>),
    None(Vec<String>),
}

impl ProgramVerdict {
    /// The verdict, and the reasons.
    fn words(self) -> (&'static str, Vec<String>) {
        match self {
            Self::NothingWorse => ("nothing got worse", Vec::new()),
            Self::Worse(worse) => ("worse", worse),
            Self::None(reasons) => ("no verdict", reasons),
        }
    }
}

impl ProgramSide {
    fn wrong(&self) -> u64 {
        self.runs.iter().map(|run| run.tally.wrong).sum()
    }

    fn failed(&self) -> usize {
        self.runs.iter().filter(|run| !run.is_good).count()
    }

    fn refused(&self) -> u64 {
        let refused = |run: &ProgramRun| run.tally.not_judged.get(REFUSED).copied().unwrap_or(0);
        self.runs.iter().map(refused).max().unwrap_or(0)
    }

    /// Calls that had not ended, by run.
    fn open(&self) -> impl Iterator<Item = u64> {
        self.runs.iter().map(|run| run.tally.not_judged.get(NOT_ENDED).copied().unwrap_or(0))
    }

    fn judges_nothing(&self) -> bool {
        self.runs.iter().any(|run| run.tally.judged == 0)
    }

    /// Why what its runs show is not about the library that it names.
    fn is_about_another(&self) -> Option<String> {
        let Self { name, file, runs, .. } = self;
        let others = runs.iter().flat_map(|run| &run.calls.libraries).find(|used| !is_same_file(used, file));
        if let Some(other) = others {
            return Some(format!("the {name}'s program calls {other}, and not {file}"));
        }
        let has_second = runs.iter().any(|run| run.tally.second_libraries > 0);
        has_second.then(|| format!("the {name}'s program uses a second NCCL, whose calls were not seen"))
    }

    fn lines(&self) -> Vec<String> {
        let Self { name, text, file, runs, .. } = self;
        let mut lines = vec![format!("{name} {text} ({file})")];
        for (run, number) in runs.iter().zip(1..) {
            lines.push(format!("  run {number}: {}", run.ended));
            if let Some(open) = run.calls.first_open() {
                lines.push(format!("    the first call that had not ended: {}", one_line(&open)));
            }
            if let Some(refused) = &run.calls.first_refused {
                lines.push(format!("    the first call that NCCL refused: {}", one_line(refused)));
            }
            lines.extend(run.tally.lines().into_iter().map(|line| format!("    {line}")));
        }
        lines
    }

    fn json(&self) -> Value {
        let run = |run: &ProgramRun| {
            json!({
                "ended": run.ended, "good": run.is_good, "judged": run.tally.json(), "first_open_call": run.calls.first_open(),
                "first_refused_call": run.calls.first_refused, "work": run.work, "libraries": run.calls.libraries,
            })
        };
        json!({ "library": self.text, "file": self.file, "runs": self.runs.iter().map(run).collect::<Vec<_>>() })
    }
}

fn is_same_file(one: &str, other: &str) -> bool {
    let real = |path: &str| std::fs::canonicalize(path).ok();
    one == other || (real(one).is_some() && real(one) == real(other))
}

impl ProgramComparison {
    /// Whether anything got worse.
    pub fn verdict(&self) -> ProgramVerdict {
        let [base, candidate] = &self.sides;
        let others: Vec<String> = self.sides.iter().filter_map(ProgramSide::is_about_another).collect();
        if !others.is_empty() {
            return ProgramVerdict::None(others);
        }
        if base.judges_nothing() {
            return ProgramVerdict::None(vec!["no call of the base was judged".to_owned()]);
        }
        let (mut worse, mut unsure) = (Vec::new(), Vec::new());
        match (base.failed(), candidate.failed()) {
            (_, 0) if candidate.judges_nothing() => unsure.push("no call of the candidate was judged".to_owned()),
            (_, 0) => {}
            (0, failed) => {
                let runs = candidate.runs.len();
                worse.push(format!("the program failed in {failed} of {runs} runs on the candidate alone"));
            }
            (ours, theirs) => {
                unsure.push(format!("the program failed on both ({ours} runs on the base, {theirs} on the candidate)"));
            }
        }
        let (ours, theirs) = (base.wrong(), candidate.wrong());
        if theirs > 0 && ours == 0 {
            worse.push(format!("{} elements are wrong on the candidate, and none on the base", thousands(theirs)));
        } else if theirs > 0 {
            unsure.push(format!("elements are wrong on both ({ours} on the base, {theirs} on the candidate)"));
        }
        let (ours, theirs) = (base.refused(), candidate.refused());
        if base.failed() == 0 && theirs > ours {
            worse.push(format!("the candidate refused {theirs} calls, and the base {ours}"));
        }
        // At the end of a program a call may be open by chance.
        let (most, fewest) = (base.open().max().unwrap_or(0), candidate.open().min().unwrap_or(0));
        if fewest > most {
            unsure.push(format!(
                "{fewest} calls had not ended on the candidate in any run, and at most {most} on the base"
            ));
        }
        let missing = &self.changes.only[0];
        // Of very many calls, not the same ones are kept of each run.
        let has_all = self.left_out() == 0;
        if has_all && missing.calls > 0 && self.is_repeated(|own| own.only[0].calls + own.only[1].calls) {
            unsure.push(format!("{} calls of the base are missing on the candidate", thousands(missing.calls)));
        }
        if self.is_strict {
            self.strictly(&mut worse, &mut unsure);
        }
        if !worse.is_empty() {
            ProgramVerdict::Worse(worse)
        } else if unsure.is_empty() {
            ProgramVerdict::NothingWorse
        } else {
            ProgramVerdict::None(unsure)
        }
    }

    /// True unless two runs on the base are known to differ in this as well.
    fn is_repeated(&self, calls: fn(&Changes) -> u64) -> bool {
        self.own.as_ref().is_none_or(|own| calls(own) == 0)
    }

    /// Counts every difference that the base does not have with itself.
    fn strictly(&self, worse: &mut Vec<String>, unsure: &mut Vec<String>) {
        let own = self.own.as_ref().map(|own| own.counted().map(|(found, _)| found.calls));
        for (at, (found, words)) in
            self.changes.counted().into_iter().enumerate().filter(|(_, (found, _))| found.calls > 0)
        {
            let text = format!("{} {words}", thousands(found.calls));
            match own.is_some_and(|own| own[at] > 0) {
                true => unsure.push(format!("{text}, and two runs on the base differ in this too")),
                false => worse.push(text),
            }
        }
    }

    /// The report, by line.
    pub fn lines(&self) -> Vec<String> {
        let on = self.ran_on.as_ref().map_or(String::new(), |on| format!(" on {on}"));
        let (verdict, reasons) = self.verdict().words();
        let mut lines = vec![format!("Results{on}: {verdict}.")];
        lines.extend(reasons.iter().map(|reason| format!("  {}", one_line(reason))));
        self.sides.iter().for_each(|side| lines.extend(side.lines()));
        let Changes { both, compared, other_inputs, other_bits, .. } = &self.changes;
        let same = compared - other_inputs.calls - other_bits.calls;
        lines.push(format!(
            "{} calls are on both, {} of them compared, {} with the same inputs and the same bits",
            thousands(*both),
            thousands(*compared),
            thousands(same)
        ));
        for (found, words) in self.changes.counted() {
            if let Some(first) = &found.first {
                lines.push(format!("  {} {words}, the first: {}", thousands(found.calls), one_line(first)));
            }
        }
        lines.extend(self.orders.iter().map(|orders| format!("    {}", one_line(orders))));
        if let Some(own) = self.own.as_ref().filter(|own| own.other_inputs.calls + own.other_bits.calls > 0) {
            lines.push(format!(
                "  two runs on the base differ too: {} calls in their inputs, {} in their bits",
                thousands(own.other_inputs.calls),
                thousands(own.other_bits.calls)
            ));
        }
        let left_out = self.left_out();
        if left_out > 0 {
            lines.push(format!("  {} later calls of a run were judged and not compared", thousands(left_out)));
        }
        if let Some(changes) = self.work_changes() {
            let from = counts::REPORTED * 100.0;
            lines.push(match changes.is_empty() {
                true => format!("work of all kernels: no number differs by {from:.0} % or more"),
                false => format!("work of all kernels: the candidate {}", changes.join(", ")),
            });
        }
        lines
    }

    /// Calls of a run that were not kept to be compared.
    fn left_out(&self) -> u64 {
        self.sides.iter().flat_map(|side| &side.runs).map(|run| run.calls.left_out).max().unwrap_or(0)
    }

    /// `None` if the work was not counted on both.
    fn work_changes(&self) -> Option<Vec<String>> {
        let work = |side: &ProgramSide| side.runs.first().and_then(|run| run.work);
        let [base, candidate] = &self.sides;
        work(base).zip(work(candidate)).map(|(base, candidate)| counts::changes(base, candidate))
    }

    pub fn json(&self) -> Value {
        let (verdict, reasons) = self.verdict().words();
        let found = |found: &Found| json!({ "calls": found.calls, "first": found.first });
        let Changes { both, compared, only: [of_base, of_candidate], other_words, other_inputs, other_bits, .. } =
            &self.changes;
        let [base, candidate] = &self.sides;
        json!({
            "verdict": verdict, "reasons": reasons, "ran_on": self.ran_on, "base": base.json(), "candidate": candidate.json(),
            "calls": {
                "both": both, "compared": compared, "base_alone": found(of_base), "candidate_alone": found(of_candidate), "others": found(other_words),
                "other_inputs": found(other_inputs), "other_bits": found(other_bits), "orders": self.orders,
            },
            "work": self.work_changes(),
        })
    }
}
