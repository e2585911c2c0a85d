//! Contents of the process: one runtime, its devices and its handles, whichever library is loaded
//! first.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use xsched::{Runtime, RuntimeConfig};
use xsched_core::hint::PolicyHint;
use xsched_node::{Link, SocketPath};
use xsched_policies::any::Any;
use xsched_policies::fcfs::Fcfs;

use crate::bypassed;
use crate::command::{Command, forks, note_fork};
use crate::commands::Commands;
use crate::contention::{self, Cause};
use crate::env::Env;
use crate::handle::{Kind, Table};
use crate::hwqueue::HwQueue;
use crate::lenient::{About, Leniency};
use crate::lifecycle::Leaving;
use crate::platform::{CudaDevices, HipDevices, HostDevices};
use crate::policies::numbered;
use crate::queue::Queue;
use crate::refusal::{Answer, Refusal};
use crate::types::{XPolicyType, XPolicyTypeValue, XSchedulerType};

/// How long the scheduler may be silent. All policies here are built in and quick, so if it takes
/// long, the machine is busy, and to give up would be wrong.
const LEASE: Duration = Duration::from_secs(1);
/// Stand-in for the policy of another scheduler.
const NO_POLICY: XPolicyTypeValue = XPolicyType::kPolicyUnknown as XPolicyTypeValue;
/// XQueues that there can be at a time.
const QUEUES_MAX: usize = 8_192;
/// Devices that there can be.
const DEVICES_MAX: u16 = 64;

/// The present process. Null at first, and in a child after a fork: there it starts clean, and what
/// the parent had is left where it is, since none of its threads are there.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

/// The runtime, the devices and the handles of the process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) env: Env,
    pub(crate) leniency: Leniency,
    runtime: OnceLock<Answer<Runtime>>,
    pub(crate) commands: Commands,
    pub(crate) hwqs: Table<HwQueue>,
    pub(crate) queues: Table<Queue>,
    pub(crate) host: HostDevices,
    /// Locked while a stream gets its hardware queue, so that it gets one.
    pub(crate) attaching: Mutex<()>,
    pub(crate) hip: HipDevices,
    pub(crate) cuda: CudaDevices,
    settings: Mutex<Settings>,
    /// The priority of the first stream that got an XQueue from an interposer.
    pub(crate) first_priority: OnceLock<i32>,
    /// The highest of all.
    pub(crate) highest_priority: AtomicI32,
    /// Something in this process hands launches over to XQueues.
    pub(crate) is_interposed: AtomicBool,
    leaving: Mutex<Vec<Leaving>>,
    /// An interposer has asked whether it is to hand launches over.
    pub(crate) interposer_known: AtomicBool,
    /// The program has said that nothing does.
    pub(crate) said_so: AtomicBool,
}

/// Hints that stay when the policy is changed.
#[derive(Clone, Copy, Debug, Default)]
struct Settings {
    /// Scheduler that decides, once a call has said so.
    scheduler: Option<XSchedulerType>,
    timeslice: Option<PolicyHint>,
    k: Option<PolicyHint>,
    floor: Option<PolicyHint>,
}

/// The present process.
pub(crate) fn process() -> &'static Process {
    let there = PROCESS.load(Ordering::Acquire);
    // SAFETY: what is not null was leaked below, so it lives for ever.
    unsafe { there.as_ref() }.unwrap_or_else(start)
}

/// The present process, if it has begun.
pub(crate) fn present() -> Option<&'static Process> {
    // SAFETY: as above.
    unsafe { PROCESS.load(Ordering::Acquire).as_ref() }
}

#[cold]
fn start() -> &'static Process {
    watch_forks();
    let (env, complaints) = Env::read(&|name| variable(name));
    let log = env.log;
    if env.holds_apart() {
        contention::require_scheduling(Cause::Choice);
    } else if env.tells_apart() {
        contention::require_scheduling(Cause::Policy);
    }
    if env.global {
        contention::join();
    }
    let made = Box::into_raw(Box::new(Process::new(env)));
    let null = std::ptr::null_mut();
    match PROCESS.compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            crate::log::start(log);
            complaints.iter().for_each(|line| tracing::warn!("{line}"));
            // SAFETY: it was made above, and is never freed from now on.
            unsafe { &*made }
        }
        Err(first) => {
            // SAFETY: it was made above, and no other thread has its address.
            drop(unsafe { Box::from_raw(made) });
            // SAFETY: another thread was first, and leaked it.
            unsafe { &*first }
        }
    }
}

