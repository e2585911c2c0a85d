//! From a byte range of the text to a line and the path of a key. Only errors need this, so the
//! document is parsed again for it instead of being kept.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where something is, in words for a person.
#[derive(Debug)]
pub(super) struct Place {
    /// From 1.
    pub(super) line: usize,
    /// Path of the key; empty for the top of the document.
    pub(super) key: String,
    /// True if a date stands there, which the TOML library shows to us as a table.
    pub(super) is_date: bool,
}

/// The line, from 1, of a byte.
pub(super) fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|b| **b == b'\n').count()
}

/// The innermost key or value of the document that covers the range.
pub(super) fn locate(text: &str, span: &Range<usize>) -> Place {
    let mut place = Place { line: line_of(text, span.start), key: String::new(), is_date: false };
    let Ok(root) = DeTable::parse(text) else { return place };
    let mut search = Search { span, nodes: Vec::new(), best: None };
    search.run(root.get_ref());
    if let Some(best) = &search.best {
        place.key = search.path(best.node);
        place.is_date = best.is_date;
    }
    place
}

fn is_leaf(value: &DeValue<'_>) -> bool {
    !matches!(value, DeValue::Table(_) | DeValue::Array(_))
}

/// One step of a path.
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// A key or an array element that the search has met.
struct Node<'a> {
    parent: Option<usize>,
    step: Step<'a>,
}

/// The closest match so far.
struct Best {
    /// Length of its range: of two that cover the wanted one, the shorter is the inner one.
    len: usize,
    node: usize,
    is_date: bool,
}

/// A walk over the document with a list instead of recursion: its depth is up to the input.
struct Search<'a> {
    span: &'a Range<usize>,
    nodes: Vec<Node<'a>>,
    best: Option<Best>,
}

impl<'a> Search<'a> {
    fn run(&mut self, root: &'a DeTable<'_>) {
        let mut todo = Vec::new();
        self.table(None, root, &mut todo);
        while let Some((node, value)) = todo.pop() {
            self.consider(node, value.span(), matches!(value.get_ref(), DeValue::Datetime(_)));
            match value.get_ref() {
                DeValue::Table(table) => self.table(Some(node), table, &mut todo),
                DeValue::Array(array) => {
                    // Last first, because the list is taken from its end.
                    for (n, element) in array.iter().enumerate().rev() {
                        if is_leaf(element.get_ref()) && !self.covered_by(&element.span()) {
                            continue;
                        }
                        let child = self.push(Some(node), Step::Index(n));
                        todo.push((child, element));
                    }
                }
                _ => {}
            }
        }
    }

    fn table<'i>(
        &mut self,
        parent: Option<usize>,
        table: &'a DeTable<'i>,
        todo: &mut Vec<(usize, &'a Spanned<DeValue<'i>>)>,
    ) {
        for (key, value) in table {
            let node = self.push(parent, Step::Key(key.get_ref()));
            self.consider(node, key.span(), false);
            todo.push((node, value));
        }
    }

    fn push(&mut self, parent: Option<usize>, step: Step<'a>) -> usize {
        self.nodes.push(Node { parent, step });
        self.nodes.len() - 1
    }

    fn consider(&mut self, node: usize, span: Range<usize>, is_date: bool) {
        // A table of an array and the array itself can have the same range; the walk meets the
        // array first, and the table is the inner one. A key and the value next to it never have.
        let inner = self.best.as_ref().is_none_or(|best| span.len() <= best.len);
        if inner && self.covered_by(&span) {
            self.best = Some(Best { len: span.len(), node, is_date });
        }
    }

    fn covered_by(&self, span: &Range<usize>) -> bool {
        span.start <= self.span.start && span.end >= self.span.end
    }

    fn path(&self, node: usize) -> String {
        let mut steps = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at.and_then(|n| self.nodes.get(n)) {
            steps.push(&node.step);
            at = node.parent;
        }
        let mut path = String::new();
        for step in steps.into_iter().rev() {
            match step {
                Step::Key(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                }
                Step::Index(n) => path.push_str(&format!("[{n}]")),
            }
        }
        path
    }
}
