//! An explanation as one HTML page that needs nothing else.
use super::picture::Explanation;
use super::svg;
use collspec_core::printable::one_line;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}\
    h1{font-size:1.4rem}h2{font-size:1.1rem;margin:2rem 0 .3rem}p{margin:.3rem 0}figure{margin:.5rem 0;overflow-x:auto}\
    @media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}}";

pub fn page(explanation: &Explanation) -> String {
    let name = one_line(&explanation.name);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { "collspec explain: " (name) }
                style { (PreEscaped(STYLE)) (PreEscaped(svg::style())) }
            }
            body {
                h1 { (name) }
                @for sentence in &explanation.about { p { (with_code(sentence)) } }
                @if explanation.has_origins() { figure { (svg::legend(explanation)) } }
                @for step in &explanation.steps {
                    section {
                        h2 { (one_line(&step.heading)) }
                        @for words in &step.words { p { (with_code(words)) } }
                        @for panel in &step.panels { figure { (svg::panel(panel, &step.heading)) } }
                        @for note in &step.notes { p { (with_code(note)) } }
                    }
                }
            }
        }
    };
    let mut page = page.into_string();
    page.push('\n');
    page
}

/// Words in which every second part between backticks is code.
fn with_code(words: &str) -> Markup {
    let words = one_line(words);
    html! {
        @for (at, part) in words.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