/// Text that is no UTF-8 makes no sense, but is not ignored without a word.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|text| text.to_string_lossy().into_owned())
}

fn watch_forks() {
    // No `Once`: a child would wait for ever for a thread of its parent that is in there.
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the function does what a child may: it stores to atomics. It stays loaded, since the
    // library is never unloaded.
    let code = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if code != 0 {
        tracing::warn!("forks cannot be seen ({code}); a child must not use XSched");
    }
}

/// After a fork, in the child.
extern "C" fn in_child() {
    note_fork();
    xsched_hal_stream::CALLS.begin_anew();
    contention::begin_anew();
    PROCESS.store(std::ptr::null_mut(), Ordering::Release);
}

impl Process {
    fn new(env: Env) -> Self {
        // Another number than the parent's, so that its handles are not found here.
        let number = std::process::id() as u16 ^ forks().wrapping_mul(0x9e37);
        let (spacing_us, apart) = (env.gate_spacing_us, env.streams_apart);
        Self {
            leniency: Leniency::new(env.strict),
            env,
            runtime: OnceLock::new(),
            commands: Commands::new(number),
            hwqs: Table::new(Kind::HwQueue, number),
            queues: Table::new(Kind::XQueue, number),
            host: HostDevices::default(),
            attaching: Mutex::default(),
            hip: HipDevices::new(spacing_us),
            cuda: CudaDevices::new(spacing_us, apart),
            settings: Mutex::default(),
            first_priority: OnceLock::new(),
            highest_priority: AtomicI32::new(i32::MIN),
            is_interposed: AtomicBool::new(false),
            leaving: Mutex::default(),
            interposer_known: AtomicBool::new(false),
            said_so: AtomicBool::new(false),
        }
    }

    /// XQueues whose streams have ended before what was launched there.
    pub(crate) fn leaving(&self) -> MutexGuard<'_, Vec<Leaving>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runtime, which is started with the first thing that needs it.
    pub(crate) fn runtime(&self) -> Answer<&Runtime> {
        let start = || {
            let lease = LEASE;
            let config = RuntimeConfig::default().with_queues(QUEUES_MAX).with_lease(lease);
            let config = config.with_devices(DEVICES_MAX);
            let policy = policy_of(self.env.scheduler, || Ok(self.env.policy.clone()))?;
            let runtime = Runtime::with_config(policy, config)?;
            self.connect();
            Ok(runtime)
        };
        self.runtime.get_or_init(start).as_ref().map_err(Clone::clone)
    }

    /// Connects with the scheduler of the node, if the environment asks for it. Without a daemon
    /// this process runs by itself until there is one, which is said.
    fn connect(&self) {
        if !self.env.global {
            return;
        }
        let (priority, share) = asked_of_node(&self.env);
        match Link::open(SocketPath::from_env(), &program(), priority, share) {
            Ok(link) => self.follow(link),
            Err(error) => {
                tracing::warn!("this process cannot be scheduled with others: {error}");
            }
        }
    }

    /// Connects with the scheduler of the node when the program asks for it, which must be before
    /// its first XQueue on a GPU: the gates of others are not the daemon's to close.
    fn join(&self) -> Answer {
        let late = || {
            Refusal::not_allowed(
                "there are XQueues on a GPU already: choose kSchedulerGlobal before the first, or \
                 set XSCHED_SCHEDULER=GLB",
            )
        };
        let runtime = self.runtime()?;
        drop((self.hip.unopened().ok_or_else(late)?, self.cuda.unopened().ok_or_else(late)?));
        let at = SocketPath::from_env();
        let (priority, share) = asked_of_node(&self.env);
        let link = Link::join(at.clone(), &program(), priority, share).map_err(|error| {
            Refusal::not_supported(format!(
                "no daemon at {at}: {error}; start xschedd, or use kSchedulerLocal"
            ))
        })?;
        let open = (self.hip.unopened().ok_or_else(late)?, self.cuda.unopened().ok_or_else(late)?);
        contention::join();
        self.follow(link);
        drop(open);
        Ok(runtime.set_policy(Fcfs)?)
    }

