//! Draws a graph of dependencies: lanes of text, SVG, Mermaid or DOT.

use std::collections::HashMap;
use std::fmt::Write as _;

use waypost::ops::{DependencyGraph, GraphNode, NodeState as State};
use waypost_core::layout::{Graph, Layout, Place};

use crate::ui::{BOLD, Cell, DIM, GOOD, PLAIN, Text, WARN, cell, styled};

/// The output format of a drawing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Svg,
    Mermaid,
    Dot,
}

/// A graph that is drawn.
pub(crate) struct Drawing<'a> {
    nodes: &'a [GraphNode],
    critical_path: &'a [String],
    graph: Graph,
    layout: Layout,
}

impl<'a> Drawing<'a> {
    /// Prepares the drawing of a graph.
    pub(crate) fn of(graph: &'a DependencyGraph) -> Drawing<'a> {
        let (nodes, critical_path) = (graph.nodes.as_slice(), graph.critical_path.as_slice());
        let (graph, layout) = graph.numbered();
        Drawing { nodes, critical_path, graph, layout }
    }

    /// Draws it in a format.
    pub(crate) fn write(&self, text: &mut Text, format: Format) {
        match format {
            Format::Text => self.write_lanes(text),
            Format::Svg => self.svg().lines().for_each(|line| text.line(line)),
            Format::Mermaid => self.mermaid().lines().for_each(|line| text.line(line)),
            Format::Dot => self.dot().lines().for_each(|line| text.line(line)),
        }
    }

    fn write_lanes(&self, text: &mut Text) {
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        for row in Lanes::rows(&self.graph, &self.layout) {
            let Some(number) = row.node else {
                rows.push(vec![styled(DIM, row.text)]);
                continue;
            };
            let node = &self.nodes[number];
            let symbol = match node.state {
                State::Waiting => '○',
                State::Ready => '◎',
                State::Working => '◐',
                State::Done => '●',
                State::Failed => '✗',
            };
            let style = match node.state {
                State::Done => DIM,
                State::Ready => GOOD,
                State::Working | State::Failed => WARN,
                State::Waiting => PLAIN,
            };
            rows.push(vec![
                cell(row.text.replace(NODE, &symbol.to_string())),
                styled(if node.is_critical { BOLD } else { PLAIN }, &node.name),
                styled(style, &node.status),
                styled(DIM, if node.is_critical { "critical" } else { "" }),
            ]);
        }
        text.table(&rows);
        if self.critical_path.len() > 1 {
            let names: HashMap<&str, &str> =
                self.nodes.iter().map(|node| (node.id.as_str(), node.name.as_str())).collect();
            let path: Vec<&str> = self.critical_path.iter().filter_map(|id| names.get(id.as_str()).copied()).collect();
            text.gap();
            text.line(format!("Critical path, {} of {}: {}", path.len(), self.nodes.len(), path.join(" → ")));
        }
    }

    fn mermaid(&self) -> String {
        let mut out = String::from("graph LR\n");
        for (number, node) in self.nodes.iter().enumerate() {
            let label = mermaid_label(&format!("{} ({})", node.name, node.status));
            let _ = writeln!(out, "  n{number}[\"{label}\"]{}", if node.is_critical { ":::critical" } else { "" });
        }
        for edge in &self.layout.edges {
            let arrow = if edge.is_back { "-.->" } else { "-->" };
            let _ = writeln!(out, "  n{} {arrow} n{}", edge.from, edge.to);
        }
        out.push_str("  classDef critical stroke-width:3px\n");
        out
    }

    fn dot(&self) -> String {
        let mut out = String::from("digraph work {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n");
        for node in self.nodes {
            let label = dot_quoted(&format!("{} ({})", node.name, node.status));
            let width = if node.is_critical { ", penwidth=2" } else { "" };
            let _ = writeln!(out, "  {} [label={label}{width}];", dot_quoted(&node.id));
        }
        for edge in &self.layout.edges {
            let style = if edge.is_back { " [style=dashed]" } else { "" };
            let _ = writeln!(
                out,
                "  {} -> {}{style};",
                dot_quoted(&self.nodes[edge.from].id),
                dot_quoted(&self.nodes[edge.to].id)
            );
        }
        out.push_str("}\n");
        out
    }

    fn svg(&self) -> String {
        const BOX: (usize, usize) = (190, 40);
        const STEP: (usize, usize) = (250, 58);
        const MARGIN: usize = 16;
        let corner = |place: Place| (MARGIN + place.layer * STEP.0, MARGIN + place.row * STEP.1);
        let width = 2 * MARGIN + self.layout.layers.saturating_sub(1) * STEP.0 + BOX.0;
        let height = 2 * MARGIN + self.layout.rows.saturating_sub(1) * STEP.1 + BOX.1;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"ui-sans-serif, system-ui, sans-serif\" font-size=\"13\" role=\"img\">\n<style>\n{STYLE}</style>\n"
        );
        for edge in &self.layout.edges {
            let middle = |place: Place| (corner(place).0, corner(place).1 + BOX.1 / 2);
            let (from, to) = (middle(self.layout.nodes[edge.from]), middle(self.layout.nodes[edge.to]));
            let mut path = format!("M{},{}", from.0 + BOX.0, from.1);
            let mut at = (from.0 + BOX.0, from.1);
            for bend in edge.bends.iter().map(|bend| middle(*bend)) {
                let _ = write!(path, " C{0},{1} {0},{3} {2},{3} H{4}", at.0 + 30, at.1, bend.0, bend.1, bend.0 + BOX.0);
                at = (bend.0 + BOX.0, bend.1);
            }
            let _ = write!(path, " C{},{} {},{} {},{}", at.0 + 30, at.1, to.0.saturating_sub(30), to.1, to.0, to.1);
            let is_critical = self.nodes[edge.from].is_critical && self.nodes[edge.to].is_critical;
            let class = if edge.is_back {
                "back"
            } else if is_critical {
                "critical"
            } else {
                "edge"
            };
            let _ = writeln!(out, "<path class=\"{class}\" d=\"{path}\"/>");
        }
        for (node, place) in self.nodes.iter().zip(&self.layout.nodes) {
            let (x, y) = corner(*place);
            let state = match node.state {
                State::Waiting => "waiting",
                State::Ready => "ready",
                State::Working => "working",
                State::Done => "done",
                State::Failed => "failed",
            };
            let critical = if node.is_critical { " critical" } else { "" };
            let _ = writeln!(
                out,
                "<g class=\"node {state}{critical}\"><title>{} {}: {}</title><rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"6\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text><text class=\"status\" x=\"{}\" y=\"{}\">{}</text></g>",
                xml(&node.id),
                xml(&node.name),
                xml(&node.status),
                BOX.0,
                BOX.1,
                x + 10,
                y + 17,
                xml(&shortened(&node.name, 24)),
                x + 10,
                y + 32,
                xml(&shortened(&node.status, 28)),
            );
        }
        out.push_str("</svg>\n");
        out
    }
}

