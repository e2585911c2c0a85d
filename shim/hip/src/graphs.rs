//! Executable graphs: which of them are launched into their stream alone.
//!
//! HIP launches a graph whose nodes are a row into its stream, and its copies into the queues of
//! copy engines. Parallel branches of others go into streams of the runtime's own, in whatever
//! hardware rings those share with the program's streams. `libpreempt.so` is told of both. A graph
//! of which nothing is known counts as one with branches.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_uint};
use std::ptr;
use std::sync::{LazyLock, OnceLock, PoisonError, RwLock};

use xsched_shim_engine::engine::{self, reentrant};
use xsched_shim_engine::hooks::of_thread;
use xsched_shim_engine::{Address, Code, Kind, Reach, Stream, driver, lifetimes, real};

use crate::signals;

/// `hipSuccess`.
const SUCCESS: Code = 0;
/// `hipGraphNodeTypeGraph`.
const CHILD: c_uint = 4;
/// `hipGraphNodeTypeMemcpy`, `hipGraphNodeTypeMemcpyFromSymbol` and
/// `hipGraphNodeTypeMemcpyToSymbol`.
const COPIES: [c_uint; 3] = [1, 12, 13];

/// The executable graphs that are rows, by their handles, and which hardware queues they go into.
static ROWS: LazyLock<RwLock<HashMap<usize, Reach>>> = LazyLock::new(RwLock::default);

/// Makes a graph executable by what `next` does, which writes the handle.
///
/// # Safety
/// As of the runtime's function.
unsafe fn begin(exec: *mut Address, graph: Address, next: impl FnOnce() -> Code) -> Code {
    let look = || {
        signals::wait_at_exit();
        reach_of_row(graph)
    };
    let row = reentrant(look).flatten();
    let code = next();
    // A child of a fork does not wait for a thread of its parent.
    if code == SUCCESS && !exec.is_null() && engine::is_on() {
        // SAFETY: the runtime has written it.
        let exec = unsafe { exec.read() }.addr();
        let mut rows = ROWS.write().unwrap_or_else(PoisonError::into_inner);
        // Another may have had this handle, and its end may have gone past.
        match row {
            Some(reach) => rows.insert(exec, reach),
            None => rows.remove(&exec),
        };
    }
    code
}

/// Returns the hardware queues of a graph whose nodes come one after the other, none of which is a
/// graph itself.
fn reach_of_row(graph: Address) -> Option<Reach> {
    let (nodes, (from, to)) = (nodes(graph)?, edges(graph)?);
    if !row_of(nodes.len(), &from, &to) {
        return None;
    }
    let kinds: Vec<_> = nodes.iter().map(|node| kind(*node)).collect::<Option<_>>()?;
    let copies = kinds.iter().any(|kind| COPIES.contains(kind));
    let reach = if copies { Reach::Copies } else { Reach::Stream };
    (!kinds.contains(&CHILD)).then_some(reach)
}

/// Returns whether `nodes` nodes with edges `from` these `to` those, which make no circle, are a
/// row.
fn row_of(nodes: usize, from: &[Address], to: &[Address]) -> bool {
    let are_different = |all: &[Address]| all.iter().collect::<HashSet<_>>().len() == all.len();
    from.len() == nodes.saturating_sub(1) && are_different(from) && are_different(to)
}

fn nodes(graph: Address) -> Option<Vec<Address>> {
    let get = |to: *mut Address, count: &mut usize| -> Code {
        real!(c"hipGraphGetNodes", (graph, to, count): (Address, *mut Address, *mut usize))
    };
    let mut count = 0;
    if get(ptr::null_mut(), &mut count) != SUCCESS {
        return None;
    }
    let mut nodes = vec![ptr::null_mut(); count];
    (count == 0 || get(nodes.as_mut_ptr(), &mut count) == SUCCESS).then_some(nodes)
}

fn edges(graph: Address) -> Option<(Vec<Address>, Vec<Address>)> {
    let get = |from: *mut Address, to: *mut Address, count: &mut usize| -> Code {
        real!(
            c"hipGraphGetEdges", (graph, from, to, count):
            (Address, *mut Address, *mut Address, *mut usize)
        )
    };
    let mut count = 0;
    if get(ptr::null_mut(), ptr::null_mut(), &mut count) != SUCCESS {
        return None;
    }
    let (mut from, mut to) = (vec![ptr::null_mut(); count], vec![ptr::null_mut(); count]);
    let is_got = count == 0 || get(from.as_mut_ptr(), to.as_mut_ptr(), &mut count) == SUCCESS;
    is_got.then_some((from, to))
}

fn kind(node: Address) -> Option<c_uint> {
    let mut kind = CHILD;
    let code = real!(c"hipGraphNodeGetType", (node, &raw mut kind): (Address, *mut c_uint));
    (code == SUCCESS).then_some(kind)
}

/// Launches an executable graph by the function of this name.
fn launch(
    name: &'static CStr,
    place: &OnceLock<usize>,
    exec: Address,
    handle: Address,
    next: impl FnOnce() -> Code,
) -> Code {
    let index = *place.get_or_init(|| driver::place_of(name));
    let row = || ROWS.read().unwrap_or_else(PoisonError::into_inner).get(&exec.addr()).copied();
    let kind = || Kind::new(index).with(exec.addr()).reaching(row().unwrap_or(Reach::All));
    engine::launch(index, Stream::of(handle, Stream::Legacy), kind, next)
}

static LAUNCH: OnceLock<usize> = OnceLock::new();
static LAUNCH_SPT: OnceLock<usize> = OnceLock::new();

lifetimes! {
    c"hipGraphInstantiate": begin_plain(
        exec: *mut Address, graph: Address, node: Address, log: Address, bytes: usize
    // SAFETY: as the caller of the hook promises.
    ) => |next| unsafe { begin(exec, graph, next) };
    c"hipGraphInstantiateWithFlags": begin_with_flags(
        exec: *mut Address, graph: Address, flags: u64
    // SAFETY: as above.
    ) => |next| unsafe { begin(exec, graph, next) };
    c"hipGraphInstantiateWithParams": begin_with_parameters(
        exec: *mut Address, graph: Address, parameters: Address
    // SAFETY: as above.
    ) => |next| unsafe { begin(exec, graph, next) };
    c"hipGraphLaunch": launch_plain(exec: Address, stream: Address) => |next| {
        launch(c"hipGraphLaunch", &LAUNCH, exec, stream, next)
    };
    c"hipGraphLaunch_spt": launch_spt(exec: Address, stream: Address) => |next| {
        launch(c"hipGraphLaunch_spt", &LAUNCH_SPT, exec, of_thread(stream), next)
    };
    c"hipGraphExecDestroy": end(exec: Address) => |next| {
        if engine::is_on() {
            ROWS.write().unwrap_or_else(PoisonError::into_inner).remove(&exec.addr());
        }
        next()
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_from_branches() {
        let all: [Address; 4] = [1, 2, 3, 4].map(ptr::without_provenance_mut);
        let [a, b, c, d] = all;
        assert!(row_of(0, &[], &[]) && row_of(1, &[], &[]));
        assert!(row_of(3, &[a, b], &[b, c]) && row_of(3, &[b, a], &[c, b]));
        assert!(!row_of(2, &[], &[]), "two rows");
        assert!(!row_of(3, &[a, a], &[b, c]), "a fork");
        assert!(!row_of(3, &[a, b], &[c, c]), "a join");
        assert!(!row_of(4, &[a, a, b, c], &[b, c, d, d]), "both");
        assert!(!row_of(4, &[a, b], &[b, c]), "one beside a row");
    }
}