    /// From now on this connection is that of the devices that are opened.
    fn follow(&self, link: Arc<Link>) {
        link.set_past(bypassed::all);
        link.set_levels(levels);
        // If another thread was first, there is a connection already, and this one ends.
        self.host.follow(Arc::clone(&link));
        let _ = self.hip.link.set(Arc::clone(&link));
        let _ = self.cuda.link.set(link);
    }

    /// Tells the scheduler of the node what the program's hints come to: the process has the
    /// highest priority and the largest share of its XQueues, but for streams that are held by
    /// themselves, unless they wait for others.
    pub(crate) fn tell_node(&self) {
        let Some(link) = self.cuda.link.get() else { return };
        let queues = self.queues.all();
        let highest = queues.iter().map(|queue| queue.priority()).max().unwrap_or_default();
        let is_apart = |queue: &Queue| queue.hwq().hardware.tell_node(&queue.hints(), highest);
        let together: Vec<_> = queues.iter().filter(|queue| !is_apart(queue)).collect();
        if together.is_empty() {
            return;
        }
        let is_awaited = |queue: &&Arc<Queue>| queue.hwq().hardware.is_rest_awaited();
        let hints: Vec<_> = together.iter().map(|queue| queue.hints()).collect();
        let own = hints.iter().map(|hints| hints.priority).max().unwrap_or_default();
        let priority = if together.iter().any(is_awaited) { highest } else { own };
        let share = hints.iter().filter_map(|hints| hints.utilization).max();
        link.set_hints(priority.get().into(), share);
    }

    /// Returns whether something may hold what an interposer launches now in an XQueue.
    pub(crate) fn may_hold(&self, queue: &Queue) -> bool {
        let highest = || self.highest_priority.load(Ordering::Relaxed);
        let is_first = || i32::from(queue.priority().get()) >= highest();
        contention::may_hold(is_first, |is_first| {
            self.runtime().is_ok_and(|runtime| runtime.policy_holds(is_first))
        })
    }

