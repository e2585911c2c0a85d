//! The thread that runs a queue, and how it is stopped and goes on.
//!
//! A queue may run while its slot in the driver's page says so. When it may not any more, what is
//! under way is written into the queue's save area, as a real GPU saves waves, and forgotten here:
//! the queue goes on from what the area contains then.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use xsched_gfx942::{Clock, Config, Memory};
use xsched_kfd_emulated::page::{Slot, State};

use crate::access::{Map, View};
use crate::engine::{Engine, Kind, Ring, Step};
use crate::failure::Failure;

/// Steps between two looks at the slot.
const STEPS: u32 = 4;
/// The save area starts with this, of which the first words are the device's to write.
const HEADER_BYTES: u64 = 40;
/// Where the header has the address of the mask of exceptions, and the event that tells of it.
const AT_EXCEPTIONS: u64 = 24;
const AT_EVENT: u64 = 32;

/// The processor's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    fn now_ns(&self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` may be written to, and the clock exists on every Linux.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
    }
}

/// Reports of a queue to the driver.
pub trait Report: Send + Sync {
    /// An interrupt with an event.
    fn interrupt(&self, event: u32);

    /// The queue stopped for good. Whether its own runtime is to be told.
    fn stopped(&self, failure: &Failure) -> bool;
}

/// A queue, as the hardware has it.
#[derive(Debug)]
pub struct Queue<'a, R> {
    /// Slot in the driver's page.
    pub slot: &'a Slot,
    /// Doorbell.
    pub doorbell: &'a AtomicU64,
    /// The memory of its GPU.
    pub map: &'a RwLock<Map>,
    /// Packets.
    pub kind: Kind,
    /// Ring.
    pub ring: Ring,
    /// Where its waves are saved, and for how many bytes; the control stack comes first.
    pub save_area: (u64, u32),
    /// Bytes of the control stack.
    pub control_bytes: u32,
    /// Configuration that its kernels see.
    pub config: Config,
    /// Set when it is destroyed.
    pub quits: &'a AtomicBool,
    /// The driver.
    pub report: R,
}

/// Where a queue's work is.
enum Work {
    /// Here. Nothing was read yet if there is no engine.
    Here(Option<Engine>),
    /// In the save area, in this many bytes.
    Saved(usize),
    /// Stopped for good.
    Dead,
}

