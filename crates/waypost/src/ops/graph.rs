//! The dependencies of a workflow or an issue, laid out: commands and the dashboard draw the same picture.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_core::layout::{Graph, Layout, Place};
use waypost_core::ledger::vocabulary::{Category, DependencyKind};
use waypost_core::model::TaskStatus;
use waypost_core::op::{Effect, Operation, ShowWorkflow, WorkflowPage};
use waypost_core::work::plan::MAX_TASKS;
use waypost_core::work::view::TaskView;
use waypost_core::{Error, Kind, Result};
use waypost_ledger::Index;

use super::issue::IssueContext;
use crate::app::operation::{AppContext, AppEntry, AppOperation};
use crate::app::session::Session;

/// All operations on graphs.
pub(crate) static TABLE: &[AppEntry] = &[AppEntry::of::<ShowGraph>()];

/// Maximum number of nodes of a graph: the number of tasks that a plan may have.
const MAX_NODES: usize = MAX_TASKS;

/// Shows the dependencies of a workflow or an issue, laid out in layers, with the critical path.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShowGraph {
    /// Workflow: an id or a name; or an issue: an id or a unique prefix of it.
    pub subject: String,
    /// Repository whose ledger to use for an issue: the id or name of a configured one, or a path except over HTTP.
    #[serde(default)]
    pub repo: Option<String>,
}

/// A graph of dependencies with its layout. The places depend on the plan alone: a change of status moves nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DependencyGraph {
    /// The nodes.
    pub nodes: Vec<GraphNode>,
    /// The edges.
    pub edges: Vec<GraphEdge>,
    /// The ids on the critical path: the longest chain of what is left to do.
    pub critical_path: Vec<String>,
    /// Number of layers.
    pub layers: usize,
    /// Number of rows of the fullest layer.
    pub rows: usize,
}

/// How far the work on a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// It waits for other nodes, or for a person.
    Waiting,
    /// It can be started.
    Ready,
    /// Work goes on.
    Working,
    /// It is done.
    Done,
    /// It failed or was cancelled.
    Failed,
}

/// A task or an issue in a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphNode {
    /// Its id.
    pub id: String,
    /// Its name or title.
    pub name: String,
    /// Its status in words.
    pub status: String,
    /// How far the work on it is.
    pub state: NodeState,
    /// Its layer, counted from the nodes that wait for none.
    pub layer: usize,
    /// Its row in the layer.
    pub row: usize,
    /// Whether it is on the critical path.
    pub is_critical: bool,
}

/// A dependency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphEdge {
    /// The id of the node that comes first.
    pub from: String,
    /// The id of the node that waits for it.
    pub to: String,
    /// The layers and rows between both through which it is drawn, in order.
    pub bends: Vec<(usize, usize)>,
    /// Whether it closes a cycle, and leads backwards.
    pub is_back: bool,
    /// Whether it is on the critical path.
    pub is_critical: bool,
}

impl Operation for ShowGraph {
    const NAME: &'static str = "show_graph";
    const SUMMARY: &'static str = "Show the dependencies of a workflow or an issue";
    const EFFECT: Effect = Effect::Read;
    type Answer = DependencyGraph;
}

impl AppOperation for ShowGraph {
    fn run(self, cx: &mut AppContext<'_>) -> Result<DependencyGraph> {
        if !cx.place.is_without_store()
            && let Some(graph) = graph_of_workflow(cx.session()?, &self.subject)?
        {
            return Ok(graph);
        }
        let issues = IssueContext::open(cx.take_session(), self.repo.as_deref(), &[])?;
        let graph = graph_of_issue(&issues, &self.subject);
        cx.warnings.extend(issues.session.warnings().take());
        graph
    }
}