    /// How many holds have ended: of this XQueue, and of the process by the scheduler of the node.
    pub(crate) fn holds_ended(&self, xq: u64) -> u64 {
        let of_queue = self.queues.get(xq).map_or(0, |queue| queue.holds_ended());
        of_queue + self.cuda.link.get().map_or(0, |link| link.holds_ended())
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another scheduler in charge; what was said to the one before stays.
    pub(crate) fn set_scheduler(
        &self,
        scheduler: XSchedulerType,
        policy: XPolicyTypeValue,
    ) -> Answer {
        if scheduler == XSchedulerType::kSchedulerGlobal && self.cuda.link.get().is_some() {
            // It has been from the start, and its policy is not a program's to choose.
            return Ok(());
        }
        if scheduler == XSchedulerType::kSchedulerGlobal && policy == NO_POLICY {
            return self.join();
        }
        let settings = *self.settings();
        let present = settings.scheduler.unwrap_or(self.env.scheduler);
        let (scheduler, policy) = self.chosen(present, scheduler, policy)?;
        let runtime = self.runtime()?;
        runtime.set_policy(policy)?;
        self.settings().scheduler = Some(scheduler);
        for hint in [settings.timeslice, settings.k, settings.floor].into_iter().flatten() {
            runtime.hint_policy(hint)?;
        }
        Ok(())
    }

    /// The scheduler and the policy that a program asks for. As with the C++ XSched, a global one
    /// with a policy is a local one, a local one without a policy is none, and where there is one
    /// already, its policy stays.
    fn chosen(
        &self,
        present: XSchedulerType,
        scheduler: XSchedulerType,
        number: XPolicyTypeValue,
    ) -> Answer<(XSchedulerType, Any)> {
        let local = XSchedulerType::kSchedulerLocal;
        match policy_of(scheduler, || numbered(number)) {
            Ok(policy) => Ok((scheduler, policy)),
            Err(refusal) if scheduler == XSchedulerType::kSchedulerGlobal => {
                // Without a policy only the daemon would do.
                let policy = numbered(number).map_err(|_| refusal.clone())?;
                let instead = "the policy decides in this process alone";
                self.leniency.take(About::Scheduler, refusal, instead)?;
                Ok((local, policy))
            }
            Err(refusal) if scheduler == local && present != local => {
                let instead = "no policy decides";
                self.leniency.take(About::Policy, refusal, instead)?;
                Ok((XSchedulerType::kSchedulerAppManaged, Any::Fcfs(Fcfs)))
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Sets something of the policy as a whole, of this one if it has such a setting, and of those
    /// that are chosen later.
    pub(crate) fn hint_policy(&self, hint: PolicyHint) -> Answer {
        {
            let mut settings = self.settings();
            match hint {
                PolicyHint::K(_) => settings.k = Some(hint),
                PolicyHint::Floor(_) => settings.floor = Some(hint),
                _ => settings.timeslice = Some(hint),
            }
        }
        let taken = self.runtime()?.hint_policy(hint)?;
        tracing::debug!(?hint, taken, "a hint for the policy");
        Ok(())
    }

    /// Gives a command a handle.
    pub(crate) fn create_command(&self, command: Command) -> Answer<u64> {
        let retired = |queue| self.queues.get(queue).map(|queue| queue.retired());
        self.commands.create(command, retired)
    }

    pub(crate) fn queue(&self, handle: u64) -> Answer<Arc<Queue>> {
        self.queues.get(handle).ok_or_else(|| {
            Refusal::not_found(
                "there is no such XQueue: it was destroyed, or the handle is another process's",
            )
        })
    }

    pub(crate) fn hwq(&self, handle: u64) -> Answer<Arc<HwQueue>> {
        self.hwqs.get(handle).ok_or_else(|| {
            Refusal::not_found(
                "there is no such hardware queue: it was destroyed, or the handle is another \
                 process's",
            )
        })
    }
}

/// The priority and the share that the environment says.
fn asked_of_node(env: &Env) -> (i32, Option<u8>) {
    let auto = env.auto.as_ref();
    let priority = auto.and_then(|auto| auto.priority).unwrap_or(0);
    let share = auto.and_then(|auto| auto.utilization);
    (priority, share.and_then(|share| u8::try_from(share).ok()))
}

/// Name of the program.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// How many streams have XQueues of levels 1, 2 and 3; `None` if that is not known just now.
fn levels() -> Option<[u32; 3]> {
    let mut levels = [0; 3];
    let count = |queue: &Queue| {
        let at = usize::from(queue.level().number()).wrapping_sub(1);
        let count = levels.get_mut(at).filter(|_| !queue.hwq().hardware.is_host());
        count.into_iter().for_each(|count| *count += 1);
    };
    present()?.queues.try_each(count).then_some(levels)
}

/// The policy that does what a scheduler is to do.
fn policy_of(scheduler: XSchedulerType, policy: impl FnOnce() -> Answer<Any>) -> Answer<Any> {
    match scheduler {
        // No queue is held unless the program suspends it.
        XSchedulerType::kSchedulerAppManaged => Ok(Any::Fcfs(Fcfs)),
        XSchedulerType::kSchedulerLocal => policy(),
        XSchedulerType::kSchedulerGlobal => Err(Refusal::not_supported(
            "the daemon xschedd has a policy of its own: choose kSchedulerGlobal with kPolicyUnknown, \
             or use kSchedulerLocal",
        )),
        _ => Err(Refusal::invalid("there is no such scheduler; see XSchedulerType")),
    }
}

/// Has held queues let go when the process exits: a driver's own end may wait for its streams.
pub(crate) fn let_go_at_exit() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the function may be called at exit, and stays loaded.
    if unsafe { libc::atexit(at_exit) } != 0 {
        tracing::warn!("no handler for the process's exit; resume all queues before it");
    }
}

extern "C" fn at_exit() {
    let Some(process) = present() else { return };
    for queue in process.queues.try_all() {
        queue.abandon();
    }
    process.leaving().iter().for_each(Leaving::abandon);
    if let Some(Ok(runtime)) = process.runtime.get() {
        // It ends the scheduler's holds; if it does not answer, its watchdog does.
        let _ = runtime.set_policy(Fcfs);
    }
}
