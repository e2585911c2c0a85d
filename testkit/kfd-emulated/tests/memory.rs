//! Memory and events of the model, by calls with bare numbers.
#![allow(unsafe_code)]

use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use xsched_hal_kfd::Driver;
use xsched_kfd_emulated::model::Model;
use xsched_kfd_emulated::{Config, Gpu, InProcess};

const GPU: u64 = 0x8c1f;
const ADDRESS: u64 = 0x7000_0000_0000;
const VRAM: u64 = 1;
const GTT: u64 = 2;
const USERPTR: u64 = 4;
const ACQUIRE_VM: u32 = 0x4008_4b15;
const ALLOCATE: u32 = 0xc028_4b16;
const FREE: u32 = 0x4008_4b17;
const MAP: u32 = 0xc018_4b18;
const UNMAP: u32 = 0xc018_4b19;
const AVAILABLE: u32 = 0xc010_4b23;
const CREATE_EVENT: u32 = 0xc020_4b08;
const DESTROY_EVENT: u32 = 0x4008_4b09;
const SET_EVENT: u32 = 0x4008_4b0a;
const WAIT_EVENTS: u32 = 0xc018_4b0c;

fn driver() -> InProcess {
    let gpus = vec![Gpu::small(0x8c1f), Gpu::small(0x8c20)];
    InProcess::new(Config { gpus, ..Config::mi308x() })
}

/// A call with words of 8 bytes, which are changed.
fn call(driver: &InProcess, request: u32, words: &mut [u64]) -> Result<u32, Errno> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    // SAFETY: the emulator refuses wrong addresses, and the others are alive.
    let answer = unsafe { driver.ioctl(request, &mut bytes) };
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    answer
}

fn pair(low: u64, high: u64) -> u64 {
    low | high << 32
}

/// The handle and the offset of a buffer.
fn allocate(driver: &InProcess, bytes: u64, flags: u64) -> Result<(u64, u64), Errno> {
    let mut words = [ADDRESS, bytes, 0, ADDRESS, pair(GPU, flags)];
    call(driver, ALLOCATE, &mut words)?;
    Ok((words[2], words[3]))
}

fn available(driver: &InProcess) -> u64 {
    let mut words = [0, GPU];
    call(driver, AVAILABLE, &mut words).expect("a GPU");
    words[0]
}

#[test]
fn buffers_are_pieces_that_are_given_back() {
    let driver = driver();
    assert_eq!(allocate(&driver, 4_096, VRAM), Err(Errno::NODEV));
    assert_eq!(call(&driver, ACQUIRE_VM, &mut [pair(0, 1)]), Err(Errno::INVAL));
    assert_eq!(call(&driver, ACQUIRE_VM, &mut [pair(9_999, GPU)]), Err(Errno::INVAL));
    assert_eq!(call(&driver, ACQUIRE_VM, &mut [pair(0, GPU)]), Ok(0));
    let whole = available(&driver);
    let (first, at) = allocate(&driver, 4_097, VRAM).expect("room");
    let (second, next) = allocate(&driver, 4_096, GTT).expect("room");
    assert_eq!((next - at, available(&driver)), (8_192, whole - 8_192));
    assert_eq!(allocate(&driver, whole, VRAM), Err(Errno::NOMEM));
    assert_eq!(allocate(&driver, u64::MAX, VRAM), Err(Errno::FAULT));
    assert_eq!(allocate(&driver, 0, VRAM), Err(Errno::INVAL));
    assert_eq!(allocate(&driver, 4_096, VRAM | GTT), Err(Errno::INVAL));
    // The program's own memory takes none, and has the address that was given.
    let (own, place) = allocate(&driver, 4_096, USERPTR).expect("room");
    assert_eq!((place, available(&driver)), (ADDRESS, whole - 8_192));
    let pid = driver.pid();
    assert_eq!(driver.with(|model| model.buffers(pid)), (3, 16_384));
    for handle in [first, second, own] {
        assert_eq!(call(&driver, FREE, &mut [handle]), Ok(0));
        assert_eq!(call(&driver, FREE, &mut [handle]), Err(Errno::INVAL));
    }
    assert_eq!(available(&driver), whole);
    allocate(&driver, whole, VRAM).expect("all of it");
    driver.exit();
    let other = driver.process(pid + 1);
    assert_eq!(available(&other), whole);
}

