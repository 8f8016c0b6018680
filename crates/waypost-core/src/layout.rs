//! Lays out a graph of dependencies in layers, and finds its critical path.
//!
//! The result depends on the nodes and edges alone, so a drawing stays as it is while work goes on.

use std::collections::BTreeMap;

/// Sweeps over the layers that reduce crossings. More of them hardly change anything.
const SWEEPS: usize = 6;

/// Maximum number of bends. In a graph with many long edges, the others are straight: their bends would be most of the memory
/// and time, and no drawing could show them.
const MAX_BENDS: usize = 100_000;

/// A graph to lay out. Nodes are numbers from 0; an edge leads from a node to one that waits for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Number of nodes.
    pub nodes: usize,
    /// The edges. Those to unknown nodes, from a node to itself, and repeated ones are left out.
    pub edges: Vec<(usize, usize)>,
}

/// Where the parts of a graph are drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The place of each node.
    pub nodes: Vec<Place>,
    /// The edges with the places between their ends, one for each layer that they cross, unless there are too many.
    pub edges: Vec<Edge>,
    /// Number of layers.
    pub layers: usize,
    /// Number of rows of the fullest layer.
    pub rows: usize,
}

/// A place: its layer counts from the nodes that wait for none, its row from the top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The layer.
    pub layer: usize,
    /// The row in the layer.
    pub row: usize,
}

/// An edge as it is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The node that comes first.
    pub from: usize,
    /// The node that waits for it.
    pub to: usize,
    /// The places between both, in order.
    pub bends: Vec<Place>,
    /// Whether it closes a cycle, and leads backwards.
    pub is_back: bool,
}

impl Graph {
    /// Lays the graph out: each node in the layer after the last one that it waits for.
    pub fn layout(&self) -> Layout {
        let edges = self.known_edges();
        let forward = Forward::of(self.nodes, &edges);
        let layer = forward.layers();
        let mut rows = Rows::new(self.nodes, &layer, &forward);
        for _ in 0..SWEEPS {
            rows.sweep(true);
            rows.sweep(false);
        }
        let place = |point: usize| Place { layer: rows.layer[point], row: rows.row[point] };
        let drawn = |(number, (from, to)): (usize, &(usize, usize))| Edge {
            from: *from,
            to: *to,
            bends: rows.bends.get(&number).into_iter().flatten().map(|point| place(*point)).collect(),
            is_back: forward.is_back[number],
        };
        Layout {
            nodes: (0..self.nodes).map(place).collect(),
            edges: edges.iter().enumerate().map(drawn).collect(),
            layers: rows.layers.len(),
            rows: rows.layers.iter().map(Vec::len).max().unwrap_or_default(),
        }
    }

    /// Returns the chain of nodes with the greatest sum of weights, in order. Of equal ones, the one with the smallest
    /// numbers. Nodes without weight at its ends are left out.
    pub fn critical_path(&self, weight: &[u64]) -> Vec<usize> {
        let edges = self.known_edges();
        let forward = Forward::of(self.nodes, &edges);
        let weight = |node: usize| weight.get(node).copied().unwrap_or_default();
        // For each node: the greatest sum of a chain that begins there, and its next node.
        let mut best: Vec<(u64, Option<usize>)> = vec![(0, None); self.nodes];
        for node in forward.order.iter().rev() {
            let mut next: Option<usize> = None;
            for after in &forward.after[*node] {
                if best[*after].0 > next.map_or(0, |next| best[next].0) {
                    next = Some(*after);
                }
            }
            best[*node] = (weight(*node) + next.map_or(0, |next| best[next].0), next);
        }
        let greatest = best.iter().map(|(sum, _)| *sum).max().unwrap_or_default();
        let is_start = |node: &usize| best[*node].0 == greatest && weight(*node) > 0;
        let start = (0..self.nodes).find(is_start);
        let mut path: Vec<usize> = std::iter::successors(start, |node| best[*node].1).collect();
        while path.last().is_some_and(|last| weight(*last) == 0) {
            path.pop();
        }
        path
    }

    /// Returns the nodes in an order in which each comes after those that it waits for, as far as there is no cycle.
    pub fn order(&self) -> Vec<usize> {
        Forward::of(self.nodes, &self.known_edges()).order
    }

    fn known_edges(&self) -> Vec<(usize, usize)> {
        let mut edges = self.edges.clone();
        edges.retain(|(from, to)| from != to && *from < self.nodes && *to < self.nodes);
        edges.sort_unstable();
        edges.dedup();
        edges
    }
}

/// The graph without the edges that close cycles.
struct Forward {
    /// The nodes that wait for each node.
    after: Vec<Vec<usize>>,
    /// All nodes, each after those that it waits for.
    order: Vec<usize>,
    /// By the number of an edge: whether it was left out.
    is_back: Vec<bool>,
}

