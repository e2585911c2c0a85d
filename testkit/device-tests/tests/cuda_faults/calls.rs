//! Calls of the driver that wait for the whole device, made while a queue is held.

use std::ffi::{CStr, c_int};
use std::ptr::null_mut;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use xsched::WaitError;
use xsched_core::level::Level;
use xsched_hal_cuda::table::{CuFunction, CuModule, CuResult, HOST_ALLOC};
use xsched_hal_cuda::{CudaApi, CudaCommand, CudaKernel, StreamCommand, StreamDevice};
use xsched_hal_stream::StreamApi;

use crate::Entry;
use crate::case::{Case, micros, millis};
use crate::scene::{
    BLOCKED_AFTER, COMMAND_US, Command, IN_FLIGHT, LoadGenerator, NAP, Probe, Queue, Scene, held,
};

const PTX: &str = concat!(include_str!("extra.ptx"), "\0");

/// `CU_LIMIT_STACK_SIZE`.
const LIMIT_STACK: c_int = 0;
/// A call that has not come back after this time hangs.
const HANGS: Duration = Duration::from_secs(4);
/// Work of the winner's thread on the device during a call, in microseconds.
const LONG_US: u64 = 10_000;
/// Commands of the victim, of which the first few run before it is held: more of them where another
/// thread has to start for that.
const VICTIM: u32 = 12;
const VICTIM_LONG: u32 = 40;
/// Commands that the winner has to launch yet while its thread makes a call.
const MORE: u32 = 100;

/// A call that waits for the whole device, or is said to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// The first launch of a kernel that was not loaded.
    FirstLaunch,
    /// A launch that needs more stack than any before.
    DeepLaunch,
    MemFree,
    HostFree,
    ModuleUnload,
    ModuleLoad,
    StackLimit,
}

/// Thread that makes the call while the victim is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    /// The victim's thread. Another keeps the winner's queue busy.
    Victim,
    /// The thread of the winner, whose queue has more to launch meanwhile.
    Winner,
    /// Winner's thread with nothing left to launch.
    LastWinner,
}

/// How it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaunchPath {
    /// Behind the queues' back.
    Raw,
    /// In [`StreamDevice::with_gates_open`].
    GatesOpen,
}

/// The call, with everything made that it needs.
type Ready = Box<dyn FnOnce() -> Result<(), String> + Send>;

impl Call {
    const ALL: [Self; 7] = [
        Self::FirstLaunch,
        Self::DeepLaunch,
        Self::MemFree,
        Self::HostFree,
        Self::ModuleUnload,
        Self::ModuleLoad,
        Self::StackLimit,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::FirstLaunch => "first-launch",
            Self::DeepLaunch => "deep-launch",
            Self::MemFree => "mem-free",
            Self::HostFree => "host-free",
            Self::ModuleUnload => "module-unload",
            Self::ModuleLoad => "module-load",
            Self::StackLimit => "stack-limit",
        }
    }

    const fn is_launch(self) -> bool {
        matches!(self, Self::FirstLaunch | Self::DeepLaunch)
    }

    /// A launch as a command. The second needs more stack than the first.
    fn command(self, extra: &Extra, second: bool) -> Command {
        let module = extra.load();
        let name = match (self, second) {
            (Self::FirstLaunch, _) => c"xf_quick",
            (_, false) => c"xf_deep",
            (_, true) => c"xf_deeper",
        };
        let function = extra.function(module, name);
        if self == Self::DeepLaunch {
            extra.load_function(function);
        } else if extra.is_loaded(function) {
            extra.case.note("the kernel was loaded before its first launch");
        }
        // SAFETY: the module stays loaded. The kernels with parameters write nowhere if the third
        // is 0.
        let kernel = unsafe { CudaKernel::new(function, [1; 3], [1; 3]) };
        let kernel = if self == Self::DeepLaunch {
            let with = kernel.parameter(0_u64).and_then(|kernel| kernel.parameter(8_u64));
            with.and_then(|kernel| kernel.parameter(0_u64)).expect("they fit")
        } else {
            kernel
        };
        StreamCommand::native(CudaCommand::kernel(kernel)).of_kind(63)
    }

    /// Makes what the call needs.
    fn ready(self, scene: &Scene, extra: &Extra, second: bool) -> Ready {
        let _entered = scene.device.api().enter().expect("the device");
        let table = scene.table();
        match self {
            Self::FirstLaunch | Self::DeepLaunch => {
                let (command, stream) = (self.command(extra, second), scene.stream());
                let device = scene.device.clone();
                Box::new(move || {
                    // SAFETY: the stream is never destroyed, and the caller enters the device.
                    let launched = unsafe { command.launch_into(device.api(), stream) };
                    launched.map_err(|error| error.to_string())
                })
            }
            Self::MemFree => {
                let mut at = 0;
                // SAFETY: it writes an address.
                let code = unsafe { (table.mem_alloc)(&raw mut at, 4 << 20) };
                assert_eq!(code, 0, "no memory");
                // SAFETY: allocated above, and used by nothing else.
                Box::new(move || answer(unsafe { (table.mem_free)(at) }))
            }
            Self::HostFree => {
                let mut at = null_mut();
                // SAFETY: it writes an address.
                let code = unsafe { (table.host_alloc)(&raw mut at, 1 << 20, HOST_ALLOC) };
                assert_eq!(code, 0, "no memory");
                let at = at.expose_provenance();
                Box::new(move || {
                    let at = std::ptr::with_exposed_provenance_mut(at);
                    // SAFETY: allocated above, and used by nothing else.
                    answer(unsafe { (table.host_free)(at) })
                })
            }
            Self::ModuleUnload => {
                let (module, unload) = (extra.load(), extra.unload);
                extra.load_function(extra.function(module, c"xf_quick"));
                // SAFETY: loaded above, and nothing of it is launched.
                Box::new(move || answer(unsafe { unload(module) }))
            }
            Self::ModuleLoad => Box::new(move || {
                let mut module = CuModule::NULL;
                // SAFETY: the text ends with a null, and the driver copies it.
                answer(unsafe { (table.module_load)(&raw mut module, PTX.as_ptr().cast()) })
            }),
            Self::StackLimit => {
                let (limit, bytes) = (extra.limit, if second { 8 << 10 } else { 4 << 10 });
                // SAFETY: it takes any number.
                Box::new(move || answer(unsafe { limit(LIMIT_STACK, bytes) }))
            }
        }
    }
}