#[test]
fn buffers_are_mapped_to_gpus_with_an_address_space() {
    let driver = driver();
    call(&driver, ACQUIRE_VM, &mut [pair(0, GPU)]).expect("a file");
    let (handle, _) = allocate(&driver, 4_096, VRAM).expect("room");
    let ids = [0x8c1f_u32, 0x8c20, 7];
    let place = ids.as_ptr().expose_provenance() as u64;
    let map = |request, count: u64| {
        let mut words = [handle, place, pair(count, 0)];
        let answer = call(&driver, request, &mut words);
        (answer, words[2] >> 32)
    };
    assert_eq!(map(MAP, 1), (Ok(0), 1));
    // One of the two is done when the other is refused.
    assert_eq!(map(MAP, 2), (Err(Errno::NODEV), 1));
    call(&driver, ACQUIRE_VM, &mut [pair(0, GPU + 1)]).expect("a file");
    assert_eq!(map(MAP, 2), (Ok(0), 2));
    assert_eq!(map(MAP, 3), (Err(Errno::INVAL), 2));
    assert_eq!(map(UNMAP, 2), (Ok(0), 2));
    assert_eq!(map(MAP, 0).0, Err(Errno::INVAL));
}

fn event(driver: &InProcess, kind: u64, auto_reset: u64) -> u64 {
    let mut words = [0, pair(0, kind), auto_reset, 0];
    call(driver, CREATE_EVENT, &mut words).expect("room");
    words[3] & 0xffff_ffff
}

/// Result of a wait for an event, and the first word of its entry.
fn wait(driver: &InProcess, id: u64, age: u64, ms: u64) -> (Result<u32, Errno>, u64, u64) {
    let mut entry = [age, 0, 0, 0, 0, id];
    let place = entry.as_mut_ptr().expose_provenance() as u64;
    let mut words = [place, 1, ms];
    let answer = call(driver, WAIT_EVENTS, &mut words);
    (answer, words[2] >> 32, entry[0])
}

#[test]
fn a_wait_ends_when_the_event_is_set_or_the_time_is_over() {
    let driver = driver();
    let id = event(&driver, 0, 1);
    let start = Instant::now();
    assert_eq!(wait(&driver, id, 0, 30), (Ok(0), 1, 0));
    assert!(start.elapsed() >= Duration::from_millis(30));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            call(&driver, SET_EVENT, &mut [id]).expect("an event");
        });
        assert_eq!(wait(&driver, id, 0, 10_000), (Ok(0), 0, 0));
    });
    // It has reset itself; one that knows an older age is told.
    assert_eq!(wait(&driver, id, 2, 0), (Ok(0), 1, 2));
    assert_eq!(wait(&driver, id, 1, 0), (Ok(0), 0, 2));
    assert_eq!(wait(&driver, id + 1, 0, 0).0, Err(Errno::INVAL));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            call(&driver, DESTROY_EVENT, &mut [id]).expect("an event");
        });
        assert_eq!(wait(&driver, id, 0, 10_000), (Err(Errno::IO), 2, 0));
    });
}

#[test]
fn wrong_addresses_and_exceptions_are_told() {
    let driver = driver();
    let pid = driver.pid();
    let (signal, memory) = (event(&driver, 0, 0), event(&driver, 8, 0));
    assert_eq!(call(&driver, SET_EVENT, &mut [memory]), Err(Errno::INVAL));
    let fault = |model: &mut Model| model.memory_fault(pid, 0x8c1f, 0x1234_5678, true);
    assert_eq!(driver.with(fault), Some(1));
    assert_eq!(driver.with(|model| model.memory_fault(pid, 1, 0, true)), None);
    // Not present, and it was to be written.
    assert_eq!(wait(&driver, memory, 0, 0), (Ok(0), 0, pair(1, 1)));
    assert_eq!(wait(&driver, signal, 0, 0).1, 1);
    assert_eq!(driver.with(|model| model.raise(pid, 0, 5)), None);
}
