//! Draws the dependencies between issues as a tree or a graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use waypost_core::Result;
use waypost_core::ledger::vocabulary::Pruned;
use waypost_ledger::{Filter, Index, Sort, Summary};

use super::draw::{dot_quoted, mermaid_label};
use super::ui::Text;

/// The output format of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Mermaid,
    Dot,
}

/// Limits of a drawing; `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Maximum number of levels below the roots.
    pub(crate) depth: Option<usize>,
    /// Maximum number of lines of a tree, or of issues of a graph.
    pub(crate) limit: Option<usize>,
}

/// Deeper levels are numbered instead of indented: the indentation of a long chain would be most of the output.
const MAX_INDENT_DEPTH: usize = 100;

/// Maximum number of edges of a graph, per issue of its limit.
const MAX_EDGES_PER_ISSUE: usize = 10;

/// Issues and their dependencies.
pub(crate) struct Graph {
    roots: Vec<String>,
    /// None for an issue that is in no ledger.
    nodes: BTreeMap<String, Option<Summary>>,
    /// The neighbours of each issue, with the kind of relation.
    edges: BTreeMap<String, Vec<(&'static str, String)>>,
    pruned: Pruned,
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
        let mut graph = Graph {
            roots: Vec::new(),
            nodes: BTreeMap::new(),
            edges: BTreeMap::new(),
            pruned: index.terms().pruned.clone(),
        };
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
        // Every issue of a cycle depends on another, so a cycle has no root: pick one of its issues.
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
            None => json!({ "id": id, "title": null, "status": self.status(id), "priority": null }),
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

    /// Draws the graph. Returns the number of omitted issues.
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
                let label = mermaid_label(&self.label(id));
                text.line(format!("  n{number}[\"{label}\"]"));
            }
            for (id, kind, other) in edges {
                text.line(format!("  n{} -->|{kind}| n{}", near[id], near[other.as_str()]));
            }
        } else {
            text.line("digraph issues {");
            for id in near.keys() {
                text.line(format!("  {} [label={}];", dot_quoted(id), dot_quoted(&self.label(id))));
            }
            for (id, kind, other) in edges {
                text.line(format!("  {} -> {} [label={}];", dot_quoted(id), dot_quoted(other), dot_quoted(kind)));
            }
            text.line("}");
        }
        near.len()
    }

    /// Returns the issues nearest to the roots, each with a number that every drawing program accepts as a name.
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

    /// Draws each issue and its children; the children of an issue are drawn once. Iterative, because recursion over a
    /// deep chain would overflow the stack. Returns the number of issues drawn.
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
            None => format!("{id}  {}", self.absence(id)),
        }
    }

    fn label(&self, id: &str) -> String {
        match self.nodes.get(id).and_then(Option::as_ref) {
            Some(one) => format!("{id} {} ({})", one.title, one.status),
            None => format!("{id} ({})", self.absence(id)),
        }
    }

    /// The status of an issue that is in no ledger.
    fn status(&self, id: &str) -> Option<&'static str> {
        self.pruned.category(id).map(|_| "closed")
    }

    fn absence(&self, id: &str) -> &'static str {
        self.pruned.category(id).map_or("in no ledger", |_| "closed and pruned")
    }
}

/// The JSON form is never truncated.
impl Serialize for Graph {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

/// A pending line of a tree.
struct Branch<'a> {
    depth: usize,
    /// The lines and corners before the issue.
    prefix: String,
    /// The lines and spaces before each of its children.
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

    /// Returns the text before the issue: the lines of the tree, and the relation to its parent.
    fn label_prefix(&self) -> String {
        let space = if self.kind.is_empty() { "" } else { " " };
        format!("{}{}{space}", self.prefix, self.kind)
    }
}

/// Returns the blockers and the children of an issue.
fn dependencies_of(index: &Index, id: &str) -> Result<Vec<(&'static str, String)>> {
    let blockers = index.dependencies(id)?.into_iter().filter(|(_, kind)| kind == "blocks");
    let mut edges: Vec<_> = blockers.map(|(other, _)| ("waits for", other)).collect();
    edges.extend(index.parts(id)?.into_iter().map(|part| ("consists of", part)));
    Ok(edges)
}

/// Returns the issues that an issue blocks, and its parent.
fn dependents_of(index: &Index, id: &str, summary: Option<&Summary>) -> Result<Vec<(&'static str, String)>> {
    let waiting = index.dependents(id)?.into_iter().filter(|(_, kind)| kind == "blocks");
    let mut edges: Vec<_> = waiting.map(|(other, _)| ("blocks", other)).collect();
    edges.extend(summary.and_then(|one| one.parent_id.clone()).map(|parent| ("part of", parent)));
    Ok(edges)
}