fn answer(code: CuResult) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("error {code}")) }
}

/// Functions of the driver that the backend does not need.
pub(crate) struct Extra {
    case: Case,
    device: StreamDevice<CudaApi>,
    unload: unsafe extern "C" fn(CuModule) -> CuResult,
    limit: unsafe extern "C" fn(c_int, usize) -> CuResult,
    loading: Option<unsafe extern "C" fn(*mut c_int, CuFunction) -> CuResult>,
}

impl Extra {
    pub(crate) fn of(case: &Case, scene: &Scene) -> Self {
        // SAFETY: it is loaded already, and never unloaded; its functions are those of `cuda.h`.
        unsafe {
            let library = libloading::Library::new(&scene.table().library).expect("the driver");
            let library = Box::leak(Box::new(library));
            Self {
                case: case.clone(),
                device: scene.device.clone(),
                unload: *library.get("cuModuleUnload\0").expect("a function"),
                limit: *library.get("cuCtxSetLimit\0").expect("a function"),
                loading: library.get("cuFuncIsLoaded\0").ok().map(|symbol| *symbol),
            }
        }
    }

    /// Loads the kernels of this test once more.
    pub(crate) fn load(&self) -> CuModule {
        let api = self.device.api();
        let _entered = api.enter().expect("the device");
        let mut module = CuModule::NULL;
        // SAFETY: the text ends with a null, and the driver copies it.
        let code = unsafe { (api.table().module_load)(&raw mut module, PTX.as_ptr().cast()) };
        assert_eq!(code, 0, "the kernels could not be loaded");
        module
    }

    pub(crate) fn function(&self, module: CuModule, name: &CStr) -> CuFunction {
        let api = self.device.api();
        let _entered = api.enter().expect("the device");
        let mut function = CuFunction::NULL;
        // SAFETY: the module is loaded, and the name ends with a null.
        let code =
            unsafe { (api.table().module_function)(&raw mut function, module, name.as_ptr()) };
        assert_eq!(code, 0, "{name:?} was not found");
        function
    }

    /// Loads a kernel, so that its first launch does not have to.
    pub(crate) fn load_function(&self, function: CuFunction) {
        let api = self.device.api();
        let _entered = api.enter().expect("the device");
        if let Some(load) = api.table().function_load {
            // SAFETY: just found.
            assert_eq!(unsafe { load(function) }, 0, "a kernel could not be loaded");
        }
    }

    /// True if a kernel is known to be loaded.
    fn is_loaded(&self, function: CuFunction) -> bool {
        let _entered = self.device.api().enter().expect("the device");
        let Some(loading) = self.loading else { return false };
        let mut state = 0;
        // SAFETY: it writes a number: 0 for no, 1 for yes.
        unsafe { loading(&raw mut state, function) == 0 && state == 1 }
    }
}

