//! How issues depend on each other, drawn.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use waypost_core::Result;
use waypost_ledger::{Filter, Index, Sort, Summary};

use super::ui::Text;

/// How it is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Mermaid,
    Dot,
}

/// How much is drawn at most; `None` means all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The levels below the first one.
    pub(crate) depth: Option<usize>,
    /// The lines of a tree, or the issues of a graph.
    pub(crate) limit: Option<usize>,
}

/// Levels beyond this are numbered and not indented: the indentation of a long chain would be most of the output.
const MAX_INDENT_DEPTH: usize = 100;

/// As many dependencies are drawn in a graph for each of the issues that are allowed.
const MAX_EDGES_PER_ISSUE: usize = 10;

/// Issues and what connects them.
pub(crate) struct Graph {
    roots: Vec<String>,
    /// None for one that is in no ledger.
    nodes: BTreeMap<String, Option<Summary>>,
    /// From each issue to the next ones, and what they are to it.
    edges: BTreeMap<String, Vec<(&'static str, String)>>,
}

impl Graph {
    /// Follows the dependencies of one issue, or of all open ones.
    pub(crate) fn of(index: &Index, root: Option<String>, dependents: bool) -> Result<Graph> {
        let all: Vec<String> = match &root {
            Some(root) => vec![root.clone()],
            None => {
                index.list(&Filter::default(), Sort::Priority, false, None)?.into_iter().map(|one| one.id).collect()
            }
        };
        let mut graph = Graph { roots: Vec::new(), nodes: BTreeMap::new(), edges: BTreeMap::new() };
        let mut next = all.clone();
        while let Some(id) = next.pop() {
            if graph.nodes.contains_key(&id) {
                continue;
            }
            let summary = index.summary(&id)?;
            let edges =
                if dependents { dependents_of(index, &id, summary.as_ref())? } else { dependencies_of(index, &id)? };
            next.extend(edges.iter().map(|(_, other)| other.clone()));
            graph.nodes.insert(id.clone(), summary);
            graph.edges.insert(id, edges);
        }
        let reached: BTreeSet<&String> = graph.edges.values().flatten().map(|(_, other)| other).collect();
        graph.roots = match root {
            Some(root) => vec![root],
            None => all.iter().filter(|id| !reached.contains(id)).cloned().collect(),
        };
        // Those who only wait for each other in a circle have no first one.
        let mut shown = BTreeSet::new();
        graph.roots.iter().for_each(|root| graph.mark_reachable(root, &mut shown));
        for id in all {
            if !shown.contains(&id) {
                graph.mark_reachable(&id, &mut shown);
                graph.roots.push(id);
            }
        }
        Ok(graph)
    }

    fn mark_reachable(&self, id: &str, seen: &mut BTreeSet<String>) {
        let mut next = vec![id.to_owned()];
        while let Some(id) = next.pop() {
            if seen.insert(id.clone()) {
                next.extend(self.edges_of(&id).iter().map(|(_, other)| other.clone()));
            }
        }
    }