const STYLE: &str = "\
.edge, .critical, .back { fill: none; stroke: #9aa0a6; stroke-width: 1.5; }
path.critical { stroke: #d9480f; stroke-width: 2.5; }
.back { stroke-dasharray: 4 3; }
.node rect { fill: #f8f9fa; stroke: #adb5bd; }
.node text { fill: #212529; stroke: none; }
.node .status { fill: #6c757d; font-size: 11px; }
.ready rect { stroke: #2b8a3e; }
.working rect { fill: #e7f5ff; stroke: #1c7ed6; }
.done rect { fill: #ebfbee; stroke: #8ce99a; }
.failed rect { fill: #fff5f5; stroke: #e03131; }
.node.critical rect { stroke-width: 2.5; }
@media (prefers-color-scheme: dark) {
.node rect { fill: #212529; }
.node text { fill: #f1f3f5; }
.node .status { fill: #adb5bd; }
.working rect { fill: #12263f; }
.done rect { fill: #12291a; }
.failed rect { fill: #2f1414; }
}
";

/// Returns a text as the label of a node in Mermaid, without the quotes around it.
pub(crate) fn mermaid_label(text: &str) -> String {
    text.replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;").replace(['\n', '\r'], " ")
}

/// Returns a text as a string of DOT.
pub(crate) fn dot_quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " "))
}

fn shortened(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    text.chars().take(max - 1).chain(['…']).collect()
}

fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            char if char.is_control() => out.push(' '),
            char => out.push(char),
        }
    }
    out
}

/// Stands for the symbol of a node in a row of lanes.
const NODE: char = '\u{1}';

/// A row of lanes: a node, or only connections.
struct LaneRow {
    node: Option<usize>,
    text: String,
}

/// The lanes of a text drawing. A lane leads down to the node that waits at its end; each node has at most one lane.
struct Lanes {
    /// The node at the end of each lane.
    lanes: Vec<Option<usize>>,
}

/// The directions in which a place of a row is connected.
const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

impl Lanes {
    /// Draws all nodes, each below those that it waits for.
    fn rows(graph: &Graph, layout: &Layout) -> Vec<LaneRow> {
        let order = graph.order();
        let mut place = vec![0; graph.nodes];
        order.iter().enumerate().for_each(|(number, node)| place[*node] = number);
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes];
        for edge in layout.edges.iter().filter(|edge| !edge.is_back) {
            after[edge.from].push(edge.to);
        }
        let mut lanes = Lanes { lanes: Vec::new() };
        let mut rows = Vec::new();
        for node in order {
            let mut next = std::mem::take(&mut after[node]);
            next.sort_by_key(|node| place[*node]);
            let column = lanes.of(node).unwrap_or_else(|| lanes.free(0));
            rows.push(LaneRow { node: Some(node), text: lanes.with_node(column) });
            lanes.lanes[column] = None;
            rows.extend(lanes.connect(column, &next).map(|text| LaneRow { node: None, text }));
        }
        rows
    }

    fn of(&self, node: usize) -> Option<usize> {
        self.lanes.iter().position(|lane| *lane == Some(node))
    }

    /// Returns the first free column from this one on.
    fn free(&mut self, from: usize) -> usize {
        let found = (from..self.lanes.len()).find(|column| self.lanes[*column].is_none());
        found.unwrap_or_else(|| {
            self.lanes.push(None);
            self.lanes.len() - 1
        })
    }

    fn with_node(&self, column: usize) -> String {
        let mark = |(number, lane): (usize, &Option<usize>)| match lane {
            _ if number == column => NODE,
            Some(_) => '│',
            None => ' ',
        };
        let marks: Vec<String> = self.lanes.iter().enumerate().map(|lane| mark(lane).to_string()).collect();
        marks.join(" ").trim_end().to_owned()
    }

    /// Leads lanes from a column to nodes. Returns the row that shows it, if one is needed.
    fn connect(&mut self, column: usize, nodes: &[usize]) -> Option<String> {
        let before: Vec<bool> = self.lanes.iter().map(Option::is_some).collect();
        let mut ends = Vec::new();
        let mut goes_on = false;
        for node in nodes {
            let end = match self.of(*node) {
                Some(end) => end,
                None if !goes_on => {
                    goes_on = true;
                    column
                }
                None => self.free(column + 1),
            };
            self.lanes[end] = Some(*node);
            if end != column {
                ends.push(end);
            }
        }
        while self.lanes.last() == Some(&None) {
            self.lanes.pop();
        }
        if ends.is_empty() {
            return None;
        }
        let mut places = vec![0_u8; before.len().max(self.lanes.len()).max(column + 1)];
        for (place, is_open) in places.iter_mut().zip(&before) {
            *place = if *is_open { UP | DOWN } else { 0 };
        }
        places[column] = UP | if goes_on { DOWN } else { 0 };
        for end in ends {
            let is_new = !before.get(end).copied().unwrap_or_default();
            if is_new {
                places[end] |= DOWN;
            }
            let (left, right) = (end.min(column), end.max(column));
            places[left] |= RIGHT;
            places[right] |= LEFT;
            for between in &mut places[left + 1..right] {
                *between |= LEFT | RIGHT;
            }
        }
        let mut row = String::new();
        for place in places {
            row.push(corner(place));
            row.push(if place & RIGHT == 0 { ' ' } else { '─' });
        }
        Some(row.trim_end().to_owned())
    }
}

/// Returns the character that connects these directions.
fn corner(directions: u8) -> char {
    const CORNERS: [char; 16] = [' ', '╵', '╷', '│', '╴', '┘', '┐', '┤', '╶', '└', '┌', '├', '─', '┴', '┬', '┼'];
    CORNERS[usize::from(directions & 15)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(nodes: usize, edges: &[(usize, usize)]) -> String {
        let graph = Graph { nodes, edges: edges.to_vec() };
        let rows = Lanes::rows(&graph, &graph.layout());
        let line = |row: &LaneRow| match row.node {
            Some(node) => row.text.replace(NODE, &node.to_string()),
            None => row.text.clone(),
        };
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn lanes_fork_and_join() {
        assert_eq!(lanes(3, &[(0, 1), (1, 2)]), "0\n1\n2");
        assert_eq!(lanes(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]), "0\n├─┐\n1 │\n│ 2\n├─┘\n3");
        assert_eq!(lanes(3, &[(0, 2), (1, 2)]), "0\n│ 1\n├─┘\n2");
        assert_eq!(lanes(2, &[]), "0\n1");
    }
}
