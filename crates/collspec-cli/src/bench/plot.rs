//! The results as a picture: time and bus bandwidth by size, or instructions where these are counted, both axes logarithmic, with
//! the measured points.
//! A self-contained SVG file that follows the reader's light or dark setting.
mod axis;
mod sides;

use super::result::RowResult;
use super::row::Row;
use axis::{Axis, scaled, size_text};
pub use sides::plot_sides;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Points of a curve: bytes, and seconds or another measured number.
type Points = Vec<(u64, f64)>;

/// A line of the picture.
struct Curve {
    name: String,
    row: Row,
    /// The number of its colour, and true if its line is dashed.
    colour: usize,
    dashed: bool,
    points: Points,
    /// The interval of each point's median.
    intervals: Vec<(u64, f64, f64)>,
}

/// Colours that are distinguishable with red-green colour blindness (Okabe and Ito, 2008), and shades of them.
const COLOURS: [(&str, &str); 8] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff8c42"),
    ("#009e73", "#2fd0a0"),
    ("#cc79a7", "#e59fc4"),
    ("#8a6d00", "#e6c229"),
    ("#555555", "#bbbbbb"),
    ("#3b3eac", "#9a9cff"),
    ("#a3333d", "#ff7b86"),
];
/// Width of the picture, and of a panel.
const WIDTH: f64 = 1000.0;
const PANEL: f64 = 400.0;
/// Height of a panel, its left edges, and its upper edge.
const HEIGHT: f64 = 340.0;
const LEFT: [f64; 2] = [80.0, 570.0];
const TOP: f64 = 60.0;
/// Height of a line of the legend.
const LEGEND_LINE: f64 = 20.0;
/// Limit on the curves in one picture; more would be indistinguishable.
const MOST_CURVES: usize = 32;

/// The picture, and the number of curves without room.
pub fn plot(title: &str, results: &[RowResult]) -> (String, usize) {
    if results.iter().any(|result| result.work.is_some()) {
        let instructions = |_: &Row, instructions: f64| instructions;
        let of = |result: &RowResult| Some(result.work?.instructions as f64);
        return picture(title, &[("instructions", &instructions)], curves(results, &of));
    }
    picture(title, TIMES, curves(results, &RowResult::seconds))
}

/// A panel's name, and the function that computes a curve's points.
type Panel<'a> = (&'a str, &'a dyn Fn(&Row, f64) -> f64);

/// The panels of curves of times.
const TIMES: &[Panel<'static>] =
    &[("time (us)", &|_, seconds| seconds * 1e6), ("bus bandwidth (GB/s)", &|row, seconds| row.bus_bandwidth(seconds))];

/// The picture of these curves in these panels, two at most, and the number of curves without room.
fn picture(title: &str, panels: &[Panel<'_>], mut curves: Vec<Curve>) -> (String, usize) {
    let left_out = curves.len().saturating_sub(MOST_CURVES);
    curves.truncate(MOST_CURVES);
    let mut svg = String::new();
    let height = TOP + HEIGHT + 70.0 + LEGEND_LINE * curves.len() as f64;
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>{}</title>\n{}\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n<text class=\"head\" x=\"20\" y=\"28\">{}</text>\n",
        escaped(title),
        style(),
        escaped(title)
    );
    if curves.is_empty() {
        svg.push_str("<text x=\"20\" y=\"60\">Nothing was measured.</text>\n");
    } else {
        for (left, (name, value)) in LEFT.into_iter().zip(panels) {
            panel(&mut svg, left, name, &curves, value);
        }
        legend(&mut svg, &curves);
    }
    svg.push_str("</svg>\n");
    (svg, left_out)
}

/// The curves of the number that `value` returns for each result.
fn curves(results: &[RowResult], value: &dyn Fn(&RowResult) -> Option<f64>) -> Vec<Curve> {
    let mut curves: BTreeMap<Row, Curve> = BTreeMap::new();
    for result in results {
        let Some(value) = value(result).filter(|value| *value > 0.0) else { continue };
        let key = result.row.with_bytes(0);
        let curve = curves.entry(key.clone()).or_insert_with(|| Curve::new(key.curve(), key));
        curve.points.push((result.row.bytes, value));
        curve.intervals.extend(result.interval.map(|interval| (result.row.bytes, interval.low, interval.high)));
    }
    let numbered = curves.into_values().enumerate();
    numbered
        .map(|(number, curve)| Curve { colour: number % COLOURS.len(), dashed: curve.row.in_place, ..curve })
        .collect()
}

impl Curve {
    fn new(name: String, row: Row) -> Self {
        Self { name, row, colour: 0, dashed: false, points: Vec::new(), intervals: Vec::new() }
    }

    /// The CSS class of its line.
    fn line(&self) -> &'static str {
        if self.dashed { "in" } else { "out" }
    }
}

