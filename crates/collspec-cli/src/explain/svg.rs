//! Pictures as SVG.
use super::picture::{Cell, Explanation, Panel, Row};
use super::style::{COLOURS, colour, wrapped};
use collspec_core::printable::one_line;
use maud::{Markup, PreEscaped, html};
use std::fmt::Write;

/// Sizes in pixels. Text is monospaced, so that its length is known without a font.
const FONT: usize = 13;
const CHARACTER: f64 = 7.9;
const CELL: usize = 24;
const GAP: usize = 4;
const ROW: usize = CELL + 8;
const LINE: usize = 20;
const MARGIN: usize = 16;
/// Room between two columns.
const BETWEEN: usize = 28;
/// Characters of a line of words.
const WORDS: usize = 96;
/// Characters of a row of a panel, about.
const TABLE: usize = 110;

/// The rules for colours, on a light and on a dark page.
pub fn style() -> String {
    let mut css = format!(
        ".x text{{font:{FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1b1f24}}\
         .x .h{{font-weight:bold}}.x .f{{fill:#57606a}}.x .bg{{fill:#fff;stroke:#d0d7de}}.x .e{{fill:#f6f8fa;stroke:#8c959f}}\
         .x .on{{fill:#1b1f24}}.x .v{{stroke:#57606a}}"
    );
    for (number, (hex, _)) in COLOURS.iter().enumerate() {
        let _ = write!(css, ".x .r{number}{{fill:{hex}}}");
    }
    css.push_str(
        "@media(prefers-color-scheme:dark){.x text{fill:#e6edf3}.x .f{fill:#9da7b1}.x .bg{fill:#0d1117;stroke:#30363d}\
         .x .e{fill:#161b22;stroke:#6e7681}.x .v{stroke:#9da7b1}.x text.on{fill:#1b1f24}}",
    );
    css
}

/// A whole explanation as one picture.
pub fn image(explanation: &Explanation) -> String {
    let mut canvas = Canvas::default();
    canvas.line(&explanation.name, "h");
    for sentence in &explanation.about {
        canvas.words(sentence);
    }
    canvas.legend(explanation);
    for step in &explanation.steps {
        canvas.y += LINE / 2;
        canvas.line(&step.heading, "h");
        step.words.iter().for_each(|words| canvas.words(words));
        step.panels.iter().for_each(|panel| canvas.panel(panel));
        step.notes.iter().for_each(|note| canvas.words(note));
    }
    let mut text = canvas.finish(&explanation.name, true).into_string();
    text.push('\n');
    text
}

/// A panel alone.
pub fn panel(panel: &Panel, about: &str) -> Markup {
    let mut canvas = Canvas::default();
    canvas.panel(panel);
    canvas.finish(about, false)
}

/// The colours of the ranks that occur.
pub fn legend(explanation: &Explanation) -> Markup {
    let mut canvas = Canvas::default();
    canvas.legend(explanation);
    canvas.finish("the colours of the ranks", false)
}

/// What was drawn so far.
#[derive(Default)]
struct Canvas {
    shapes: Vec<Markup>,
    y: usize,
    width: f64,
}

