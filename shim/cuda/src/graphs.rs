//! Hooks of the functions with which executable graphs begin, change, are launched and end.
//!
//! `libpreempt.so` has the copies of graphs that are launched in the place of the program's; here
//! it is told what the program does. Before it keeps a copy, nothing is told but what begins.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use xsched_shim_engine::engine::{self, reentrant};
use xsched_shim_engine::events::{self, record};
use xsched_shim_engine::hooks::of_thread;
use xsched_shim_engine::{Address, Code, Kind, Stream, driver, lifetimes, real, streams};

type Begun = unsafe extern "C" fn(Address, Address, u64) -> c_int;
type Prepare = unsafe extern "C" fn(u64, Address) -> c_int;
type Launch = unsafe extern "C" fn(u64, c_int, Address, Address) -> Code;
type Told = unsafe extern "C" fn(Address) -> c_int;

/// The functions of `libpreempt.so`.
#[derive(Debug)]
struct Functions {
    begun: Begun,
    prepare: Prepare,
    launch: Launch,
    changed: Told,
    ended: Told,
}

static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
/// Set once there was a graph with a copy.
static ANY: AtomicBool = AtomicBool::new(false);
/// Executable graphs without a copy, each in the place of its address. Frameworks change each
/// kernel of a graph before each launch of it.
static WITHOUT_COPY: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];
/// `kXSchedErrorNotFound`.
const NOT_FOUND: c_int = 3;

/// Where an executable graph is kept that has no copy.
const fn place_of(exec: usize) -> usize {
    // The upper bits depend on all.
    let bits = WITHOUT_COPY.len().trailing_zeros();
    exec.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - bits)
}

/// Returns whether an executable graph is known to have no copy.
fn has_no_copy(exec: Address) -> bool {
    WITHOUT_COPY[place_of(exec.addr())].load(Ordering::Acquire) == exec.addr()
}

fn functions() -> Option<&'static Functions> {
    let find = || {
        let [begun, prepare, launch, changed, ended] = [
            c"xsched_private_cuda_graph",
            c"xsched_private_cuda_graph_prepare",
            c"xsched_private_cuda_graph_launch",
            c"xsched_private_cuda_graph_changed",
            c"xsched_private_cuda_graph_ended",
        ]
        .map(engine::function);
        // SAFETY: the library has them with these signatures: they are of one version.
        unsafe {
            Some(Functions {
                begun: std::mem::transmute::<Address, Begun>(begun?),
                prepare: std::mem::transmute::<Address, Prepare>(prepare?),
                launch: std::mem::transmute::<Address, Launch>(launch?),
                changed: std::mem::transmute::<Address, Told>(changed?),
                ended: std::mem::transmute::<Address, Told>(ended?),
            })
        }
    };
    FUNCTIONS.get_or_init(find).as_ref()
}

/// Makes a graph executable by what `next` does, which writes the handle, with these flags.
///
/// # Safety
/// As of the driver's function.
unsafe fn begin(
    exec: *mut Address,
    graph: Address,
    flags: u64,
    next: impl FnOnce() -> Code,
) -> Code {
    let code = next();
    if code == 0 && !exec.is_null() {
        // SAFETY: the driver has written it.
        let exec = unsafe { exec.read() };
        forget(exec);
        reentrant(|| {
            let Some(functions) = functions() else { return };
            // SAFETY: both are alive, and the program uses them in this call alone.
            if unsafe { (functions.begun)(exec, graph, flags) } == 0 {
                ANY.store(true, Ordering::Release);
            }
        });
    }
    code
}

/// An executable graph begins, which may have the address of one that has ended.
fn forget(exec: Address) {
    let place = &WITHOUT_COPY[place_of(exec.addr())];
    let _ = place.compare_exchange(exec.addr(), 0, Ordering::AcqRel, Ordering::Relaxed);
}

