//! How issues depend on each other, drawn.

use std::collections::{BTreeMap, BTreeSet};

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
            let edges = if dependents { above(index, &id, summary.as_ref())? } else { below(index, &id)? };
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
        graph.roots.iter().for_each(|root| graph.mark(root, &mut shown));
        for id in all {
            if !shown.contains(&id) {
                graph.mark(&id, &mut shown);
                graph.roots.push(id);
            }
        }
        Ok(graph)
    }

    fn mark(&self, id: &str, seen: &mut BTreeSet<String>) {
        let mut next = vec![id.to_owned()];
        while let Some(id) = next.pop() {
            next.extend(
                self.edges_of(&id).iter().filter(|(_, other)| !seen.contains(other)).map(|(_, other)| other.clone()),
            );
            seen.insert(id);
        }
    }

    fn edges_of(&self, id: &str) -> &[(&'static str, String)] {
        self.edges.get(id).map_or(&[], Vec::as_slice)
    }

    /// Returns it for programs.
    pub(crate) fn to_json(&self) -> Value {
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

    /// Draws it.
    pub(crate) fn write(&self, text: &mut Text, format: Format) {
        match format {
            Format::Text => {
                let mut shown = BTreeSet::new();
                self.roots.iter().for_each(|root| self.branch(text, root, &mut shown));
            }
            Format::Mermaid => {
                text.line("graph TD");
                for (id, label) in self.labels() {
                    let label = label.replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;");
                    text.line(format!("  {}[\"{label}\"]", self.key(id)));
                }
                for (id, kind, other) in self.all_edges() {
                    text.line(format!("  {} -->|{kind}| {}", self.key(id), self.key(other)));
                }
            }
            Format::Dot => {
                let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
                text.line("digraph issues {");
                for (id, label) in self.labels() {
                    text.line(format!("  {} [label={}];", quoted(id), quoted(&label)));
                }
                for (id, kind, other) in self.all_edges() {
                    text.line(format!("  {} -> {} [label={}];", quoted(id), quoted(other), quoted(kind)));
                }
                text.line("}");
            }
        }
    }

    /// Draws one issue and what is below it. Deep chains must not fill the stack.
    fn branch(&self, text: &mut Text, root: &str, shown: &mut BTreeSet<String>) {
        let mut next = vec![(String::new(), String::new(), "", root.to_owned())];
        while let Some((before, beneath, kind, id)) = next.pop() {
            let is_new = shown.insert(id.clone());
            let relation = if kind.is_empty() { String::new() } else { format!("{kind} ") };
            let edges = self.edges_of(&id);
            let again = if is_new || edges.is_empty() { "" } else { "  (see above)" };
            text.line(format!("{before}{relation}{}{again}", self.line(&id)));
            if !is_new {
                continue;
            }
            for (number, (kind, other)) in edges.iter().enumerate().rev() {
                let (corner, below) = if number + 1 == edges.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
                next.push((format!("{beneath}{corner}"), format!("{beneath}{below}"), kind, other.clone()));
            }
        }
    }

    fn line(&self, id: &str) -> String {
        match self.nodes.get(id).and_then(Option::as_ref) {
            Some(one) => format!("{id}  P{} {}  {}", one.priority, one.status, one.title),
            None => format!("{id}  in no ledger"),
        }
    }

    fn labels(&self) -> impl Iterator<Item = (&str, String)> {
        self.nodes.iter().map(|(id, summary)| match summary {
            Some(one) => (id.as_str(), format!("{id} {} ({})", one.title, one.status)),
            None => (id.as_str(), format!("{id} (in no ledger)")),
        })
    }

    fn all_edges(&self) -> impl Iterator<Item = (&str, &'static str, &str)> {
        self.edges.iter().flat_map(|(id, edges)| edges.iter().map(|(kind, other)| (id.as_str(), *kind, other.as_str())))
    }

    /// A name that every drawing program takes.
    fn key(&self, id: &str) -> String {
        format!("n{}", self.nodes.range(..id.to_owned()).count())
    }
}

/// What an issue waits for and consists of.
fn below(index: &Index, id: &str) -> Result<Vec<(&'static str, String)>> {
    let blockers = index.dependencies(id)?.into_iter().filter(|(_, kind)| kind == "blocks");
    let mut edges: Vec<_> = blockers.map(|(other, _)| ("waits for", other)).collect();
    edges.extend(index.parts(id)?.into_iter().map(|part| ("consists of", part)));
    Ok(edges)
}

/// What waits for an issue, and what it is a part of.
fn above(index: &Index, id: &str, summary: Option<&Summary>) -> Result<Vec<(&'static str, String)>> {
    let waiting = index.dependents(id)?.into_iter().filter(|(_, kind)| kind == "blocks");
    let mut edges: Vec<_> = waiting.map(|(other, _)| ("blocks", other)).collect();
    edges.extend(summary.and_then(|one| one.parent_id.clone()).map(|parent| ("part of", parent)));
    Ok(edges)
}
