//! Where gates go inside a graph, which is one command to its queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::spacing::is_time;

/// A node of a graph: a kernel, a copy, or whatever else takes time on the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphNode {
    /// Nanoseconds of device time that it will take, if that is known.
    pub expected_ns: Option<u64>,
    /// The numbers of the nodes that it directly depends on.
    pub after: Vec<usize>,
}

/// Why gates cannot be placed in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A node depends on one that is not there.
    #[error("node {node} depends on node {after}, and there are only {nodes}; correct the edges")]
    NoSuchNode {
        /// The node.
        node: usize,
        /// The node that it depends on.
        after: usize,
        /// Nodes there are.
        nodes: usize,
    },
    /// Nodes depend on each other.
    #[error("the edges make a circle, which node {node} is part of or depends on; remove one")]
    Circle {
        /// One of them.
        node: usize,
    },
}

/// The nodes that get a gate in front of them, in an order in which they can be launched.
///
/// The rule is that of a queue, on each path through the graph: a node gets a gate if the place in
/// front of it is the nearest to a spacing of predicted work since the last gate on any path that
/// leads to it. A spacing of 0 is a gate in front of every node but the first ones. Nodes that
/// depend on nothing have no gate: they start with the graph, and the gate in front of that is the
/// queue's. Nodes that take no time have none either. In front of and after a node that cannot be
/// predicted there is one.
///
/// The work between two gates of any path, or before the first, is at most the spacing and half
/// a node, or one node if that is longer. A hold ends each path at its next gate. Where paths run
/// at once they share the device, so with `n` of them a hold may take up to `n` times as long as
/// with one; a smaller spacing makes up for it.
///
/// # Errors
/// [`GraphError`] if the edges do not make a graph without circles.
pub fn gates_in_graph(nodes: &[GraphNode], spacing_ns: u64) -> Result<Vec<usize>, GraphError> {
    let mut gates = Vec::new();
    // Work from the last gate to the end of a node, on the longest path.
    let mut upto_ns = vec![0_u64; nodes.len()];
    for n in in_order(nodes)? {
        let GraphNode { expected_ns, after } = &nodes[n];
        let since_ns = after.iter().map(|&before| upto_ns[before]).max().unwrap_or(0);
        let work_ns = expected_ns.unwrap_or(u64::MAX);
        let gate = !after.is_empty() && work_ns > 0 && is_time(since_ns, work_ns, spacing_ns);
        if gate {
            gates.push(n);
        }
        upto_ns[n] = if gate { work_ns } else { since_ns.saturating_add(work_ns) };
    }
    Ok(gates)
}

/// How many nodes that take time are on the longest path through a graph. Those that are known to
/// take none do not count.
///
/// # Errors
/// [`GraphError`] if the edges do not make a graph without circles.
pub fn longest_path(nodes: &[GraphNode]) -> Result<usize, GraphError> {
    let mut upto = vec![0_usize; nodes.len()];
    for n in in_order(nodes)? {
        let GraphNode { expected_ns, after } = &nodes[n];
        let before = after.iter().map(|&before| upto[before]).max().unwrap_or(0);
        upto[n] = before + usize::from(*expected_ns != Some(0));
    }
    Ok(upto.into_iter().max().unwrap_or(0))
}

/// An order in which the nodes of a graph with branches can run one after the other, if that costs
/// little: at least nine of ten nodes that take time are on the longest path anyway. `None` if it
/// has no branches, or longer ones.
///
/// # Errors
/// [`GraphError`] if the edges do not make a graph without circles.
pub fn in_line(nodes: &[GraphNode]) -> Result<Option<Vec<usize>>, GraphError> {
    let order = in_order(nodes)?;
    let is_behind = |pair: &[usize]| nodes[pair[1]].after.contains(&pair[0]);
    let timed = nodes.iter().filter(|node| node.expected_ns != Some(0)).count();
    let has_branches = !order.windows(2).all(is_behind);
    let costs_little = longest_path(nodes)? * 10 >= timed * 9;
    Ok((has_branches && costs_little).then_some(order))
}