fn length(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// The width of a cell's box.
fn width(cell: &Cell) -> f64 {
    (length(&cell.text()) + 12.0).max(CELL as f64).ceil()
}

impl Canvas {
    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.width = self.width.max(x + length(text));
        self.shapes.push(html!(text x=(x) y=(y) class=(class) { (text) }));
    }

    fn line(&mut self, text: &str, class: &str) {
        self.y += LINE;
        self.text(0.0, self.y as f64 - 5.0, class, &one_line(text));
    }

    fn words(&mut self, text: &str) {
        wrapped(&one_line(text), WORDS).iter().for_each(|line| self.line(line, "f"));
    }

    fn legend(&mut self, explanation: &Explanation) {
        let origins = explanation.origins();
        if origins.is_empty() {
            return;
        }
        let text = "Colours: the rank that a value came from in the step";
        self.line(text, "f");
        self.y += 4;
        let mut x = 0.0;
        for rank in origins.into_iter().take(COLOURS.len()) {
            let cell = Cell::from_rank(format!("rank {rank}"), rank);
            let wide = width(&cell);
            self.cell(x, &cell, wide);
            x += wide + GAP as f64;
        }
        self.y += ROW;
    }

    /// Draws a cell of this width at the current height.
    fn cell(&mut self, x: f64, cell: &Cell, wide: f64) {
        let (y, text) = (self.y as f64, cell.text());
        let class = match cell.from.as_slice() {
            [rank] => Some(format!("r{}", colour(*rank))),
            _ if cell.plain => None,
            _ => Some("e".to_owned()),
        };
        if let Some(class) = &class {
            self.shapes.push(html!(rect x=(x) y=(y) width=(wide) height=(CELL) rx="3" class={ (class) " v" } {}));
        }
        // A reduced value has a band with the colours of all that it came from.
        if cell.from.len() > 1 {
            let shown = cell.from.len().min(COLOURS.len());
            let each = (wide - 2.0) / shown as f64;
            for (at, rank) in cell.from.iter().take(shown).enumerate() {
                let (x, y) = (x + 1.0 + at as f64 * each, y + CELL as f64 - 6.0);
                self.shapes.push(
                    html!(rect x=(rounded(x)) y=(y) width=(rounded(each)) height="5" class={ "r" (colour(*rank)) } {}),
                );
            }
        }
        let raised = if cell.from.len() > 1 { 8.5 } else { 7.0 };
        let class = if cell.from.len() == 1 { "on" } else { "" };
        self.text(rounded(x + (wide - length(&text)) / 2.0), y + CELL as f64 - raised, class, &text);
        self.width = self.width.max(x + wide);
    }

    fn panel(&mut self, panel: &Panel) {
        panel.parts(TABLE).iter().for_each(|part| self.part(part));
    }

    fn part(&mut self, panel: &Panel) {
        self.y += GAP;
        if let Some(title) = &panel.title {
            self.line(title, "f");
        }
        let rows = || {
            panel.rows.iter().filter_map(|row| match row {
                Row::Rank(label, strips) => Some((label, strips)),
                Row::Gap(_) => None,
            })
        };
        let label = rows().map(|(label, _)| length(label)).fold(0.0, f64::max);
        let mut left = label + BETWEEN as f64 / 2.0;
        let mut columns = Vec::new();
        for (at, heading) in panel.columns.iter().enumerate() {
            let mut widths: Vec<f64> = Vec::new();
            for strip in rows().filter_map(|(_, strips)| strips.get(at)) {
                widths.resize(widths.len().max(strip.len()), 0.0);
                widths.iter_mut().zip(strip).for_each(|(most, cell)| *most = most.max(width(cell)));
            }
            let all: f64 = widths.iter().map(|width| width + GAP as f64).sum();
            columns.push((left, widths));
            left += all.max(length(heading)) + BETWEEN as f64;
        }
        self.y += LINE;
        for (heading, (x, _)) in panel.columns.iter().zip(&columns) {
            self.text(*x, self.y as f64 - 5.0, "f", &one_line(heading));
        }
        for row in &panel.rows {
            let (name, strips) = match row {
                Row::Rank(name, strips) => (name, strips),
                Row::Gap(words) => {
                    self.line(words, "f");
                    continue;
                }
            };
            self.text(0.0, (self.y + CELL) as f64 - 7.0, "", name);
            for (strip, (left, widths)) in strips.iter().zip(&columns) {
                let mut x = *left;
                for (cell, width) in strip.iter().zip(widths) {
                    self.cell(x, cell, *width);
                    x += width + GAP as f64;
                }
            }
            self.y += ROW;
        }
        self.y += GAP;
    }

    fn finish(self, about: &str, alone: bool) -> Markup {
        let edge = if alone { MARGIN } else { 2 };
        let (width, height) = (self.width.ceil() as usize + 2 * edge, self.y + 2 * edge);
        let place = format!("translate({edge} {edge})");
        html! {
            svg xmlns="http://www.w3.org/2000/svg" class="x" role="img" width=(width) height=(height)
                viewBox={ "0 0 " (width) " " (height) } {
                title { (one_line(about)) }
                @if alone {
                    style { (PreEscaped(style())) }
                    rect x="0.5" y="0.5" width=(width - 1) height=(height - 1) rx="6" class="bg" {}
                }
                g transform=(place) { @for shape in &self.shapes { (shape) } }
            }
        }
    }
}

/// Pixels with one decimal place, so that pictures do not differ in digits that nobody sees.
fn rounded(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}
