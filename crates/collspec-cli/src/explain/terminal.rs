//! An explanation as text, with or without colours.
use super::picture::{Cell, Explanation, Panel, Row};
use super::style::{COLOURS, colour, wrapped};
use anstyle::{Ansi256Color, Color, Style};
use collspec_core::printable::one_line;
use std::io::{self, Write};

/// Characters of a line of words.
const WIDTH: usize = 100;
/// Characters of a row of a table, about.
const TABLE: usize = 130;
const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

/// Writes an explanation. Without `colours` every value is labelled with the rank that it came from.
///
/// # Errors
///
/// Writing fails.
pub fn write(to: &mut dyn Write, explanation: &Explanation, colours: bool) -> io::Result<()> {
    writeln!(to, "{BOLD}{}{BOLD:#}", one_line(&explanation.name))?;
    for sentence in &explanation.about {
        paragraph(to, "", sentence)?;
    }
    if explanation.has_origins() {
        match colours {
            true => {
                write!(to, "Colours: the rank that a value came from in the step.")?;
                for rank in explanation.origins().into_iter().take(COLOURS.len()) {
                    let style = style(rank);
                    write!(to, " {style} rank {rank} {style:#}")?;
                }
                writeln!(to)?;
            }
            false => writeln!(to, "r1:5 is the value 5 that came from rank 1 in the step; · is not written yet.")?,
        }
    }
    for step in &explanation.steps {
        writeln!(to, "\n{BOLD}{}{BOLD:#}", one_line(&step.heading))?;
        for words in &step.words {
            paragraph(to, "  ", words)?;
        }
        for panel in step.panels.iter().flat_map(|panel| panel.parts(TABLE)) {
            writeln!(to)?;
            table(to, &panel, colours)?;
        }
        if !step.notes.is_empty() && !step.panels.is_empty() {
            writeln!(to)?;
        }
        for note in &step.notes {
            paragraph(to, "  ", note)?;
        }
    }
    Ok(())
}

fn paragraph(to: &mut dyn Write, indent: &str, text: &str) -> io::Result<()> {
    wrapped(&one_line(text), WIDTH).iter().try_for_each(|line| writeln!(to, "{indent}{line}"))
}

fn style(rank: usize) -> Style {
    let background = Color::Ansi256(Ansi256Color(COLOURS[colour(rank)].1));
    Style::new().fg_color(Some(Color::Ansi256(Ansi256Color(16)))).bg_color(Some(background))
}

/// Characters that a cell takes.
fn width(cell: &Cell, colours: bool) -> usize {
    let text = if colours { cell.text() } else { cell.labelled() };
    text.chars().count() + if colours { 2 } else { 0 }
}

fn table(to: &mut dyn Write, panel: &Panel, colours: bool) -> io::Result<()> {
    if let Some(title) = &panel.title {
        writeln!(to, "  {}", one_line(title))?;
    }
    let rows = panel.rows.iter().filter_map(|row| match row {
        Row::Rank(label, strips) => Some((label, strips)),
        Row::Gap(_) => None,
    });
    let label = rows.clone().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    // The widths of the cells of each column.
    let mut widths: Vec<Vec<usize>> = vec![Vec::new(); panel.columns.len()];
    for (_, strips) in rows {
        for (widths, strip) in widths.iter_mut().zip(strips) {
            widths.resize(widths.len().max(strip.len()), 0);
            for (most, cell) in widths.iter_mut().zip(strip) {
                *most = (*most).max(width(cell, colours));
            }
        }
    }
    let total = |widths: &Vec<usize>| widths.iter().map(|width| width + 1).sum::<usize>().saturating_sub(1);
    let widths_of_columns: Vec<usize> = panel
        .columns
        .iter()
        .zip(&widths)
        .map(|(heading, widths)| total(widths).max(one_line(heading).chars().count()))
        .collect();
    let mut line = format!("  {:label$}", "");
    for (heading, width) in panel.columns.iter().zip(&widths_of_columns) {
        let heading = one_line(heading);
        let rest = width.saturating_sub(heading.chars().count());
        line.push_str(&format!("   {FAINT}{heading}{FAINT:#}{:rest$}", ""));
    }
    writeln!(to, "{}", line.trim_end())?;
    for row in &panel.rows {
        let (name, strips) = match row {
            Row::Rank(name, strips) => (name, strips),
            Row::Gap(words) => {
                writeln!(to, "  {FAINT}{words}{FAINT:#}")?;
                continue;
            }
        };
        let mut line = format!("  {name:<label$}");
        for ((strip, widths), whole) in strips.iter().zip(&widths).zip(&widths_of_columns) {
            line.push_str("   ");
            let mut used = 0;
            for (at, (cell, width)) in strip.iter().zip(widths).enumerate() {
                if at > 0 {
                    line.push(' ');
                    used += 1;
                }
                push(&mut line, cell, *width, colours);
                used += width;
            }
            line.extend(std::iter::repeat_n(' ', whole.saturating_sub(used)));
        }
        writeln!(to, "{}", line.trim_end())?;
    }
    Ok(())
}

fn push(line: &mut String, cell: &Cell, room: usize, colours: bool) {
    let pad = room.saturating_sub(width(cell, colours));
    if !colours {
        line.push_str(&cell.labelled());
    } else if let ([(text, _)], [rank]) = (cell.parts.as_slice(), cell.from.as_slice()) {
        let style = style(*rank);
        line.push_str(&format!("{style} {text} {style:#}"));
    } else {
        line.push(' ');
        for (text, rank) in &cell.parts {
            match rank.map(style) {
                Some(style) => line.push_str(&format!("{style}{text}{style:#}")),
                None if cell.plain || cell.from.is_empty() => line.push_str(text),
                None => line.push_str(&format!("{BOLD}{text}{BOLD:#}")),
            }
        }
        line.push(' ');
    }
    line.extend(std::iter::repeat_n(' ', pad));
}
