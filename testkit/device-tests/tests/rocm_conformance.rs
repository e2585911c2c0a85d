//! The suite that every backend must pass, on AMD's own HIP: `hal-hip` at Lv1 and Lv2, or, by
//! [`SUBJECT`], `hal-kfd` at Lv3 by the mechanism that its own variables choose. On a GPU for
//! gfx942, or on the emulated one: `cargo xtask rocm` runs it there.
#![allow(unsafe_code, reason = "gives kernels the addresses that they write to")]

use std::collections::HashMap;
use std::env;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use xsched_conformance::{Claims, Note, Subject, Work, checks};
use xsched_core::level::Level;
use xsched_hal_hip::raw::{HOST_REGISTER_MAPPED, HOST_REGISTER_PORTABLE};
use xsched_hal_hip::{
    Arguments, HipApi, HipConfig, HipError, HipFunction, HipLibrary, HipModule, HipNative,
    HipStream, RingObserver,
};
use xsched_hal_kfd::hip::HipLv3;
use xsched_hal_kfd::probe::ProbeConfig;
use xsched_hal_kfd::{KfdDevice, KfdQueueConfig};
use xsched_hal_stream::{
    Spacing, SpinApi, StreamApi, StreamCommand, StreamConfig, StreamDevice, StreamDeviceConfig,
};

/// The variable that says what to test: `hip`, `kfd`, or `streams`. Nothing without it.
const SUBJECT: &str = "XSCHED_ROCM_SUBJECT";
const IMAGE: &[u8] = include_bytes!("../kernels/note.gfx942.hsaco");

/// A thread of an emulated device may be long without a processor, and a launch that waits for it
/// would end all holds.
const PATIENCE: Duration = Duration::from_secs(10);

type Streams = StreamDevice<HipApi>;
type Command = StreamCommand<HipApi>;

/// Logs that the device can write to, by address, with where it sees them, and a note of each. They
/// stay so to the end, also when a subject is gone.
static LOGS: Mutex<Option<HashMap<usize, (u64, Note)>>> = Mutex::new(None);

/// The first device.
struct Hip {
    level: Level,
    api: HipApi,
    note: HipFunction,
}

impl Hip {
    fn open(level: Level) -> Result<Self, HipError> {
        let api = HipApi::open(HipConfig::default())?;
        api.load_spin_kernels()?;
        // SAFETY: it is a whole code object.
        let note = unsafe { HipModule::load(&api, IMAGE) }?.function("xs_note")?;
        Ok(Self { level, api, note })
    }

    /// Where the device sees the memory of a note's log, less where the host does.
    fn offset(&self, note: &Note) -> u64 {
        let memory = note.memory();
        let start = memory.as_ptr().expose_provenance();
        let mut logs = LOGS.lock().unwrap_or_else(PoisonError::into_inner);
        let (device, _) = logs.get_or_insert_default().entry(start).or_insert_with(|| {
            let _entered = self.api.enter().expect("the device");
            let table = self.api.library().table();
            let at = ptr::with_exposed_provenance_mut::<c_void>(start);
            let flags = HOST_REGISTER_MAPPED | HOST_REGISTER_PORTABLE;
            // SAFETY: the log is kept with the note.
            let code = unsafe { (table.hipHostRegister)(at, size_of_val(memory), flags) };
            assert_eq!(code, 0, "a log could not be registered");
            let mut device = ptr::null_mut();
            // SAFETY: it writes an address.
            let code = unsafe { (table.hipHostGetDevicePointer)(&raw mut device, at, 0) };
            assert_eq!(code, 0, "a log has no address");
            (device.expose_provenance() as u64, note.clone())
        });
        device.wrapping_sub(start as u64)
    }

    fn timed(&self, ns: u64, note: &Note) -> Option<HipNative> {
        let (clock, notes) = note.notes()?;
        let offset = self.offset(note);
        let seen = |host: usize| offset.wrapping_add(host as u64);
        let clock = seen(ptr::from_ref(clock).expose_provenance());
        let notes = seen(ptr::from_ref(notes).expose_provenance());
        let arguments = Arguments::new().with(ns).ok()?.with(clock).ok()?.with(notes).ok()?;
        // SAFETY: the kernel takes these arguments, and the log is kept to the end.
        Some(unsafe { HipNative::kernel(&self.note, [1; 3], [1; 3], 0, arguments) })
    }

    fn streams(&self) -> Result<Streams, String> {
        let api = HipApi::open(HipConfig::default()).map_err(|error| error.to_string())?;
        let mut config = StreamDeviceConfig::default();
        config.level_max = self.level.min(Level::Deactivate);
        config.blocked_after = PATIENCE;
        config.probe_every = Duration::ZERO;
        StreamDevice::new(api, config).map_err(|error| error.to_string())
    }

    /// A command takes longer than elsewhere to note something, on a bus or where it is
    /// interpreted.
    fn claims(&self) -> Claims {
        Claims { units: 8, unit_ns: 2_000_000, busy_alone: false, ..Claims::at(self.level) }
    }

    fn command(&self, work: Work) -> Option<Command> {
        let command = match work {
            Work::Empty => self.api.empty_kernel().ok()?,
            Work::Timed { ns, note } => self.timed(ns, &note)?,
            // It would take the device with it.
            Work::Failing => return None,
        };
        Some(StreamCommand::native(command))
    }