/// The numbers of the nodes, each after those that it depends on, otherwise the lowest first.
fn in_order(nodes: &[GraphNode]) -> Result<Vec<usize>, GraphError> {
    let mut next = vec![Vec::new(); nodes.len()];
    let mut missing = vec![0_usize; nodes.len()];
    for (node, GraphNode { after, .. }) in nodes.iter().enumerate() {
        missing[node] = after.len();
        for &before in after {
            let no_such = GraphError::NoSuchNode { node, after: before, nodes: nodes.len() };
            next.get_mut(before).ok_or(no_such)?.push(node);
        }
    }
    let first = (0..nodes.len()).filter(|&node| missing[node] == 0).map(Reverse);
    let mut ready: BinaryHeap<_> = first.collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &then in &next[node] {
            missing[then] -= 1;
            if missing[then] == 0 {
                ready.push(Reverse(then));
            }
        }
    }
    match missing.iter().position(|&count| count > 0) {
        Some(node) => Err(GraphError::Circle { node }),
        None => Ok(order),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn node(ns: u64, after: &[usize]) -> GraphNode {
        GraphNode { expected_ns: Some(ns), after: after.to_vec() }
    }

    /// Nodes in a row.
    fn row(lengths: &[Option<u64>]) -> Vec<GraphNode> {
        let node = |(n, &expected_ns): (usize, &Option<u64>)| GraphNode {
            expected_ns,
            after: n.checked_sub(1).into_iter().collect(),
        };
        lengths.iter().enumerate().map(node).collect()
    }

    fn gates(nodes: &[GraphNode], spacing_ns: u64) -> Vec<usize> {
        gates_in_graph(nodes, spacing_ns).unwrap()
    }

    #[test]
    fn without_a_spacing_every_node_but_the_first_has_a_gate() {
        assert_eq!(gates(&row(&[Some(100); 5]), 0), [1, 2, 3, 4]);
        assert_eq!(gates(&[], 0), [0_usize; 0]);
        assert_eq!(gates(&row(&[Some(100)]), 0), [0_usize; 0]);
    }

    #[test]
    fn gates_are_nearest_to_their_spacing() {
        assert_eq!(gates(&row(&[Some(100); 7]), 200), [2, 4, 6]);
        assert_eq!(gates(&row(&[Some(103); 7]), 200), [2, 4, 6]);
        assert_eq!(gates(&row(&[Some(100); 7]), 10_000), [0_usize; 0]);
        // Half of the second is past the spacing.
        assert_eq!(gates(&row(&[Some(50), Some(300), Some(10)]), 200), [1, 2]);
    }

    #[test]
    fn the_longest_path_has_the_most_nodes_that_take_time() {
        assert_eq!(longest_path(&[]), Ok(0));
        assert_eq!(longest_path(&row(&[None, Some(0), Some(7)])), Ok(2));
        let fork = [node(1, &[]), node(1, &[0]), node(1, &[0]), node(1, &[2]), node(1, &[1, 3])];
        assert_eq!(longest_path(&fork), Ok(4));
        assert_eq!(longest_path(&[node(1, &[0])]), Err(GraphError::Circle { node: 0 }));
    }

    #[test]
    fn short_branches_are_put_in_line_and_long_ones_are_not() {
        // Ten in a row, and one more beside the fifth.
        let mut nodes = row(&[Some(1); 10]);
        assert_eq!(in_line(&nodes), Ok(None), "it is in line");
        nodes.push(node(1, &[3]));
        nodes[9].after.push(10);
        assert_eq!(in_line(&nodes), Ok(Some(vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 9])));
        nodes.push(node(1, &[3]));
        assert_eq!(in_line(&nodes), Ok(None), "ten of twelve");
        assert_eq!(in_line(&[node(1, &[0])]), Err(GraphError::Circle { node: 0 }));
    }

    #[test]
    fn a_node_that_cannot_be_predicted_is_between_gates() {
        assert_eq!(gates(&row(&[Some(1), None, Some(1), Some(1)]), 200), [1, 2]);
        assert_eq!(gates(&row(&[None; 3]), 200), [1, 2]);
    }

    #[test]
    fn a_node_without_work_has_no_gate_and_the_next_one_has() {
        assert_eq!(gates(&row(&[Some(300), Some(0), Some(10)]), 200), [2]);
        assert_eq!(gates(&row(&[Some(1), Some(0), Some(1)]), 0), [2]);
    }

    #[test]
    fn each_branch_has_gates() {
        // 0 forks to 1-2 and 3-4, which join in 5.
        let nodes = [
            node(100, &[]),
            node(100, &[0]),
            node(100, &[1]),
            node(20, &[0]),
            node(100, &[3]),
            node(10, &[2, 4]),
        ];
        assert_eq!(gates(&nodes, 0), [1, 2, 3, 4, 5]);
        assert_eq!(gates(&nodes, 150), [1, 2, 4]);
    }

    #[test]
    fn the_numbers_say_nothing_about_the_order() {
        let nodes = [node(100, &[2]), node(100, &[]), node(100, &[1])];
        assert_eq!(gates(&nodes, 0), [2, 0]);
    }

    #[test]
    fn edges_that_make_no_graph_are_refused() {
        let circle = [node(1, &[]), node(1, &[2, 0]), node(1, &[1])];
        assert_eq!(gates_in_graph(&circle, 0), Err(GraphError::Circle { node: 1 }));
        let out = [node(1, &[7])];
        let error = GraphError::NoSuchNode { node: 0, after: 7, nodes: 1 };
        assert_eq!(gates_in_graph(&out, 0), Err(error));
    }

    /// Graphs whose nodes depend on earlier ones, then numbered at random.
    fn graphs() -> impl Strategy<Value = (Vec<GraphNode>, u64)> {
        let lengths = proptest::collection::vec((0..400_u64, any::<[u8; 4]>()), 1..60);
        let mixed = lengths.prop_flat_map(|nodes| {
            let numbers: Vec<usize> = (0..nodes.len()).collect();
            (Just(nodes), Just(numbers).prop_shuffle(), 0..1_000_u64)
        });
        mixed.prop_map(|(nodes, numbers, spacing)| {
            let mut graph = vec![GraphNode::default(); nodes.len()];
            for (n, (ns, edges)) in nodes.iter().enumerate() {
                // From 0 to 4 of the last nodes.
                let befores = edges.iter().filter_map(|&edge| n.checked_sub(edge as usize % 9 + 1));
                let mut after: Vec<usize> = befores.map(|before| numbers[before]).collect();
                after.sort_unstable();
                after.dedup();
                graph[numbers[n]] = GraphNode { expected_ns: Some(*ns), after };
            }
            (graph, spacing)
        })
    }

    /// The most work from a gate, or the start, up to the end of a node, found by going back along
    /// every path.
    fn longest(
        nodes: &[GraphNode],
        gated: &[usize],
        n: usize,
        known: &mut HashMap<usize, u64>,
    ) -> u64 {
        if let Some(&work) = known.get(&n) {
            return work;
        }
        let mut work = nodes[n].expected_ns.unwrap();
        if !gated.contains(&n) {
            let before = nodes[n].after.iter();
            let before = before.map(|&before| longest(nodes, gated, before, known)).max();
            work += before.unwrap_or(0);
        }
        known.insert(n, work);
        work
    }

    proptest! {
        #[test]
        fn no_path_has_more_work_between_gates_than_promised((nodes, spacing) in graphs()) {
            let gated = gates(&nodes, spacing);
            let most = nodes.iter().filter_map(|node| node.expected_ns).max().unwrap();
            let mut known = HashMap::new();
            for n in 0..nodes.len() {
                let work = longest(&nodes, &gated, n, &mut known);
                prop_assert!(work <= most.max(spacing + most / 2), "{n}: {work} {most}");
            }
        }

        #[test]
        fn gates_are_no_nearer_than_they_need_to_be((nodes, spacing) in graphs()) {
            let gated = gates(&nodes, spacing);
            for &n in &gated {
                let others: Vec<usize> = gated.iter().copied().filter(|&m| m != n).collect();
                let without = longest(&nodes, &others, n, &mut HashMap::new());
                let own = nodes[n].expected_ns.unwrap();
                prop_assert!(without - own + own / 2 >= spacing, "{n}: {without}");
                prop_assert!(!nodes[n].after.is_empty() && own > 0);
            }
        }
    }
}