/// Tells of an executable graph that is about to change or to end.
fn tell(exec: Address, which: impl FnOnce(&Functions) -> Told) {
    if ANY.load(Ordering::Acquire) {
        reentrant(|| {
            // SAFETY: any handle may be given.
            functions().map(|functions| unsafe { which(functions)(exec) })
        });
    }
}

/// Changes an executable graph by what `next` does.
fn change(exec: Address, next: impl FnOnce() -> Code) -> Code {
    if !has_no_copy(exec) {
        tell(exec, |functions| functions.changed);
    }
    next()
}

/// The functions, if there is a copy that may have been launched.
fn in_use() -> Option<&'static Functions> {
    if ANY.load(Ordering::Acquire) && engine::is_on() { functions() } else { None }
}

/// A stream is about to wait for an event.
pub(crate) fn await_event(stream: Address, event: Address) {
    events::await_event(stream, event, || real!(c"cuEventQuery", (event): (Address)) == 0);
}

/// Launches an executable graph by the function of this name, or what is launched instead. While
/// there are copies, every launch is told, whether it is scheduled or not: it may have to come
/// behind one of the copy.
fn launch(
    name: &'static CStr,
    place: &OnceLock<usize>,
    exec: Address,
    handle: Address,
    next: impl FnOnce() -> Code,
) -> Code {
    let index = *place.get_or_init(|| driver::place_of(name));
    let stream = Stream::of(handle, Stream::Legacy);
    let kind = || Kind::new(index).with(exec.addr());
    let Some(functions) = in_use().filter(|_| !has_no_copy(exec)) else {
        return engine::launch(index, stream, kind, next);
    };
    // What becomes part of another graph is not launched.
    if engine::is_captured(stream) {
        return engine::launch(index, stream, kind, next);
    }
    // SAFETY: any handles may be given.
    let prepare = || unsafe { (functions.prepare)(streams::xqueue_of(stream), exec) };
    // Without a turn to wait for it is done with the launch.
    if engine::is_contended() && reentrant(prepare) == Some(NOT_FOUND) {
        WITHOUT_COPY[place_of(exec.addr())].store(exec.addr(), Ordering::Release);
        return engine::launch(index, stream, kind, next);
    }
    engine::launch_in(index, stream, kind, |xq| {
        // With a turn of an XQueue the thread is inside already.
        if xq != 0 {
            // SAFETY: the caller promises what the driver asks for.
            return unsafe { (functions.launch)(xq, 1, exec, handle) };
        }
        let launch = || {
            prepare();
            // SAFETY: as above.
            unsafe { (functions.launch)(streams::xqueue_of(stream), 0, exec, handle) }
        };
        reentrant(launch).unwrap_or_else(launch)
    })
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS` begins with the flags.
///
/// # Safety
/// `parameters` is null or points to such a structure.
unsafe fn flags_of(parameters: Address) -> u64 {
    // SAFETY: as the caller promises.
    if parameters.is_null() { 0 } else { unsafe { parameters.cast::<u64>().read() } }
}

static LAUNCH: OnceLock<usize> = OnceLock::new();
static LAUNCH_PTSZ: OnceLock<usize> = OnceLock::new();

lifetimes! {
    c"cuGraphInstantiate": begin_first(
        exec: *mut Address, graph: Address, node: Address, log: Address, bytes: usize
    // SAFETY: as the caller of the hook promises.
    ) => |next| unsafe { begin(exec, graph, 0, next) };
    c"cuGraphInstantiate_v2": begin_second(
        exec: *mut Address, graph: Address, node: Address, log: Address, bytes: usize
    // SAFETY: as above.
    ) => |next| unsafe { begin(exec, graph, 0, next) };
    c"cuGraphInstantiateWithFlags": begin_with_flags(
        exec: *mut Address, graph: Address, flags: u64
    // SAFETY: as above.
    ) => |next| unsafe { begin(exec, graph, flags, next) };
    c"cuGraphInstantiateWithParams": begin_with_parameters(
        exec: *mut Address, graph: Address, parameters: Address
    // SAFETY: as above.
    ) => |next| unsafe { begin(exec, graph, flags_of(parameters), next) };
    c"cuGraphInstantiateWithParams_ptsz": begin_with_parameters_ptsz(
        exec: *mut Address, graph: Address, parameters: Address
    // SAFETY: as above.
    ) => |next| unsafe { begin(exec, graph, flags_of(parameters), next) };
    c"cuGraphLaunch": launch_plain(exec: Address, stream: Address) => |next| {
        launch(c"cuGraphLaunch", &LAUNCH, exec, stream, next)
    };
    c"cuGraphLaunch_ptsz": launch_ptsz(exec: Address, stream: Address) => |next| {
        launch(c"cuGraphLaunch_ptsz", &LAUNCH_PTSZ, exec, of_thread(stream), next)
    };
    c"cuGraphExecUpdate": update(
        exec: Address, graph: Address, node: Address, result: Address
    ) => |next| change(exec, next);
    c"cuGraphExecUpdate_v2": update_second(
        exec: Address, graph: Address, info: Address
    ) => |next| change(exec, next);
    c"cuGraphExecNodeSetParams": set_node(
        exec: Address, node: Address, parameters: Address
    ) => |next| change(exec, next);
    c"cuGraphExecKernelNodeSetParams": set_kernel(
        exec: Address, node: Address, parameters: Address
    ) => |next| change(exec, next);
    c"cuGraphExecKernelNodeSetParams_v2": set_kernel_second(
        exec: Address, node: Address, parameters: Address
    ) => |next| change(exec, next);
    c"cuGraphExecMemcpyNodeSetParams": set_copy(
        exec: Address, node: Address, parameters: Address, context: Address
    ) => |next| change(exec, next);
    c"cuGraphExecMemsetNodeSetParams": set_fill(
        exec: Address, node: Address, parameters: Address, context: Address
    ) => |next| change(exec, next);
    c"cuGraphExecHostNodeSetParams": set_host(
        exec: Address, node: Address, parameters: Address
    ) => |next| change(exec, next);
    c"cuGraphExecChildGraphNodeSetParams": set_child(
        exec: Address, node: Address, child: Address
    ) => |next| change(exec, next);
    c"cuGraphExecEventRecordNodeSetEvent": set_record(
        exec: Address, node: Address, event: Address
    ) => |next| change(exec, next);
    c"cuGraphExecEventWaitNodeSetEvent": set_wait(
        exec: Address, node: Address, event: Address
    ) => |next| change(exec, next);
    c"cuGraphExecExternalSemaphoresSignalNodeSetParams": set_signal(
        exec: Address, node: Address, parameters: Address
    ) => |next| change(exec, next);
    c"cuGraphExecExternalSemaphoresWaitNodeSetParams": set_await(
        exec: Address, node: Address, parameters: Address
    ) => |next| change(exec, next);
    c"cuGraphExecBatchMemOpNodeSetParams": set_operations(
        exec: Address, node: Address, parameters: Address
    ) => |next| change(exec, next);
    c"cuGraphNodeSetEnabled": enable(
        exec: Address, node: Address, is_enabled: u32
    ) => |next| change(exec, next);
    c"cuEventRecord": record_event(event: Address, stream: Address) => |next| {
        record(event, stream, next)
    };
    c"cuEventRecord_ptsz": record_event_ptsz(event: Address, stream: Address) => |next| {
        record(event, of_thread(stream), next)
    };
    c"cuEventRecordWithFlags": record_with_flags(
        event: Address, stream: Address, flags: u32
    ) => |next| record(event, stream, next);
    c"cuEventRecordWithFlags_ptsz": record_with_flags_ptsz(
        event: Address, stream: Address, flags: u32
    ) => |next| record(event, of_thread(stream), next);
    c"cuEventDestroy": destroy_event_old(event: Address) => |next| events::destroy(event, next);
    c"cuEventDestroy_v2": destroy_event(event: Address) => |next| events::destroy(event, next);
    c"cuGraphExecDestroy": end(exec: Address) => |next| {
        tell(exec, |functions| functions.ended);
        next()
    };
}
