//! The preloaded library, in a program on the emulated driver, with real system calls: what the
//! program itself does to its queues while they are suspended.
#![allow(unsafe_code, reason = "the C library's `ioctl`")]

use std::env;
use std::ffi::{c_int, c_ulong};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;

use xsched_hal_kfd::attribution::{Attribution, ByCalls, Unattributed};
use xsched_hal_kfd::mechanism::{DebugTrap, Mechanism, UpdateQueue};
use xsched_hal_kfd::preloaded::Preloaded;
use xsched_hal_kfd::uapi::{self, Call};
use xsched_hal_kfd::{Kfd, KfdQueue, Versioned, Watcher, at_exit};
use xsched_kfd_emulated::Config;
use xsched_kfd_emulated::system::{Options, run};

const INSIDE: &str = "XSCHED_TEST_WATCHED";
const RING_BYTES: u32 = 1 << 16;

/// The program's own calls, as ROCm's runtime makes them.
struct Program {
    file: File,
    rings: Vec<u8>,
}

impl Program {
    fn start() -> Self {
        let file = OpenOptions::new().read(true).write(true).open("/dev/kfd");
        let rings = vec![0; 4 * RING_BYTES as usize];
        let program = Self { file: file.expect("the emulated driver"), rings };
        let mode = uapi::MODE_ENABLE;
        let mut enable = uapi::RuntimeEnable { r_debug: 0, mode, capabilities: 0 };
        assert_eq!(program.call(&uapi::RUNTIME_ENABLE, &mut enable), 0);
        program
    }

    fn call<T>(&self, call: &Call<T>, argument: &mut T) -> c_int {
        // SAFETY: the argument is the call's.
        unsafe {
            libc::ioctl(self.file.as_raw_fd(), c_ulong::from(call.request), &raw mut *argument)
        }
    }

    fn ring(&self, number: usize) -> u64 {
        let base = self.rings.as_ptr().expose_provenance() as u64;
        base.next_multiple_of(4_096) + number as u64 * u64::from(RING_BYTES)
    }

    fn create(&self, number: usize, queue_type: u32) -> u32 {
        let mut made = uapi::CreateQueue88 {
            ring_base: self.ring(number),
            ring_size: RING_BYTES,
            gpu_id: 0x8c1f,
            queue_type,
            percentage: 100,
            priority: 7,
            ..uapi::CreateQueue88::default()
        };
        assert_eq!(self.call(&uapi::CREATE_QUEUE_88, &mut made), 0);
        made.queue_id
    }

    fn update(&self, id: u32, number: usize, percentage: u32, priority: u32) {
        let (ring_base, ring_size) = (self.ring(number), RING_BYTES);
        let mut update =
            uapi::UpdateQueue { ring_base, queue_id: id, ring_size, percentage, priority };
        assert_eq!(self.call(&uapi::UPDATE_QUEUE, &mut update), 0, "the call reports success");
    }

    fn destroy(&self, id: u32) {
        let mut destroy = uapi::DestroyQueue { queue_id: id, pad: 0 };
        assert_eq!(self.call(&uapi::DESTROY_QUEUE, &mut destroy), 0);
    }
}

/// The queue that was made since.
fn attribute(by: &ByCalls, make: impl FnOnce()) -> Arc<KfdQueue> {
    let before = by.before().expect("it is preloaded");
    make();
    let facts = by.single_since(&before).expect("one was made");
    Arc::new(KfdQueue::new(facts).expect("it can be"))
}

fn tell_queues(by: &ByCalls, program: &Program) {
    let before = by.before().expect("it is preloaded");
    assert_eq!(by.single_since(&before), Err(Unattributed::Shared));
    let copies = program.create(0, 1);
    assert_eq!(by.single_since(&before), Err(Unattributed::Shared), "it runs no waves");
    std::thread::scope(|scope| {
        // Another thread's is not taken for this one's.
        let other = scope.spawn(|| program.create(1, 2)).join().expect("it does not panic");
        assert_eq!(by.single_since(&before), Err(Unattributed::Shared));
        program.destroy(other);
    });
    program.destroy(copies);
}

fn hold_back(by: &ByCalls, program: &Program, driver: &Arc<Versioned<Kfd>>) {
    let watcher = Arc::clone(&by.0) as Arc<dyn Watcher>;
    let update = UpdateQueue::new(Arc::clone(driver), Some(watcher));
    let queue = attribute(by, || _ = program.create(0, 2));
    assert_eq!(update.suspend(std::slice::from_ref(&queue)), [Ok(())]);
    // As ROCm's runtime does for scratch memory, and for a stream's priority.
    program.update(queue.id(), 0, 0, 7);
    program.update(queue.id(), 0, 100, 11);
    assert_eq!(update.is_still_suspended(&queue), Ok(true), "it was held back");
    let record = by.0.record(queue.id()).expect("it is known");
    assert_eq!((record.updates, record.held_back, record.percentage), (2, 1, 100));
    assert_eq!(update.resume(std::slice::from_ref(&queue)), [Ok(())]);
    assert_eq!(update.reassert(&queue), Ok(false), "it is not ours any more");
    assert_eq!(queue.priority(), 11, "its owner's wish is kept");
    // Not suspended, its owner's word is law.
    program.update(queue.id(), 0, 0, 7);
    let record = by.0.record(queue.id()).expect("it is known");
    assert_eq!((record.updates, record.held_back, record.percentage), (3, 1, 0));
    program.destroy(queue.id());
    assert_eq!(by.0.record(queue.id()), None);
}

fn end_in_time(by: &ByCalls, program: &Program, driver: &Arc<Versioned<Kfd>>) {
    let trap = DebugTrap::shared(Arc::clone(driver)).expect("the runtime is enabled");
    let mechanism = Arc::clone(&trap) as Arc<dyn Mechanism>;
    at_exit(&mechanism);
    let queue = attribute(by, || _ = program.create(0, 2));
    assert_eq!(trap.suspend(std::slice::from_ref(&queue)), [Ok(())]);
    // Without a resume before it, this call would wait for ever, and so would the next.
    program.destroy(queue.id());
    assert!(trap.held().is_empty());
    let mut disable = uapi::RuntimeEnable::default();
    assert_eq!(program.call(&uapi::RUNTIME_ENABLE, &mut disable), 0);
    assert!(!trap.is_open());
}

#[test]
fn what_a_program_does_to_its_queues_is_seen() {
    let name = "what_a_program_does_to_its_queues_is_seen";
    if env::var_os(INSIDE).is_none() {
        let test = env::current_exe().expect("tests are programs");
        let mut command = Command::new(&test);
        let watch = test.with_file_name("libxsched_kfd_watch.so");
        command.args(["--exact", name, "--nocapture"]).env(INSIDE, "1").env("LD_PRELOAD", watch);
        let options = Options { config: Config::mi308x(), ..Options::default() };
        let report = run(&options, &mut command).expect("the emulated driver");
        assert!(report.status.success(), "{:?}", report.status);
        return;
    }
    let by = ByCalls(Arc::new(Preloaded::find().expect("it is preloaded")));
    let program = Program::start();
    let driver = Arc::new(Versioned::open().expect("the emulated driver"));
    tell_queues(&by, &program);
    hold_back(&by, &program, &driver);
    end_in_time(&by, &program, &driver);
}