    fn edges_of(&self, id: &str) -> &[(&'static str, String)] {
        self.edges.get(id).map_or(&[], Vec::as_slice)
    }

    fn to_json(&self) -> Value {
        let node = |(id, summary): (&String, &Option<Summary>)| match summary {
            Some(one) => json!({ "id": id, "title": one.title, "status": one.status, "priority": one.priority }),
            None => json!({ "id": id, "title": null, "status": null, "priority": null }),
        };
        let edges: Vec<Value> = self
            .edges
            .iter()
            .flat_map(|(id, edges)| {
                edges.iter().map(move |(kind, other)| json!({ "from": id, "to": other, "type": kind }))
            })
            .collect();
        json!({ "roots": self.roots, "nodes": self.nodes.iter().map(node).collect::<Vec<_>>(), "edges": edges })
    }

    /// Draws it. Returns how many issues were left out.
    pub(crate) fn write(&self, text: &mut Text, format: Format, bounds: Bounds) -> usize {
        let shown = match format {
            Format::Text => self.write_tree(text, bounds),
            Format::Mermaid | Format::Dot => self.write_graph(text, format, bounds),
        };
        self.nodes.len() - shown
    }

    fn write_graph(&self, text: &mut Text, format: Format, bounds: Bounds) -> usize {
        let near = self.nearest(bounds);
        let edges = near.keys().flat_map(|id| self.edges_of(id).iter().map(|(kind, other)| (*id, *kind, other)));
        let edges = edges.filter(|(_, _, other)| near.contains_key(other.as_str()));
        let edges = edges.take(bounds.limit.map_or(usize::MAX, |limit| limit.saturating_mul(MAX_EDGES_PER_ISSUE)));
        if format == Format::Mermaid {
            text.line("graph TD");
            for (id, number) in &near {
                let label = self.label(id).replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;");
                text.line(format!("  n{number}[\"{label}\"]"));
            }
            for (id, kind, other) in edges {
                text.line(format!("  n{} -->|{kind}| n{}", near[id], near[other.as_str()]));
            }
        } else {
            let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            text.line("digraph issues {");
            for id in near.keys() {
                text.line(format!("  {} [label={}];", quoted(id), quoted(&self.label(id))));
            }
            for (id, kind, other) in edges {
                text.line(format!("  {} -> {} [label={}];", quoted(id), quoted(other), quoted(kind)));
            }
            text.line("}");
        }
        near.len()
    }

    /// Returns the issues that are nearest to the first ones, each with a number that every drawing program takes.
    fn nearest(&self, bounds: Bounds) -> BTreeMap<&str, usize> {
        let mut near: BTreeMap<&str, usize> = BTreeMap::new();
        let mut queue: VecDeque<(usize, &str)> = self.roots.iter().map(|root| (0, root.as_str())).collect();
        while let Some((depth, id)) = queue.pop_front() {
            if bounds.limit.is_some_and(|limit| near.len() >= limit) {
                break;
            }
            if near.insert(id, 0).is_none() && bounds.depth.is_none_or(|max| depth < max) {
                let others = self.edges_of(id).iter().map(|(_, other)| other.as_str());
                queue.extend(others.filter(|other| !near.contains_key(other)).map(|other| (depth + 1, other)));
            }
        }
        near.values_mut().enumerate().for_each(|(number, place)| *place = number);
        near
    }

    /// Draws each issue and what is below it; what is below an issue is drawn once. Deep chains must not fill the stack.
    /// Returns how many issues were drawn.
    fn write_tree(&self, text: &mut Text, bounds: Bounds) -> usize {
        let mut shown = BTreeSet::new();
        let mut opened = BTreeSet::new();
        let mut lines = 0;
        let mut next: Vec<Branch<'_>> = self.roots.iter().rev().map(|root| Branch::root(root)).collect();
        while let Some(branch) = next.pop() {
            if bounds.limit.is_some_and(|limit| lines >= limit) {
                break;
            }
            let edges = self.edges_of(branch.id);
            let is_cut = bounds.depth.is_some_and(|max| branch.depth >= max);
            let note = match edges.len() {
                0 => String::new(),
                _ if opened.contains(branch.id) => "  (see above)".to_owned(),
                count if is_cut => format!("  ({count} below, not shown)"),
                _ => {
                    opened.insert(branch.id);
                    String::new()
                }
            };
            text.line(format!("{}{}{note}", branch.label_prefix(), self.line(branch.id)));
            lines += 1;
            shown.insert(branch.id);
            if note.is_empty() {
                next.extend(branch.children(edges).rev());
            }
        }
        shown.len()
    }

    fn line(&self, id: &str) -> String {
        match self.nodes.get(id).and_then(Option::as_ref) {
            Some(one) => format!("{id}  P{} {}  {}", one.priority, one.status, one.title),
            None => format!("{id}  in no ledger"),
        }
    }

    fn label(&self, id: &str) -> String {
        match self.nodes.get(id).and_then(Option::as_ref) {
            Some(one) => format!("{id} {} ({})", one.title, one.status),
            None => format!("{id} (in no ledger)"),
        }
    }
}

/// For programs, and always whole.
impl Serialize for Graph {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

/// A line of a tree that is still to be drawn.
struct Branch<'a> {
    depth: usize,
    /// What stands prefix it.
    prefix: String,
    /// What stands prefix everything below it.
    child_prefix: String,
    kind: &'static str,
    id: &'a str,
}

impl<'a> Branch<'a> {
    fn root(id: &'a str) -> Self {
        Branch { depth: 0, prefix: String::new(), child_prefix: String::new(), kind: "", id }
    }

    /// Returns the lines below this one.
    fn children(self, edges: &'a [(&'static str, String)]) -> impl DoubleEndedIterator<Item = Branch<'a>> {
        let depth = self.depth + 1;
        edges.iter().enumerate().map(move |(number, (kind, id))| {
            if depth > MAX_INDENT_DEPTH {
                return Branch { depth, prefix: format!("[level {depth}] "), child_prefix: String::new(), kind, id };
            }
            let (corner, line) = if number + 1 == edges.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let (prefix, child_prefix) =
                (format!("{}{corner}", self.child_prefix), format!("{}{line}", self.child_prefix));
            Branch { depth, prefix, child_prefix, kind, id }
        })
    }

    /// Returns what stands prefix the issue, and what it is to the one above.
    fn label_prefix(&self) -> String {
        let space = if self.kind.is_empty() { "" } else { " " };
        format!("{}{}{space}", self.prefix, self.kind)
    }
}

/// What an issue waits for and consists of.
fn dependencies_of(index: &Index, id: &str) -> Result<Vec<(&'static str, String)>> {
    let blockers = index.dependencies(id)?.into_iter().filter(|(_, kind)| kind == "blocks");
    let mut edges: Vec<_> = blockers.map(|(other, _)| ("waits for", other)).collect();
    edges.extend(index.parts(id)?.into_iter().map(|part| ("consists of", part)));
    Ok(edges)
}

/// What waits for an issue, and what it is a part of.
fn dependents_of(index: &Index, id: &str, summary: Option<&Summary>) -> Result<Vec<(&'static str, String)>> {
    let waiting = index.dependents(id)?.into_iter().filter(|(_, kind)| kind == "blocks");
    let mut edges: Vec<_> = waiting.map(|(other, _)| ("blocks", other)).collect();
    edges.extend(summary.and_then(|one| one.parent_id.clone()).map(|parent| ("part of", parent)));
    Ok(edges)
}