/// Makes a call on this thread and says how long it took.
fn timed(
    device: &StreamDevice<CudaApi>,
    path: LaunchPath,
    ready: Ready,
) -> Result<Duration, String> {
    let _entered = device.api().enter().map_err(|error| error.to_string())?;
    let begin = Instant::now();
    let done = if path == LaunchPath::GatesOpen { device.with_gates_open(ready) } else { ready() };
    done.map(|()| begin.elapsed())
}

/// How long a call takes when nothing is held and the device is idle.
fn base(case: &Case, scene: &Scene, call: Call, extra: &Extra) -> Duration {
    let ready = call.ready(scene, extra, false);
    let took = timed(&scene.device, LaunchPath::Raw, ready);
    let _entered = scene.device.api().enter().expect("the device");
    // SAFETY: the context is current.
    assert_eq!(unsafe { (scene.table().ctx_synchronize)() }, 0, "the device failed");
    let took = took.expect("the call on an idle device");
    case.figure("alone", took);
    took
}

pub(crate) fn entries() -> Vec<Entry> {
    let mut all = Vec::new();
    for call in Call::ALL {
        let survey = format!("survey/{}", call.name());
        all.push(Entry::new(survey, move |case| survey_case(case, call)));
        for (caller, suffix) in [
            (Caller::Victim, "victim"),
            (Caller::Winner, "winner"),
            (Caller::LastWinner, "last-winner"),
        ] {
            for (path, suffix_2) in [(LaunchPath::Raw, "raw"), (LaunchPath::GatesOpen, "unheld")] {
                // Unloading a module keeps no other call from coming back: it waits for what
                // is held as synchronizing with the device does, and only the hold's end ends that.
                if call == Call::ModuleUnload
                    && path == LaunchPath::Raw
                    && caller != Caller::LastWinner
                {
                    continue;
                }
                let name = format!("call/{}/{suffix}/{suffix_2}", call.name());
                all.push(Entry::new(name, move |case| raw_case(case, call, caller, path)));
            }
        }
        if call.is_launch() {
            let name = |caller: &str| format!("call/{}/{caller}/queue", call.name());
            all.push(Entry::new(name("winner"), move |case| winner_launches(case, call)));
            all.push(Entry::new(name("victim"), move |case| victim_launches(case, call)));
        }
    }
    all
}

/// Work that a call may have to wait for while the victim is held.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    winner: Duration,
    victim: Duration,
}

/// The winner's thread has given the device something long, and holds the victim by that.
fn occupy(scene: &Scene, winner: &Queue, victim: &Queue, more: u32) -> Result<Ahead, String> {
    let long = scene.spin(LONG_US);
    scene.feed(victim, VICTIM);
    let begin = Instant::now();
    winner.submit(long).map_err(|error| error.to_string())?;
    scene.feed(winner, more);
    let behind = held(victim, millis(3))?;
    let in_flight = COMMAND_US * u64::from(more.min(IN_FLIGHT - 1));
    let left = micros(LONG_US + in_flight).saturating_sub(begin.elapsed());
    Ok(Ahead { winner: left, victim: behind })
}

/// A thread that makes the call, and what comes of it.
type Made = Receiver<(Result<Duration, String>, Ahead)>;

fn call_as_winner(
    scene: &Scene,
    queues: (&Queue, &Queue),
    caller: Caller,
    path: LaunchPath,
    ready: Ready,
) -> Made {
    let (made, result) = mpsc::channel();
    let (winner, victim) = (queues.0.clone(), queues.1.clone());
    let ahead = occupy(scene, &winner, &victim, if caller == Caller::Winner { MORE } else { 0 });
    let device = scene.device.clone();
    thread::spawn(move || {
        let none = Ahead { winner: Duration::ZERO, victim: Duration::ZERO };
        let _ = match ahead {
            Ok(ahead) => made.send((timed(&device, path, ready), ahead)),
            Err(error) => made.send((Err(error), none)),
        };
    });
    result
}