impl<R: Report> Queue<'_, R> {
    /// Runs the queue until it is destroyed.
    pub fn run(&self) {
        self.slot.saves.store(1, Ordering::SeqCst);
        let mut work = Work::Here(None);
        while !self.quits.load(Ordering::SeqCst) {
            if !self.is_active() {
                if self.was_reset() {
                    work = Work::Dead;
                }
                self.sleep(State::Inactive, Duration::from_millis(20));
                continue;
            }
            self.slot.running.store(1, Ordering::SeqCst);
            // Between the look and the store the driver may have seen that nothing runs.
            if self.is_active() {
                work = self.go_on(work);
            }
            self.slot.running.store(0, Ordering::SeqCst);
        }
    }

    fn is_active(&self) -> bool {
        self.slot.active.load(Ordering::SeqCst) == State::Active as u32
    }

    fn was_reset(&self) -> bool {
        self.slot.active.load(Ordering::SeqCst) == State::Reset as u32
    }

    /// Sleeps while the slot says this, and not longer than that.
    fn sleep(&self, state: State, time: Duration) {
        let word = self.slot.active.as_ptr();
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
        // SAFETY: the word and the timeout live as long as the call; the word is shared with the
        // driver, so this is no private futex.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word,
                libc::FUTEX_WAIT,
                state as u32,
                &raw const timeout,
            );
        }
    }

    /// Does something with the memory as it is now, and then sends the interrupts of that.
    fn with_memory<T>(&self, body: impl FnOnce(&View<'_>) -> T) -> T {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let view = View::new(&map);
        let result = body(&view);
        let interrupts = view.take_interrupts();
        drop(map);
        for event in interrupts {
            self.report.interrupt(event);
        }
        result
    }

    /// Runs while the queue is active, from where it was, and says where it is then.
    fn go_on(&self, work: Work) -> Work {
        let engine = match work {
            Work::Here(Some(engine)) => Ok(engine),
            Work::Here(None) => {
                self.with_memory(|view| Engine::new(self.kind, self.ring, self.config, view))
            }
            Work::Saved(bytes) => self.restore(bytes),
            Work::Dead => {
                self.sleep(State::Active, Duration::from_millis(20));
                return Work::Dead;
            }
        };
        let end = engine.and_then(|mut engine| {
            self.steps(&mut engine)?;
            self.save(&engine)
        });
        end.map_or_else(|failure| self.die(&failure), Work::Saved)
    }

    /// Runs while the queue is active.
    fn steps(&self, engine: &mut Engine) -> Result<(), Failure> {
        let mut waits = 0;
        while self.is_active() && !self.quits.load(Ordering::SeqCst) {
            let step = self.with_memory(|view| {
                let mut step = Step::Idle;
                for _ in 0..STEPS {
                    let doorbell = self.doorbell.load(Ordering::SeqCst);
                    step = engine.step(view, &Monotonic, doorbell)?;
                    if step != Step::Did {
                        break;
                    }
                }
                Ok::<_, Failure>(step)
            })?;
            if step == Step::Did {
                waits = 0;
            } else {
                waits += 1;
                self.rest(waits);
            }
        }
        Ok(())
    }

    /// Leaves the processor to others, longer and longer.
    fn rest(&self, waits: u32) {
        let time = match waits {
            ..10 => return std::thread::yield_now(),
            10..100 => Duration::from_micros(20),
            100..2_000 => Duration::from_micros(100),
            _ => Duration::from_millis(1),
        };
        self.sleep(State::Active, time);
    }

    /// Where the image starts, and how many bytes it may have.
    fn room(&self) -> (u64, usize) {
        let control = u64::from(self.control_bytes).max(HEADER_BYTES);
        let bytes = u64::from(self.save_area.1).saturating_sub(control);
        (self.save_area.0.wrapping_add(control), bytes as usize)
    }

    /// Writes what is under way into the save area. How many bytes it has.
    fn save(&self, engine: &Engine) -> Result<usize, Failure> {
        let mut image = Vec::new();
        engine.save(&mut image);
        if self.kind == Kind::Sdma {
            // It has no save area: its state is a number in the driver's own memory, which the
            // read pointer is as well.
            return Ok(0);
        }
        let (start, room) = self.room();
        if image.len() > room {
            return Err(Failure::NoRoom { needed: image.len(), room });
        }
        let lost = |fault| Failure::Memory { at: start, fault };
        let wave_bytes = image.len() as u32;
        let header =
            [self.control_bytes, 0, self.control_bytes.max(HEADER_BYTES as u32), wave_bytes];
        let header: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
        self.with_memory(|view| {
            view.write(self.save_area.0, &header).map_err(lost)?;
            view.write(start, &image).map_err(lost)
        })?;
        self.slot.control_bytes.store(0, Ordering::SeqCst);
        self.slot.wave_bytes.store(wave_bytes, Ordering::SeqCst);
        Ok(image.len())
    }

    fn restore(&self, bytes: usize) -> Result<Engine, Failure> {
        if self.kind == Kind::Sdma {
            return self.with_memory(|view| Engine::new(self.kind, self.ring, self.config, view));
        }
        let (start, room) = self.room();
        let mut image = vec![0; bytes.min(room)];
        let lost = |fault| Failure::Memory { at: start, fault };
        self.with_memory(|view| {
            view.read(start, &mut image).map_err(lost)?;
            Engine::restore(self.kind, self.ring, self.config, &image, view)
        })
    }

    /// The queue stops for good, and the driver is told, and the runtime if it is to be.
    fn die(&self, failure: &Failure) -> Work {
        // The driver waits for a queue that was to stop.
        self.slot.running.store(0, Ordering::SeqCst);
        if self.report.stopped(failure) && self.kind == Kind::Aql {
            let mask = 1 << (failure.code() - 1);
            let area = self.save_area.0;
            let told = self.with_memory(|view| {
                let place = view.read_u64(area.wrapping_add(AT_EXCEPTIONS))?;
                let event = view.read_u32(area.wrapping_add(AT_EVENT))?;
                if place != 0 {
                    view.update_u64(place, &mut |before| before | mask)?;
                    view.interrupt(event);
                }
                Ok::<_, xsched_gfx942::Fault>(())
            });
            // Without an area there is nowhere to tell it.
            let _ = told;
        }
        Work::Dead
    }
}
