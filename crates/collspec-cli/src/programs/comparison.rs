//! What came of running a program on two libraries, and whether anything got worse.
use super::calls::Calls;
use super::changes::{Changes, Found};
use crate::bench::comparison::counts;
use crate::judge::{REFUSED, Tally};
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

    /// Why nothing can be said of this side.
    fn reasons(&self) -> Vec<String> {
        let Self { name, file, runs, .. } = self;
        let mut reasons = Vec::new();
        let others = runs.iter().flat_map(|run| &run.calls.libraries).find(|used| !is_same_file(used, file));
        if let Some(other) = others {
            reasons.push(format!("the {name}'s program calls {other}, and not {file}"));
        }
        if runs.iter().any(|run| run.tally.second_libraries > 0) {
            reasons.push(format!("the {name}'s program uses a second NCCL, whose calls were not seen"));
        }
        if runs.iter().any(|run| run.is_good && run.tally.judged == 0) {
            reasons.push(format!("no call of the {name} was judged"));
        }
        reasons
    }

    fn lines(&self) -> Vec<String> {
        let Self { name, text, file, runs, .. } = self;
        let mut lines = vec![format!("{name} {text} ({file})")];
        for (run, number) in runs.iter().zip(1..) {
            lines.push(format!("  run {number}: {}", run.ended));
            if !run.is_good
                && let Some(open) = run.calls.first_open()
            {
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
        let unknown: Vec<String> = base.reasons().into_iter().chain(candidate.reasons()).collect();
        let (mut worse, mut unsure) = (Vec::new(), unknown);
        match (base.failed(), candidate.failed()) {
            (_, 0) => {}
            (0, failed) => {
                worse.push(format!(
                    "the program failed in {failed} of {} runs on the candidate alone",
                    candidate.runs.len()
                ));
            }
            (ours, theirs) => {
                unsure.push(format!("the program failed on both ({ours} runs on the base, {theirs} on the candidate)"))
            }
        }
        let (ours, theirs) = (base.wrong(), candidate.wrong());
        if theirs > 0 && ours == 0 {
            worse.push(format!("{theirs} elements are wrong on the candidate, and none on the base"));
        } else if theirs > 0 {
            unsure.push(format!("elements are wrong on both ({ours} on the base, {theirs} on the candidate)"));
        }
        if candidate.refused() > base.refused() {
            let (ours, theirs) = (base.refused(), candidate.refused());
            worse.push(format!("the candidate refused {theirs} calls, and the base {ours}"));
        }
        if self.is_strict {
            let strict = self.counted().into_iter().filter(|(found, _)| found.calls > 0);
            worse.extend(strict.map(|(found, words)| format!("{} {words}", thousands(found.calls))));
        }
        if !worse.is_empty() {
            ProgramVerdict::Worse(worse)
        } else if unsure.is_empty() {
            ProgramVerdict::NothingWorse
        } else {
            ProgramVerdict::None(unsure)
        }
    }

    fn counted(&self) -> [(&Found, &'static str); 5] {
        let Changes { only: [base, candidate], other_words, other_inputs, other_bits, .. } = &self.changes;
        [
            (base, "calls on the base alone"),
            (candidate, "calls on the candidate alone"),
            (other_words, "calls that are others"),
            (other_inputs, "calls with other inputs"),
            (other_bits, "calls with the same inputs and other bits"),
        ]
    }

    /// The report, by line.
    pub fn lines(&self) -> Vec<String> {
        let on = self.ran_on.as_ref().map_or(String::new(), |on| format!(" on {on}"));
        let (verdict, reasons) = match self.verdict() {
            ProgramVerdict::NothingWorse => ("nothing got worse".to_owned(), Vec::new()),
            ProgramVerdict::Worse(worse) => ("worse".to_owned(), worse),
            ProgramVerdict::None(reasons) => ("no verdict".to_owned(), reasons),
        };
        let mut lines = vec![format!("Results{on}: {verdict}.")];
        lines.extend(reasons.iter().map(|reason| format!("  {}", one_line(reason))));
        self.sides.iter().for_each(|side| lines.extend(side.lines()));
        let both = self.changes.both;
        let differs = self.counted().iter().any(|(found, _)| found.calls > 0);
        lines.push(match differs {
            false => format!("{} calls are on both, with the same inputs and the same bits", thousands(both)),
            true => format!("{} calls are on both", thousands(both)),
        });
        for (found, words) in self.counted() {
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
        let left_out = self.sides.iter().flat_map(|side| &side.runs).map(|run| run.calls.left_out).max().unwrap_or(0);
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

    /// `None` if the work was not counted on both.
    fn work_changes(&self) -> Option<Vec<String>> {
        let work = |side: &ProgramSide| side.runs.first().and_then(|run| run.work);
        let [base, candidate] = &self.sides;
        work(base).zip(work(candidate)).map(|(base, candidate)| counts::changes(base, candidate))
    }

    pub fn json(&self) -> Value {
        let (verdict, reasons) = match self.verdict() {
            ProgramVerdict::NothingWorse => ("nothing_worse", Vec::new()),
            ProgramVerdict::Worse(worse) => ("worse", worse),
            ProgramVerdict::None(reasons) => ("none", reasons),
        };
        let found = |found: &Found| json!({ "calls": found.calls, "first": found.first });
        let Changes { both, only: [of_base, of_candidate], other_words, other_inputs, other_bits, .. } = &self.changes;
        let [base, candidate] = &self.sides;
        json!({
            "verdict": verdict, "reasons": reasons, "ran_on": self.ran_on, "base": base.json(), "candidate": candidate.json(),
            "calls": {
                "both": both, "base_alone": found(of_base), "candidate_alone": found(of_candidate), "others": found(other_words),
                "other_inputs": found(other_inputs), "other_bits": found(other_bits), "orders": self.orders,
            },
            "work": self.work_changes(),
        })
    }
}
