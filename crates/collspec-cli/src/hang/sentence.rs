//! A finding in one sentence.
use super::diagnosis::{Called, Cause, Finding};
use collspec_core::judge::message::ranks_text;

impl Finding {
    /// In one sentence.
    pub fn sentence(&self) -> String {
        let (ranks, others) = (ranks_text(&self.ranks), ranks_text(&self.others));
        let (call, on) = (placed(&self.call), &self.call.communicator);
        let instead = self.instead.as_ref().map_or_else(|| "nothing".to_owned(), placed);
        let more = match self.calls {
            0 | 1 => String::new(),
            2 => " and the call after it".to_owned(),
            calls => format!(" and the {} calls after it", calls - 1),
        };
        let plural = |ranks: &[usize], one: &'static str, many: &'static str| if ranks.len() == 1 { one } else { many };
        let (wait, stand) = (plural(&self.others, "waits", "wait"), plural(&self.ranks, "is", "are"));
        let sentence = match self.cause {
            Cause::LeftOut => {
                format!("{ranks} left out the {}{more}, which {others} called", call.trim_start_matches("a "))
            }
            Cause::Added => format!("{ranks} called {call}{more}, which {others} left out"),
            Cause::Instead => format!("{ranks} called {instead}, where {others} called {call}"),
            Cause::Stopped => format!("{ranks} made no more calls, and {others} {wait} for that in {call}"),
            Cause::MessagesDiffer => format!("a message does not fit: {others} called {call}, and {ranks} {instead}"),
            Cause::NoMessage => {
                let have = plural(&self.ranks, "has", "have");
                format!("{others} {wait} in {call}, and {ranks} {have} no call for it, but {stand} in {instead}")
            }
            Cause::Order => {
                let instead_on = self.instead.as_ref().map_or("", |called| &called.communicator);
                format!(
                    "{ranks} and {others} wait for each other: {ranks} in {instead} on {instead_on}, {others} in {call} on {on}"
                )
            }
            Cause::Unknown if self.instead.is_some() => {
                let dumps = plural(&self.ranks, "dump of", "dumps of");
                let them = plural(&self.ranks, "it", "them");
                format!(
                    "the {dumps} {ranks} {stand} older than the others, or stuck, and {others} may wait for {them} in {call}"
                )
            }
            Cause::Unknown => format!("nothing is known of {ranks}, for which {others} may wait in {call}"),
        };
        let mut letters = sentence.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase()).into_iter();
        let undecided = match self.cause {
            Cause::LeftOut | Cause::Added | Cause::Instead if self.is_undecided => {
                "; or the others are wrong, as there is no majority"
            }
            Cause::NoMessage if self.is_undecided => "; or the message is one too many",
            Cause::Stopped if self.is_undecided => "; or that call is one too many",
            _ => "",
        };
        format!("{}{undecided}.", first.chain(letters).collect::<String>())
    }
}

/// `all_reduce of 4096 bf16 at train.py:150`.
fn placed(called: &Called) -> String {
    let place = called.stack.first().map_or_else(String::new, |line| format!(" at {}", line.place()));
    format!("{}{place}", called.what)
}
