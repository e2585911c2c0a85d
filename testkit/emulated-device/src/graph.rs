//! Graphs.

use std::time::Duration;

use crate::work::{Kind, Work};

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Kind of the node.
    pub kind: Kind,
    /// Work that it does, one after the other.
    pub works: Vec<Work>,
    /// Numbers of the nodes that it comes after.
    pub after: Vec<usize>,
    /// Set once it was taken out again.
    pub is_gone: bool,
}

/// Nodes that come after each other. A node's number stays the same when others are taken out.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// All nodes.
    pub nodes: Vec<Node>,
}

impl Graph {
    /// Adds a node behind others. Its number.
    pub fn add(&mut self, kind: Kind, works: Vec<Work>, after: &[usize]) -> usize {
        let mut after = after.to_vec();
        after.sort_unstable();
        after.dedup();
        self.nodes.push(Node { kind, works, after, is_gone: false });
        self.nodes.len() - 1
    }

    /// A node that is there.
    #[must_use]
    pub fn node(&self, number: usize) -> Option<&Node> {
        self.nodes.get(number).filter(|node| !node.is_gone)
    }

    /// Takes a node out, with its edges.
    pub fn remove(&mut self, number: usize) {
        for node in &mut self.nodes {
            node.after.retain(|before| *before != number);
        }
        self.nodes[number] =
            Node { kind: Kind::Empty, works: Vec::new(), after: Vec::new(), is_gone: true };
    }

    /// All edges: from, to.
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> {
        let edges = |(to, node): (usize, &Node)| {
            node.after.iter().map(move |from| (*from, to)).collect::<Vec<_>>()
        };
        self.nodes.iter().enumerate().flat_map(edges)
    }

    /// True if each node is one of these or comes before one of them.
    #[must_use]
    pub fn all_lead_to(&self, ends: &[usize]) -> bool {
        let mut seen = vec![false; self.nodes.len()];
        let mut open = ends.to_vec();
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut seen[at], true) {
                open.extend(&self.nodes[at].after);
            }
        }
        seen.iter().zip(&self.nodes).all(|(seen, node)| *seen || node.is_gone)
    }

    /// True if a node comes after itself.
    #[must_use]
    pub fn has_cycle(&self) -> bool {
        let mut is_done = vec![false; self.nodes.len()];
        loop {
            let is_ready = |at: &usize| {
                !is_done[*at] && self.nodes[*at].after.iter().all(|before| is_done[*before])
            };
            let Some(at) = (0..self.nodes.len()).find(is_ready) else { break };
            is_done[at] = true;
        }
        is_done.contains(&false)
    }

    /// Carries all nodes out. Where one waits, others go on; `is_lost` ends all waits.
    pub(crate) fn run(&self, is_lost: &dyn Fn() -> bool, carry_out: &mut dyn FnMut(&Work)) {
        // How many works of each node are done.
        let mut done = vec![0; self.nodes.len()];
        let is_done = |done: &[usize], at: usize| done[at] == self.nodes[at].works.len();
        // Nodes whose predecessors are done, too, which an empty node does not show by itself.
        let mut is_over = vec![false; self.nodes.len()];
        let mut rounds = 0_u32;
        while is_over.contains(&false) {
            let mut moved = false;
            for at in 0..self.nodes.len() {
                let node = &self.nodes[at];
                if is_over[at] || !node.after.iter().all(|before| is_over[*before]) {
                    continue;
                }
                while let Some(work) = node.works.get(done[at]) {
                    if let Work::Await(holds) = work
                        && !(is_lost() || holds())
                    {
                        break;
                    }
                    carry_out(work);
                    done[at] += 1;
                    moved = true;
                }
                is_over[at] = is_done(&done, at);
                moved |= is_over[at];
            }
            rounds = if moved { 0 } else { rounds.saturating_add(1) };
            pause(rounds);
        }
    }
}

/// Ever longer, from nothing.
pub(crate) fn pause(rounds: u32) {
    match rounds {
        0..100 => std::hint::spin_loop(),
        100..200 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(30)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_node_that_waits_holds_up_no_other_one() {
        let word = Arc::new(AtomicU32::new(0));
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |number: u32| {
            let order = Arc::clone(&order);
            Work::Call(Arc::new(move || order.lock().expect("no panics").push(number)))
        };
        let (read, write) = (Arc::clone(&word), Arc::clone(&word));
        let wait = Work::Await(Arc::new(move || read.load(Ordering::SeqCst) == 1));
        let set = Work::Short(Arc::new(move || write.store(1, Ordering::SeqCst)));
        let mut graph = Graph::default();
        let first = graph.add(Kind::MemoryOperations, vec![wait, note(1)], &[]);
        let second = graph.add(Kind::MemoryOperations, vec![note(2), set], &[]);
        let last = graph.add(Kind::Call, vec![note(3)], &[first, second]);
        assert!(graph.all_lead_to(&[last]) && !graph.all_lead_to(&[second]));
        graph.run(&|| false, &mut |work| match work {
            Work::Call(body) | Work::Short(body) => body(),
            _ => {}
        });
        assert_eq!(*order.lock().expect("no panics"), [2, 1, 3]);
        assert!(!graph.has_cycle());
        graph.nodes[first].after.push(last);
        assert!(graph.has_cycle());
    }
}