fn raw_case(case: &Case, call: Call, caller: Caller, path: LaunchPath) {
    let scene = Scene::open(case);
    let (winner, victim) = (scene.winner(), scene.victim());
    warm(case, &scene, &[&winner, &victim]);
    let extra = Extra::of(case, &scene);
    case.step("making the call on an idle device");
    let alone = base(case, &scene, call, &extra);
    let ready = call.ready(&scene, &extra, true);
    case.step("making the call while the victim is held");
    let mut busy = None;
    let forced = scene.device.forced_open();
    let made = if caller == Caller::Victim {
        scene.feed(&victim, VICTIM_LONG);
        let its = busy.insert(LoadGenerator::start(winner.clone(), scene.spin(COMMAND_US)));
        let ahead = match held(&victim, millis(1_000)) {
            Ok(victim) => Ahead { winner: micros(COMMAND_US * u64::from(IN_FLIGHT)), victim },
            Err(error) => return case.fail(error),
        };
        its.forget();
        let (made, result) = mpsc::channel();
        let device = scene.device.clone();
        thread::spawn(move || made.send((timed(&device, path, ready), ahead)));
        result
    } else {
        call_as_winner(&scene, (&winner, &victim), caller, path, ready)
    };
    let Some((took, ahead)) = came_back(case, &scene, &made) else { return };
    let forced = scene.device.forced_open() - forced;
    case.note(format_args!(
        "gates forced open {forced} times; ahead of the call were {} µs of the winner and {} µs \
         of the victim",
        ahead.winner.as_micros(),
        ahead.victim.as_micros()
    ));
    let bound = alone + ahead.winner + ahead.victim + patience(caller, path);
    case.within("the call", took, bound);
    if path == LaunchPath::GatesOpen {
        case.check(forced == 0, "gates were forced open though they were open");
    }
    if let Some(busy) = &busy {
        thread::sleep(millis(2));
        let step = micros(COMMAND_US);
        case.within("the winner's longest step", busy.longest(), bound + step);
        if let Err(error) = busy.end() {
            case.fail(error);
        }
    }
    all_ends(case, &[&winner, &victim]);
}

/// Returns the time, besides work that is ahead, until a call is no longer kept by a closed gate.
fn patience(caller: Caller, path: LaunchPath) -> Duration {
    match (caller, path) {
        (_, LaunchPath::GatesOpen) => Duration::ZERO,
        // The next launch of the winner is blocked by it.
        (Caller::Victim | Caller::Winner, _) => BLOCKED_AFTER + micros(COMMAND_US),
        // The winner's end is seen, and the hold ends with it.
        (Caller::LastWinner, _) => NAP,
    }
}

/// The answer of a thread that makes a call. If there is none, gates are lifted, to see whether
/// those were the reason.
fn came_back(case: &Case, scene: &Scene, made: &Made) -> Option<(Duration, Ahead)> {
    let Ok(result) = made.recv_timeout(HANGS) else {
        case.fail(format_args!("the call has not come back within {} s", HANGS.as_secs()));
        let begin = Instant::now();
        scene.device.with_gates_open(|| match made.recv_timeout(Duration::from_secs(2)) {
            Ok(_) => case.figure("end of the hang when gates are lifted", begin.elapsed()),
            Err(_) => case.note("lifting the gates does not help"),
        });
        return None;
    };
    match result {
        (Ok(took), ahead) => Some((took, ahead)),
        (Err(error), _) => {
            case.fail(error);
            None
        }
    }
}

/// Runs something on every queue, so that nothing has to be made or loaded later.
fn warm(case: &Case, scene: &Scene, queues: &[&Queue]) {
    case.step("running something first");
    for queue in queues {
        scene.feed(queue, 20);
        queue.submit(scene.spin(LONG_US)).expect("a command");
        queue.wait_all_timeout(Duration::from_secs(3)).expect("commands end");
    }
}

/// Everything that was submitted runs to its end, without a failure.
fn all_ends(case: &Case, queues: &[&Queue]) {
    case.step("waiting for everything to end");
    for queue in queues {
        let ended = queue.wait_all_timeout(Duration::from_secs(3));
        let stats = queue.stats();
        case.check(ended.is_ok(), format_args!("not everything ended: {stats:?}"));
        case.check(stats.failed == 0 && !stats.lost, format_args!("something failed: {stats:?}"));
    }
}

