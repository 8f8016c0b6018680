//! Draws the session of a page as a picture for the README. A test runs the commands of the page, so they are real.

use std::fmt::Write as _;
use std::path::Path;

use crate::Result;
use crate::tidy::read;

/// The page with the session.
const PAGE: &str = "docs/tour.md";
/// Its picture.
const PICTURE: &str = "docs/images/tour.svg";

/// In pixels.
const CHAR_WIDTH: f64 = 8.43;
const LINE_HEIGHT: usize = 20;
const MARGIN: usize = 18;
/// The height of the bar with the three dots.
const BAR_HEIGHT: usize = 30;
/// The time between a command and its output, and between this and the next command, in milliseconds.
const PAUSES_MS: (usize, usize) = (500, 900);

const STYLE: &str = "
    .back { fill: #ffffff; stroke: #d0d7de }
    .dot { fill: #d0d7de }
    text { font: 14px ui-monospace, 'SF Mono', Menlo, Consolas, 'Liberation Mono', monospace; white-space: pre; fill: #1f2328 }
    .prompt { fill: #1a7f37 }
    .command { font-weight: 600 }
    .output { fill: #57606a }
    @media (prefers-color-scheme: dark) {
      .back { fill: #0d1117; stroke: #30363d }
      .dot { fill: #30363d }
      text { fill: #e6edf3 }
      .prompt { fill: #3fb950 }
      .output { fill: #9ea7b0 }
    }
    @media (prefers-reduced-motion: no-preference) {
      text { animation: appear 1ms both }
      @keyframes appear { from { opacity: 0 } to { opacity: 1 } }
    }
";

/// Draws the picture.
pub(crate) fn draw(root: &Path) -> Result {
    let picture = picture(&read(&root.join(PAGE))?);
    #[expect(clippy::disallowed_methods, reason = "it can be drawn again")]
    std::fs::write(root.join(PICTURE), picture).map_err(|error| format!("{PICTURE}: {error}"))
}

/// Complains if the picture does not show the page.
pub(crate) fn check(root: &Path, complaints: &mut Vec<String>) -> Result {
    if read(&root.join(PICTURE)).ok() != Some(picture(&read(&root.join(PAGE))?)) {
        complaints.push(format!("{PICTURE} does not show {PAGE}: run cargo xtask picture"));
    }
    Ok(())
}

/// Returns the session of a page as SVG.
fn picture(page: &str) -> String {
    let session = page.split("```console\n").skip(1).filter_map(|block| block.split("```").next());
    let lines: Vec<&str> = session.flat_map(str::lines).collect();
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
    let width = (columns as f64 * CHAR_WIDTH).ceil() as usize + 2 * MARGIN;
    let height = BAR_HEIGHT + lines.len() * LINE_HEIGHT + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" xml:space=\"preserve\" viewBox=\"0 0 {width} {height}\">\n\
         <title>A session in a terminal</title>\n<style>{STYLE}</style>\n\
         <rect class=\"back\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n",
        width - 1,
        height - 1
    );
    for number in 0..3 {
        let _ = writeln!(svg, "<circle class=\"dot\" cx=\"{}\" cy=\"16\" r=\"5\"/>", MARGIN + number * 18);
    }
    let mut time = 0;
    let mut is_output = false;
    for (number, line) in lines.iter().enumerate() {
        let command = line.strip_prefix("$ ");
        match (command, is_output) {
            (Some(_), _) if number > 0 => time += PAUSES_MS.1,
            (None, false) => time += PAUSES_MS.0,
            _ => {}
        }
        is_output = command.is_none();
        let y = BAR_HEIGHT + (number + 1) * LINE_HEIGHT - 5;
        let words = match command {
            Some(command) => {
                let command = escape(command);
                format!("<tspan class=\"prompt\">$ </tspan><tspan class=\"command\">{command}</tspan>")
            }
            None => format!("<tspan class=\"output\">{}</tspan>", escape(line)),
        };
        let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\" style=\"animation-delay: {time}ms\">{words}</text>");
    }
    svg.push_str("</svg>\n");
    svg
}

/// Writes text as XML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_their_output_follow_each_other_and_text_is_escaped() {
        let svg = picture("text\n```console\n$ a <b\none\ntwo\n$ c\n```\n");
        assert!(
            svg.contains("animation-delay: 0ms\"><tspan class=\"prompt\">$ </tspan><tspan class=\"command\">a &lt;b<")
        );
        assert_eq!(svg.matches("animation-delay: 500ms").count(), 2);
        assert_eq!(svg.matches("animation-delay: 1400ms").count(), 1);
        assert!(!svg.contains("text</tspan>"));
    }
}