    fn config() -> StreamConfig<HipApi> {
        StreamConfig::default().spacing(Spacing::of_ns(0))
    }
}

/// An emulated queue is a thread, which may lose its processor between a look at a word and what
/// follows.
const START_LAG: Duration = Duration::from_millis(10);

impl Subject for Hip {
    type Command = Command;
    type Backend = Streams;

    fn claims(&self) -> Claims {
        self.claims()
    }

    fn device(&self) -> Result<Streams, String> {
        self.streams()
    }

    fn config(&self, _: &mut Streams) -> StreamConfig<HipApi> {
        Self::config()
    }

    fn start_lag(&self) -> Duration {
        START_LAG
    }

    fn command(&self, work: Work) -> Option<Command> {
        self.command(work)
    }
}

/// HIP as above, with queues that the kernel driver interrupts.
struct Kfd {
    hip: Hip,
    stages: bool,
}

impl Subject for Kfd {
    type Command = Command;
    type Backend = KfdDevice<Streams>;

    fn claims(&self) -> Claims {
        self.hip.claims()
    }

    fn device(&self) -> Result<KfdDevice<Streams>, String> {
        let below = self.hip.streams()?;
        let lv3 = HipLv3::open(below.clone(), ProbeConfig::from_environment());
        let parts = lv3.parts().map_err(|error| error.to_string())?;
        let gates_open = Some(below.gates_open());
        let mut config = lv3.config();
        (config.blocked_after, config.stages) = (PATIENCE, self.stages);
        KfdDevice::with_parts(below, parts, gates_open, config).map_err(|error| error.to_string())
    }

    fn config(&self, _: &mut KfdDevice<Streams>) -> KfdQueueConfig<StreamConfig<HipApi>> {
        KfdQueueConfig::new(Hip::config())
    }

    fn start_lag(&self) -> Duration {
        START_LAG
    }

    fn command(&self, work: Work) -> Option<Command> {
        self.hip.command(work)
    }
}

/// Rounds of streams with rings of their own that come and go.
const ROUNDS: usize = 100;
/// Streams of a round, of which 8 are kept to be used again and the others destroyed.
const TOGETHER: usize = 20;
/// Of all of them, this many must be destroyed by the end: the last rounds may be under way.
const ENDED_MIN: u32 = 1_000;
/// Commands in each.
const LAUNCHES: usize = 20;

/// Makes streams with rings of their own, uses them and gives them back, half of them with work in
/// them. HIP 7.2.3 waits for ever in many that are destroyed as soon as they are seen to be idle.
fn come_and_go(hip: &Hip) {
    let (api, count) = (&hip.api, Arc::new(Count::default()));
    let _entered = api.enter().expect("the device");
    api.observe_rings(Arc::clone(&count) as Arc<dyn RingObserver>).expect("an observer");
    for _ in 0..ROUNDS {
        let stream = |_| api.create_stream(None).expect("a stream");
        let streams: Vec<_> = (0..TOGETHER).map(stream).collect();
        for stream in streams.iter().flat_map(|stream| [stream; LAUNCHES]) {
            // SAFETY: the stream is alive.
            unsafe { api.launch_nothing(*stream) }.expect("a launch");
        }
        for (number, stream) in streams.into_iter().enumerate() {
            // SAFETY: it is alive, and nothing uses it afterwards.
            unsafe {
                if number % 2 == 0 {
                    api.synchronize(stream).expect("what was launched ends");
                }
                api.destroy_stream(stream).expect("the stream's end");
            }
        }
    }
    let [made, ended] = [&count.made, &count.ended].map(|count| count.load(Ordering::Relaxed));
    assert!(ended >= ENDED_MIN, "{ended} of {made} streams were destroyed");
    println!("{ended} of {made} streams destroyed");
}

/// How many streams were made, and how many destroyed.
#[derive(Debug, Default)]
struct Count {
    made: AtomicU32,
    ended: AtomicU32,
}

impl RingObserver for Count {
    fn making(&self) {}

    fn made(&self, stream: Option<HipStream>) {
        self.made.fetch_add(u32::from(stream.is_some()), Ordering::Relaxed);
    }

    fn handed(&self, _: HipStream) {}

    fn given_back(&self, _: HipStream) {}

    fn ending(&self, _: HipStream) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() {
    let open = |level| Hip::open(level).unwrap_or_else(|error| panic!("{error}"));
    let version = || HipLibrary::find().and_then(|library| library.version());
    match env::var(SUBJECT).as_deref() {
        Ok("hip") => {
            println!("HIP {}", version().expect("HIP's runtime"));
            xsched_conformance::main([
                ("lv2", checks(), open(Level::Deactivate)),
                ("lv1", checks(), open(Level::Block)),
            ])
        }
        Ok("kfd") => {
            let subject = |stages| Kfd { hip: open(Level::Interrupt), stages };
            xsched_conformance::main([
                ("lv3", checks(), subject(false)),
                ("lv3-staged", checks(), subject(true)),
            ])
        }
        Ok("streams") => come_and_go(&open(Level::Deactivate)),
        Ok(other) => panic!("{SUBJECT} is `{other}`, and can be hip, kfd or streams"),
        Err(_) => println!("skipped: {SUBJECT} does not ask for it; see `cargo xtask rocm`"),
    }
}