/// The winner's next command is one that waits for the whole device when it is launched.
fn winner_launches(case: &Case, call: Call) {
    let scene = Scene::open(case);
    let (winner, victim) = (scene.winner(), scene.victim());
    warm(case, &scene, &[&winner, &victim]);
    let extra = Extra::of(case, &scene);
    let command = call.command(&extra, false);
    let begin = Instant::now();
    let ticket = winner.submit(command).expect("a command");
    winner.wait_timeout(ticket, Duration::from_secs(3)).expect("it ends");
    let alone = begin.elapsed();
    case.figure("alone", alone);
    let command = call.command(&extra, true);
    case.step("launching while the victim is held");
    let forced = scene.device.forced_open();
    let ahead = match occupy(&scene, &winner, &victim, 0) {
        Ok(ahead) => ahead,
        Err(error) => return case.fail(error),
    };
    let begin = Instant::now();
    let ticket = winner.submit(command).expect("a command");
    let submitted = begin.elapsed();
    let ended = winner.wait_timeout(ticket, HANGS);
    let took = begin.elapsed();
    let bound = alone + ahead.winner + ahead.victim + BLOCKED_AFTER;
    case.note(format_args!("gates forced open {} times", scene.device.forced_open() - forced));
    case.check(ended == Ok(()), format_args!("the command: {ended:?}"));
    case.within("submit", submitted, bound);
    case.within("until it has run", took, bound + NAP);
    all_ends(case, &[&winner, &victim]);
}

/// The victim's next command is such a one. It waits for its turn, and nothing waits for it.
fn victim_launches(case: &Case, call: Call) {
    let scene = Scene::open(case);
    let (winner, victim) = (scene.winner(), scene.victim());
    warm(case, &scene, &[&winner, &victim]);
    let extra = Extra::of(case, &scene);
    let begin = Instant::now();
    let ticket = victim.submit(call.command(&extra, false)).expect("a command");
    victim.wait_timeout(ticket, Duration::from_secs(3)).expect("it ends");
    let alone = begin.elapsed();
    case.figure("alone", alone);
    let command = call.command(&extra, true);
    case.step("submitting while the victim is held");
    let forced = scene.device.forced_open();
    scene.feed(&victim, VICTIM_LONG);
    let busy = LoadGenerator::start(winner.clone(), scene.spin(COMMAND_US));
    if let Err(error) = held(&victim, millis(1_000)) {
        return case.fail(error);
    }
    busy.forget();
    let begin = Instant::now();
    let ticket = victim.submit(command).expect("a command");
    case.within("submit", begin.elapsed(), Duration::ZERO);
    let early = victim.wait_timeout(ticket, millis(20));
    case.check(early == Err(WaitError::Timeout), format_args!("it did not wait: {early:?}"));
    case.within("the winner's longest step", busy.longest(), micros(2 * COMMAND_US));
    case.check(scene.device.forced_open() == forced, "gates were forced open meanwhile");
    if let Err(error) = busy.end() {
        case.fail(error);
    }
    let begin = Instant::now();
    let ended = victim.wait_timeout(ticket, HANGS);
    let work = micros(COMMAND_US * u64::from(VICTIM_LONG + IN_FLIGHT));
    case.check(ended == Ok(()), format_args!("the command: {ended:?}"));
    case.within("after the hold, until it has run", begin.elapsed(), alone + work + NAP);
    all_ends(case, &[&winner, &victim]);
}

/// Lists which calls of other threads hang with this one. No queue launches, so the hold is what
/// ends it.
fn survey_case(case: &Case, call: Call) {
    const HOLD: Duration = millis(30);
    let scene = Scene::open(case);
    let victim = scene.victim();
    warm(case, &scene, &[&victim]);
    let extra = Extra::of(case, &scene);
    let alone = base(case, &scene, call, &extra);
    let ready = call.ready(&scene, &extra, true);
    let probes = Probe::measured(&scene);
    case.step("holding the victim");
    scene.feed(&victim, VICTIM_LONG);
    victim.suspend(Level::Deactivate);
    let behind = match held(&victim, millis(1_000)) {
        Ok(behind) => behind,
        Err(error) => return case.fail(error),
    };
    let _ = Probe::longest(&probes, millis(5));
    case.step("making the call");
    let (made, result) = mpsc::channel();
    let device = scene.device.clone();
    let begin = Instant::now();
    thread::spawn(move || made.send(timed(&device, LaunchPath::Raw, ready)));
    thread::sleep(HOLD);
    victim.resume();
    let took = match result.recv_timeout(HANGS) {
        Ok(Ok(took)) => took,
        Ok(Err(error)) => return case.fail(error),
        Err(_) => return case.fail("the call has not come back after the hold"),
    };
    let longest = Probe::longest(&probes, millis(500));
    case.note(format_args!("held for {} ms in all", begin.elapsed().as_millis()));
    case.within("the call", took, HOLD + alone + behind);
    for (probe, longest) in probes.iter().zip(longest) {
        case.within(probe.name, longest, HOLD + alone + behind + probe.usual);
    }
    let forced = scene.device.forced_open();
    case.note(format_args!("gates forced open {forced} times"));
    drop(probes);
    all_ends(case, &[&victim]);
}