/// Returns the graph of a workflow, if there is one with this id or name.
pub fn graph_of_workflow(session: &mut Session, subject: &str) -> Result<Option<DependencyGraph>> {
    match session.call(ShowWorkflow { workflow: subject.to_owned() }) {
        Ok(page) => Ok(Some(laid_out_workflow(&page))),
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn laid_out_workflow(page: &WorkflowPage) -> DependencyGraph {
    let number: BTreeMap<&str, usize> =
        page.tasks.iter().enumerate().map(|(number, view)| (view.task.name.as_str(), number)).collect();
    let edges = page.tasks.iter().enumerate().flat_map(|(to, view)| {
        let before = view.depends_on.iter().filter_map(|name| number.get(name.as_str()));
        before.map(move |from| (*from, to)).collect::<Vec<_>>()
    });
    let edges = edges.collect();
    let node = |view: &TaskView| {
        let task = &view.task;
        let state = match task.status {
            status if status.satisfies() => NodeState::Done,
            TaskStatus::Dead | TaskStatus::Cancelled => NodeState::Failed,
            _ if view.holder.is_some() => NodeState::Working,
            _ if view.is_claimable => NodeState::Ready,
            _ => NodeState::Waiting,
        };
        let status = match &view.holder {
            Some(holder) => format!("{} by {holder}", task.status),
            None => task.status.to_string(),
        };
        GraphNode::new(task.id.to_string(), task.name.clone(), status, state)
    };
    DependencyGraph::new(page.tasks.iter().map(node).collect(), edges)
}

/// Returns the graph of an issue, and of everything that it waits for or consists of.
pub fn graph_of_issue(issues: &IssueContext, subject: &str) -> Result<DependencyGraph> {
    issues.with_index(|index| {
        let not_found = |error: waypost_core::Error| match error.kind() {
            Kind::NotFound => error.hint("way workflow list shows the workflows"),
            _ => error,
        };
        let mut ids = vec![index.find(subject).map_err(not_found)?];
        let mut number: BTreeMap<String, usize> = BTreeMap::from([(ids[0].clone(), 0)]);
        let mut edges = Vec::new();
        let mut at = 0;
        while at < ids.len() {
            for before in waits_for(index, &ids[at])? {
                let next = ids.len();
                let from = *number.entry(before.clone()).or_insert(next);
                if from == next {
                    ids.push(before);
                }
                if ids.len() > MAX_NODES {
                    let message =
                        format!("{subject} waits for more than {MAX_NODES} issues, and a graph shows at most these");
                    return Err(Error::invalid(message).hint("name one of the issues that it waits for"));
                }
                edges.push((from, at));
            }
            at += 1;
        }
        let ready: BTreeSet<String> = index.ready(issues.now, None)?.into_iter().map(|issue| issue.id).collect();
        let statuses = &index.terms().statuses;
        let node = |id: &String| -> Result<GraphNode> {
            let Some(issue) = index.summary(id)? else {
                let (status, state) = match index.terms().pruned.category(id) {
                    Some(_) => ("closed and pruned", NodeState::Done),
                    None => ("in no ledger", NodeState::Waiting),
                };
                return Ok(GraphNode::new(id.clone(), id.clone(), status.to_owned(), state));
            };
            let state = match statuses.category(&issue.status) {
                category if category.is_over() => NodeState::Done,
                Category::Wip => NodeState::Working,
                _ if ready.contains(id) => NodeState::Ready,
                _ => NodeState::Waiting,
            };
            Ok(GraphNode::new(id.clone(), format!("{id} {}", issue.title), issue.status, state))
        };
        Ok(DependencyGraph::new(ids.iter().map(node).collect::<Result<_>>()?, edges))
    })
}

/// Returns the issues that must be done before an issue: its blockers and its parts.
fn waits_for(index: &Index, id: &str) -> Result<Vec<String>> {
    let blockers = index.dependencies(id)?.into_iter().filter(|(_, kind)| kind == DependencyKind::Blocks.as_str());
    Ok(blockers.map(|(other, _)| other).chain(index.parts(id)?).collect())
}

impl GraphNode {
    /// Makes a node, whose place and part in the critical path a [`DependencyGraph`] decides.
    fn new(id: String, name: String, status: String, state: NodeState) -> GraphNode {
        GraphNode { id, name, status, state, layer: 0, row: 0, is_critical: false }
    }
}

impl DependencyGraph {
    /// Lays out nodes. An edge leads from a node to one that waits for it.
    fn new(mut nodes: Vec<GraphNode>, edges: Vec<(usize, usize)>) -> DependencyGraph {
        let graph = Graph { nodes: nodes.len(), edges };
        let Layout { nodes: places, edges, layers, rows } = graph.layout();
        let left: Vec<u64> = nodes.iter().map(|node| u64::from(node.state != NodeState::Done)).collect();
        let path = graph.critical_path(&left);
        for (node, place) in nodes.iter_mut().zip(&places) {
            (node.layer, node.row) = (place.layer, place.row);
        }
        for number in &path {
            nodes[*number].is_critical = true;
        }
        let steps: BTreeSet<(usize, usize)> = path.windows(2).map(|step| (step[0], step[1])).collect();
        let id = |number: usize| nodes[number].id.clone();
        let edge = |edge: &waypost_core::layout::Edge| GraphEdge {
            from: id(edge.from),
            to: id(edge.to),
            bends: edge.bends.iter().map(|bend| (bend.layer, bend.row)).collect(),
            is_back: edge.is_back,
            is_critical: steps.contains(&(edge.from, edge.to)),
        };
        let edges = edges.iter().map(edge).collect();
        let critical_path = path.iter().map(|number| id(*number)).collect();
        DependencyGraph { nodes, edges, critical_path, layers, rows }
    }

    /// Returns the graph and its layout, with nodes as numbers in the order of [`DependencyGraph::nodes`].
    pub fn numbered(&self) -> (Graph, Layout) {
        let number: BTreeMap<&str, usize> =
            self.nodes.iter().enumerate().map(|(number, node)| (node.id.as_str(), number)).collect();
        let of = |id: &str| number.get(id).copied().unwrap_or_default();
        let edges = self.edges.iter().map(|edge| waypost_core::layout::Edge {
            from: of(&edge.from),
            to: of(&edge.to),
            bends: edge.bends.iter().map(|(layer, row)| Place { layer: *layer, row: *row }).collect(),
            is_back: edge.is_back,
        });
        let edges: Vec<_> = edges.collect();
        let graph = Graph { nodes: self.nodes.len(), edges: edges.iter().map(|edge| (edge.from, edge.to)).collect() };
        let nodes = self.nodes.iter().map(|node| Place { layer: node.layer, row: node.row }).collect();
        (graph, Layout { nodes, edges, layers: self.layers, rows: self.rows })
    }
}