impl Forward {
    fn of(nodes: usize, edges: &[(usize, usize)]) -> Forward {
        let mut all_after: Vec<Vec<(usize, usize)>> = vec![Vec::new(); nodes];
        for (number, (from, to)) in edges.iter().enumerate() {
            all_after[*from].push((*to, number));
        }
        let is_back = back_edges(&all_after, edges.len());
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); nodes];
        let mut waits_for = vec![0_usize; nodes];
        for (_, (from, to)) in edges.iter().enumerate().filter(|(number, _)| !is_back[*number]) {
            after[*from].push(*to);
            waits_for[*to] += 1;
        }
        // The free node with the smallest number comes next, so that the order is that of the nodes where it may be.
        let mut free: std::collections::BTreeSet<usize> = (0..nodes).filter(|node| waits_for[*node] == 0).collect();
        let mut order = Vec::with_capacity(nodes);
        while let Some(node) = free.pop_first() {
            order.push(node);
            for next in &after[node] {
                waits_for[*next] -= 1;
                if waits_for[*next] == 0 {
                    free.insert(*next);
                }
            }
        }
        Forward { after, order, is_back }
    }

    /// Returns the layer of each node.
    fn layers(&self) -> Vec<usize> {
        let mut layer = vec![0; self.after.len()];
        for node in &self.order {
            for next in &self.after[*node] {
                layer[*next] = layer[*next].max(layer[*node] + 1);
            }
        }
        layer
    }
}

/// Finds the edges that close a cycle, in a search that begins at the nodes in their order.
fn back_edges(after: &[Vec<(usize, usize)>], edges: usize) -> Vec<bool> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut is_back = vec![false; edges];
    let mut state = vec![State::New; after.len()];
    for root in 0..after.len() {
        if state[root] != State::New {
            continue;
        }
        // The nodes on the way, each with the number of its next edge. A chain may be too long for recursion.
        let mut way = vec![(root, 0)];
        state[root] = State::Open;
        while let Some((node, next)) = way.last_mut() {
            let Some((to, number)) = after[*node].get(*next) else {
                state[*node] = State::Done;
                way.pop();
                continue;
            };
            *next += 1;
            match state[*to] {
                State::Open => is_back[*number] = true,
                State::New => {
                    state[*to] = State::Open;
                    way.push((*to, 0));
                }
                State::Done => {}
            }
        }
    }
    is_back
}

/// The order of nodes and bends in each layer.
struct Rows {
    /// The points of each layer, from the top: nodes, and behind their numbers the bends of edges.
    layers: Vec<Vec<usize>>,
    layer: Vec<usize>,
    row: Vec<usize>,
    /// The neighbours of each point in the layer before and in the one after.
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
    /// The points between the ends of an edge, by its number.
    bends: BTreeMap<usize, Vec<usize>>,
    /// Number of bends that may still be made.
    left_bends: usize,
}

impl Rows {
    fn new(nodes: usize, layer: &[usize], forward: &Forward) -> Rows {
        let count = layer.iter().max().map_or(0, |last| last + 1);
        let mut rows = Rows {
            layers: vec![Vec::new(); if nodes == 0 { 0 } else { count }],
            layer: layer.to_vec(),
            row: vec![0; nodes],
            before: vec![Vec::new(); nodes],
            after: vec![Vec::new(); nodes],
            bends: BTreeMap::new(),
            left_bends: MAX_BENDS,
        };
        for (node, layer) in layer.iter().enumerate() {
            rows.layers[*layer].push(node);
        }
        let mut number = 0;
        for from in 0..nodes {
            // In the order of the edges, which are sorted.
            for to in &forward.after[from] {
                while forward.is_back.get(number) == Some(&true) {
                    number += 1;
                }
                rows.connect(number, from, *to);
                number += 1;
            }
        }
        rows.number();
        rows
    }

    /// Connects two nodes, with a bend in each layer between them.
    fn connect(&mut self, number: usize, from: usize, to: usize) {
        let mut last = from;
        let between = self.layer[from] + 1..self.layer[to];
        self.left_bends = self.left_bends.saturating_sub(between.len());
        for layer in between.take_while(|_| self.left_bends > 0) {
            let bend = self.layer.len();
            self.layer.push(layer);
            self.row.push(0);
            self.before.push(vec![last]);
            self.after.push(Vec::new());
            self.after[last].push(bend);
            self.layers[layer].push(bend);
            self.bends.entry(number).or_default().push(bend);
            last = bend;
        }
        self.after[last].push(to);
        self.before[to].push(last);
    }

    fn number(&mut self) {
        for points in &self.layers {
            for (row, point) in points.iter().enumerate() {
                self.row[*point] = row;
            }
        }
    }

