//! Draws plots of growth as SVG, readable on light and on dark pages.

use std::fmt::Write as _;

use super::results::thousands;
use crate::book::escape;

/// In pixels: the picture, one panel with its title and axis, and the margins for labels.
const WIDTH: f64 = 860.0;
const PANEL_HEIGHT: f64 = 330.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 216.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 52.0;
/// The minimum distance between the labels of two lines.
const LABEL_DISTANCE: f64 = 15.0;

/// Two colors for each line, and for the text, lines and background: on light, and on dark pages.
const COLORS: [[&str; 2]; 9] = [
    ["#0969da", "#58a6ff"],
    ["#bf3989", "#f778ba"],
    ["#1a7f37", "#3fb950"],
    ["#9a6700", "#d29922"],
    ["#8250df", "#bc8cff"],
    ["#cf222e", "#ff7b72"],
    ["#0f766e", "#39c5cf"],
    ["#7d4e00", "#e3b341"],
    ["#57606a", "#9ea7b0"],
];
const STYLE: &str = "
    .back { fill: #ffffff; stroke: #d0d7de }
    text { font: 12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; fill: #1f2328 }
    .title { font-size: 14px; font-weight: 600 }
    .tick { fill: #57606a }
    .grid { stroke: #d0d7de; stroke-width: 1 }
    .line { fill: none; stroke-width: 2; stroke-linejoin: round }
    .floor { stroke-dasharray: 5 4; stroke-width: 1.5 }
    .leader { stroke-width: 0.75; fill: none }";
const DARK_STYLE: &str = "
      .back { fill: #0d1117; stroke: #30363d }
      text { fill: #e6edf3 }
      .tick { fill: #9ea7b0 }
      .grid { stroke: #30363d }";

/// A picture of panels below each other, with the same horizontal axis.
pub(super) struct Plot {
    pub(super) title: &'static str,
    pub(super) x_label: &'static str,
    pub(super) panels: Vec<Panel>,
}

/// A panel. Both axes are logarithmic.
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) lines: Vec<Line>,
}

/// A line through points.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// Whether it is a floor or another program, and not ours: it is dashed.
    pub(super) is_other: bool,
}

/// Draws a plot. None if nothing was measured.
pub(super) fn draw(plot: &Plot) -> Option<String> {
    let panels: Vec<&Panel> =
        plot.panels.iter().filter(|panel| panel.lines.iter().any(|line| !line.points.is_empty())).collect();
    let mut xs: Vec<f64> =
        panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points).map(|(x, _)| *x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let (first, last) = (*xs.first()?, *xs.last()?);
    let x_scale = Scale { from: first, to: last.max(first * 1.001), start: LEFT, end: WIDTH - RIGHT };
    let height = PANEL_HEIGHT * f64::from(u32::try_from(panels.len()).ok()?);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n\
         <title>{}</title>\n<style>{STYLE}\n{}    @media (prefers-color-scheme: dark) {{{DARK_STYLE}\n{}    }}\n</style>\n\
         <rect class=\"back\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n",
        escape(plot.title),
        color_styles(0),
        color_styles(1),
        WIDTH - 1.0,
        height - 1.0,
    );
    for (number, panel) in panels.iter().enumerate() {
        let top = PANEL_HEIGHT * f64::from(u32::try_from(number).ok()?);
        draw_panel(&mut svg, panel, plot.x_label, &xs, x_scale, top);
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

fn color_styles(variant: usize) -> String {
    let mut css = String::new();
    for (number, colors) in COLORS.iter().enumerate() {
        let color = colors[variant];
        let _ = writeln!(
            css,
            "    .c{number} {{ stroke: {color} }} circle.c{number}, text.c{number} {{ fill: {color}; stroke: none }}"
        );
    }
    css
}

/// Maps values to pixels, logarithmically.
#[derive(Clone, Copy)]
struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    fn at(self, value: f64) -> f64 {
        let share = (value.ln() - self.from.ln()) / (self.to.ln() - self.from.ln());
        self.start + share * (self.end - self.start)
    }
}

fn draw_panel(svg: &mut String, panel: &Panel, x_label: &str, xs: &[f64], x_scale: Scale, top: f64) {
    let values = panel.lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y);
    let (least, most) = values.fold((f64::MAX, f64::MIN), |(least, most), y| (least.min(y), most.max(y)));
    let (from, to) = (step_below(least), step_above(most.max(least * 1.01)));
    let y_scale = Scale { from, to, start: top + PANEL_HEIGHT - BOTTOM, end: top + TOP };
    let (left, right) = (x_scale.start, x_scale.end);
    let _ = writeln!(svg, "<text class=\"title\" x=\"{left}\" y=\"{}\">{}</text>", top + 28.0, escape(panel.title));
    for tick in ticks(from, to) {
        let y = y_scale.at(tick);
        let _ = writeln!(svg, "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        let _ = writeln!(
            svg,
            "<text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            y + 4.0,
            number(tick)
        );
    }
    let bottom = y_scale.start;
    for x in xs {
        let at = x_scale.at(*x);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{}\"/>",
            bottom + 5.0
        );
        let _ = writeln!(
            svg,
            "<text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 19.0,
            number(*x)
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(left, right),
        bottom + 38.0,
        escape(x_label)
    );
    draw_lines(svg, panel, x_scale, y_scale);
}

fn draw_lines(svg: &mut String, panel: &Panel, x_scale: Scale, y_scale: Scale) {
    let mut labels: Vec<(f64, f64, f64, usize, &str)> = Vec::new();
    for (number, line) in panel.lines.iter().enumerate().filter(|(_, line)| !line.points.is_empty()) {
        // The last color is gray, for other programs.
        let color = if line.is_other { COLORS.len() - 1 } else { number % (COLORS.len() - 1) };
        let points: Vec<(f64, f64)> = line.points.iter().map(|(x, y)| (x_scale.at(*x), y_scale.at(*y))).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let class = if line.is_other { "line floor" } else { "line" };
        let _ = writeln!(svg, "<polyline class=\"{class} c{color}\" points=\"{}\"/>", path.join(" "));
        for (x, y) in &points {
            let _ = writeln!(svg, "<circle class=\"c{color}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
        }
        if let Some((x, y)) = points.last() {
            labels.push((*y, *x, *y, color, &line.name));
        }
    }
    labels.sort_by(|one, other| one.0.total_cmp(&other.0));
    spread_labels(&mut labels, y_scale.end, y_scale.start);
    for (at, x, y, color, name) in labels {
        let start = x_scale.end + 16.0;
        let _ = writeln!(
            svg,
            "<path class=\"leader c{color}\" d=\"M{:.1},{y:.1} L{start:.1},{at:.1}\"/>\n\
             <text class=\"c{color}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 5.0,
            start + 4.0,
            at + 4.0,
            escape(name)
        );
    }
}

/// Moves labels, which are sorted, so that none covers another, and all stay in the panel if they fit.
fn spread_labels(labels: &mut [(f64, f64, f64, usize, &str)], top: f64, bottom: f64) {
    for number in 1..labels.len() {
        labels[number].0 = labels[number].0.max(labels[number - 1].0 + LABEL_DISTANCE);
    }
    let mut limit = bottom;
    for label in labels.iter_mut().rev() {
        label.0 = label.0.min(limit).max(top - LABEL_DISTANCE);
        limit = label.0 - LABEL_DISTANCE;
    }
}

/// Returns the largest of 1, 2 and 5 times a power of ten that is not above a value.
fn step_below(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|step| step * power).find(|step| *step <= value * 1.000_001).unwrap_or(power)
}

fn step_above(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= value * 0.999_999)
        .unwrap_or(power * 10.0)
}

/// Returns the values with a line: powers of ten, and steps between them if there are few.
fn ticks(from: f64, to: f64) -> Vec<f64> {
    let steps: &[f64] = if (to / from).log10() > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let mut ticks = Vec::new();
    let mut power = 10f64.powf(from.log10().floor());
    while power <= to * 1.000_001 {
        let fitting = steps.iter().map(|step| step * power);
        ticks.extend(fitting.filter(|tick| *tick >= from * 0.999_999 && *tick <= to * 1.000_001));
        power *= 10.0;
    }
    ticks
}

/// Writes a number without needless digits.
fn number(value: f64) -> String {
    if value >= 1.0 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is rounded, and not negative"
        )]
        return thousands(value.round() as u64);
    }
    format!("{value:.4}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, points: &[(f64, f64)]) -> Line {
        Line { name: name.to_owned(), points: points.to_vec(), is_other: false }
    }

    #[test]
    fn a_plot_shows_each_line_with_its_name_and_both_axes() {
        let lines = vec![line("way add <x>", &[(1_000.0, 2.0), (100_000.0, 4.0)]), line("flat", &[(1_000.0, 2.0)])];
        let panels = vec![Panel { title: "Milliseconds", lines }];
        let svg = draw(&Plot { title: "Growth", x_label: "issues", panels }).unwrap();
        assert!(svg.contains("way add &lt;x&gt;") && svg.contains("flat"));
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains(">1,000</text>") && svg.contains(">100,000</text>") && svg.contains(">issues</text>"));
        assert!(svg.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn a_plot_without_points_is_not_drawn() {
        let panels = vec![Panel { title: "Milliseconds", lines: vec![line("none", &[])] }];
        assert_eq!(draw(&Plot { title: "Nothing", x_label: "issues", panels }), None);
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let mut labels = [(100.0, 0.0, 0.0, 0, "a"), (101.0, 0.0, 0.0, 1, "b"), (102.0, 0.0, 0.0, 2, "c")];
        spread_labels(&mut labels, 50.0, 120.0);
        assert!(labels.windows(2).all(|pair| pair[1].0 - pair[0].0 >= LABEL_DISTANCE));
        assert!(labels.iter().all(|label| label.0 <= 120.0));
    }

    #[test]
    fn axes_begin_and_end_at_round_numbers() {
        assert_eq!((step_below(0.37), step_above(0.37)), (0.2, 0.5));
        assert_eq!((step_below(1_000.0), step_above(1_000.0)), (1_000.0, 1_000.0));
        assert_eq!(ticks(1.0, 20.0), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(
            ["0.05", "0.5", "1", "20,000"],
            [0.05, 0.5, 1.0, 20_000.0].map(number).each_ref().map(String::as_str)
        );
    }
}