fn panel(svg: &mut String, left: f64, name: &str, curves: &[Curve], value: &dyn Fn(&Row, f64) -> f64) {
    let of = |curve: &Curve, (bytes, seconds): (u64, f64)| value(&curve.row.with_bytes(bytes), seconds);
    let all = curves.iter().flat_map(|curve| curve.points.iter().map(|point| of(curve, *point)));
    let sizes = curves.iter().flat_map(|curve| curve.points.iter().map(|(bytes, _)| *bytes as f64));
    let across = Axis::new(sizes, 2.0, left, left + PANEL);
    let up = Axis::new(all, 10.0, TOP + HEIGHT, TOP);
    let (right, bottom) = (left + PANEL, TOP + HEIGHT);
    let _ = writeln!(svg, "<text class=\"name\" x=\"{left}\" y=\"{}\">{}</text>", TOP - 10.0, escaped(name));
    for tick in up.ticks() {
        let y = up.place(tick);
        let _ = write!(svg, "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            y + 4.0,
            scaled(tick)
        );
    }
    for tick in across.ticks() {
        let x = across.place(tick);
        let _ = write!(svg, "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>");
        let text = size_text(tick);
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>", bottom + 16.0);
    }
    let (middle, below) = (left + PANEL / 2.0, bottom + 34.0);
    let _ = writeln!(svg, "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">size (bytes)</text>");
    for curve in curves {
        let class = curve.colour;
        let place = |bytes: u64, seconds: f64| {
            let value = of(curve, (bytes, seconds));
            (value > 0.0).then(|| (across.place(bytes as f64), up.place(value)))
        };
        let points: Vec<_> = curve.points.iter().filter_map(|(bytes, seconds)| place(*bytes, *seconds)).collect();
        let line = curve.line();
        let _ = writeln!(svg, "<polyline class=\"c{class} {line}\" points=\"{}\"/>", joined(points.iter().copied()));
        for (bytes, low, high) in &curve.intervals {
            if let (Some((x, from)), Some((_, to))) = (place(*bytes, *low), place(*bytes, *high)) {
                let (from, to) = (from.clamp(TOP, bottom), to.clamp(TOP, bottom));
                let _ = write!(
                    svg,
                    "<line class=\"c{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{from:.1}\" y2=\"{to:.1}\"/>"
                );
            }
        }
        for (x, y) in points {
            let _ = write!(svg, "<circle class=\"c{class} {line}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>");
        }
        svg.push('\n');
    }
    let _ = writeln!(svg, "<rect class=\"frame\" x=\"{left}\" y=\"{TOP}\" width=\"{PANEL}\" height=\"{HEIGHT}\"/>");
}

fn joined(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

fn legend(svg: &mut String, curves: &[Curve]) {
    for (number, curve) in curves.iter().enumerate() {
        let (class, line) = (curve.colour, curve.line());
        let y = TOP + HEIGHT + 64.0 + LEGEND_LINE * number as f64;
        let _ = write!(
            svg,
            "<line class=\"c{class} {line}\" x1=\"{}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>",
            LEFT[0],
            LEFT[0] + 36.0
        );
        let name = escaped(&curve.name);
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{name}</text>", LEFT[0] + 44.0, y + 4.0);
    }
}

fn style() -> String {
    let colours = |dark: bool| {
        let of = |(number, (light, bright)): (usize, &(&str, &str))| {
            let colour = if dark { bright } else { light };
            format!(".c{number}{{stroke:{colour}}}circle.c{number}{{fill:{colour}}}")
        };
        COLOURS.iter().enumerate().map(of).collect::<String>()
    };
    format!(
        "<style>.page{{fill:#fff}}text{{fill:#222}}.head{{font-size:16px;font-weight:600}}.name{{font-weight:600}}\
         .grid{{stroke:#ddd}}.frame{{fill:none;stroke:#888}}polyline{{fill:none;stroke-width:1.8}}.in{{stroke-dasharray:7 3}}\
         circle.in{{stroke-dasharray:none}}{}\
         @media (prefers-color-scheme:dark){{.page{{fill:#181a1f}}text{{fill:#ddd}}.grid{{stroke:#33363d}}\
         .frame{{stroke:#777}}{}}}</style>",
        colours(false),
        colours(true)
    )
}

/// Text of an XML element.
fn escaped(text: &str) -> String {
    let plain = collspec_core::printable::one_line(text);
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::operation::Operation;
    use crate::bench::sample::{RowOutcome, RowSample};
    use collspec_core::num::DType;

    fn rows(algorithm: &str) -> Vec<Row> {
        let row = |size: u32, in_place: bool| Row {
            operation: Operation::AllGather,
            reduction: None,
            dtype: DType::F32,
            algorithm: Some(algorithm.into()),
            protocol: None,
            ranks: 4,
            root: None,
            bytes: 1 << size,
            in_place,
        };
        (4..24).step_by(2).flat_map(|size| [row(size, false), row(size, true)]).collect()
    }

    pub(super) fn samples(algorithm: &str, factor: f64) -> Vec<RowSample> {
        let timed = |row: Row| {
            let seconds = factor * (1e-5 + row.bytes as f64 / 2e9) * if row.in_place { 0.8 } else { 1.0 };
            RowSample { row, outcome: RowOutcome::Timed { seconds, iterations: vec![], wrong: None, finding: None } }
        };
        rows(algorithm).into_iter().map(timed).collect()
    }

    fn results(algorithm: &str) -> Vec<RowResult> {
        RowResult::of(&rows(algorithm), &[1.0, 1.1, 1.3].map(|factor| samples(algorithm, factor)))
    }

    #[test]
    fn a_picture_has_two_panels_a_line_for_each_curve_and_a_legend() {
        let (svg, left_out) = plot("all_gather <1>", &results("Ring"));
        assert_eq!(left_out, 0);
        assert_eq!(svg.matches("class=\"frame\"").count(), 2);
        assert_eq!(svg.matches("<polyline class=\"c0 out\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("<polyline class=\"c1 in\"").count(), 2, "{svg}");
        assert!(svg.contains("all_gather, float, 4 ranks, Ring, out of place"), "{svg}");
        assert!(svg.contains("<title>all_gather &lt;1&gt;</title>") && svg.contains("prefers-color-scheme:dark"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn hostile_names_and_nothing_at_all_are_still_a_picture() {
        let (svg, _) = plot("x", &results("</text><script>"));
        assert!(!svg.contains("<script>"), "{svg}");
        let (svg, _) = plot("", &[]);
        assert!(svg.contains("Nothing was measured") && svg.ends_with("</svg>\n"));
    }
}