    /// Orders each layer by the mean row of its neighbours in the layer that was ordered before it.
    fn sweep(&mut self, is_down: bool) {
        let count = self.layers.len();
        for step in 1..count {
            let layer = if is_down { step } else { count - 1 - step };
            let mut points = std::mem::take(&mut self.layers[layer]);
            let neighbours = if is_down { &self.before } else { &self.after };
            // Twice the mean, in whole numbers: the same on every machine. A point without neighbours stays.
            let wanted = |point: &usize| {
                let near = &neighbours[*point];
                let sum: usize = near.iter().map(|near| self.row[*near]).sum();
                if near.is_empty() { self.row[*point] * 1024 } else { sum * 1024 / near.len() }
            };
            points.sort_by_cached_key(|point| (wanted(point), self.row[*point]));
            for (row, point) in points.iter().enumerate() {
                self.row[*point] = row;
            }
            self.layers[layer] = points;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn graph(nodes: usize, edges: &[(usize, usize)]) -> Graph {
        Graph { nodes, edges: edges.to_vec() }
    }

    #[test]
    fn a_node_is_in_the_layer_after_the_last_one_it_waits_for() {
        let layout = graph(4, &[(0, 1), (1, 2), (0, 2), (0, 3)]).layout();
        let layers: Vec<usize> = layout.nodes.iter().map(|place| place.layer).collect();
        assert_eq!((layers, layout.layers), (vec![0, 1, 2, 1], 3));
        let long = layout.edges.iter().find(|edge| (edge.from, edge.to) == (0, 2)).unwrap();
        assert_eq!(long.bends.len(), 1, "it crosses one layer");
        assert_eq!(layout.rows, 3);
    }

    #[test]
    fn a_cycle_is_drawn_with_one_edge_that_leads_backwards() {
        let layout = graph(3, &[(0, 1), (1, 2), (2, 0)]).layout();
        assert_eq!(layout.edges.iter().filter(|edge| edge.is_back).count(), 1);
        assert_eq!(layout.layers, 3);
    }

    #[test]
    fn a_graph_with_many_long_edges_is_laid_out_soon() {
        let nodes = 2_000;
        let edges: Vec<(usize, usize)> = (0..20_000).map(|number| (number / 100, nodes - 1 - number % 100)).collect();
        let chain = (1..nodes).map(|node| (node - 1, node));
        let layout = graph(nodes, &edges.into_iter().chain(chain).collect::<Vec<_>>()).layout();
        assert_eq!(layout.layers, nodes);
        let bends: usize = layout.edges.iter().map(|edge| edge.bends.len()).sum();
        assert!(bends > 0 && bends <= MAX_BENDS, "{bends}");
    }

    #[test]
    fn edges_that_can_be_straight_do_not_cross() {
        // Two chains, numbered so that the order of the numbers would cross them.
        let layout = graph(4, &[(0, 3), (1, 2)]).layout();
        assert_eq!(layout.nodes[0].row, layout.nodes[3].row);
        assert_eq!(layout.nodes[1].row, layout.nodes[2].row);
    }

    #[test]
    fn the_critical_path_is_the_heaviest_chain_of_what_is_left() {
        let graph = graph(5, &[(0, 1), (1, 4), (0, 2), (2, 3), (3, 4)]);
        assert_eq!(graph.critical_path(&[1; 5]), [0, 2, 3, 4]);
        assert_eq!(graph.critical_path(&[0, 1, 0, 0, 1]), [1, 4], "what is done does not count");
        assert_eq!(graph.critical_path(&[1, 9, 1, 1, 1]), [0, 1, 4]);
        assert!(graph.critical_path(&[0; 5]).is_empty());
    }

    proptest! {
        #[test]
        fn every_graph_has_a_layout_in_which_no_two_points_share_a_place(
            nodes in 0_usize..30,
            edges in prop::collection::vec((0_usize..32, 0_usize..32), 0..80),
        ) {
            let graph = Graph { nodes, edges };
            let layout = graph.layout();
            prop_assert_eq!(&layout, &graph.layout());
            let bends = layout.edges.iter().flat_map(|edge| edge.bends.iter().copied());
            let mut places: Vec<Place> = layout.nodes.iter().copied().chain(bends).collect();
            let count = places.len();
            places.sort();
            places.dedup();
            prop_assert_eq!(places.len(), count);
            for edge in layout.edges.iter().filter(|edge| !edge.is_back) {
                prop_assert!(layout.nodes[edge.from].layer < layout.nodes[edge.to].layer);
                let between = layout.nodes[edge.to].layer - layout.nodes[edge.from].layer - 1;
                prop_assert_eq!(edge.bends.len(), between);
            }
            let mut order = graph.order();
            order.sort_unstable();
            prop_assert_eq!(order, (0..nodes).collect::<Vec<_>>());
        }
    }
}
