//! A diagnosis for an issue or a pull request.
use super::diagnosis::Diagnosis;
use super::text::{call_text, text, waiting_text};
use collspec_core::judge::message::ranks_text;
use std::fmt::Write;

pub fn markdown(diagnosis: &Diagnosis) -> String {
    let mut out = format!("**{}**\n\n| ranks | where they are |\n|---|---|\n", escaped(&diagnosis.verdict));
    for waiting in &diagnosis.waiting {
        _ = writeln!(out, "| {} | {} |", ranks_text(&waiting.ranks), escaped(&waiting_text(waiting)));
    }
    if let Some(last) = &diagnosis.last_common {
        _ = writeln!(out, "\nThe last call that all made alike before: {}.", escaped(&call_text(last)));
    }
    // What is in the job's own words must not end the block.
    let details = text(diagnosis).replace("```", "'''");
    _ = writeln!(out, "\n<details><summary>Details</summary>\n\n```text\n{details}```\n\n</details>");
    out
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, letter| {
        match letter {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '\\' | '[' | ']' => {
                out.push('\\');
                out.push(letter);
            }
            '\n' => out.push(' '),
            letter => out.push(letter),
        }
        out
    })
}
