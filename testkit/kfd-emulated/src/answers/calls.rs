//! Each call once or a few times, in the order of the recorded answers.

use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::process::Command;

use super::{Script, Words, address_of, open_inherited};

pub(super) const GET_VERSION: u32 = 0x8008_4b01;
const UPDATE_QUEUE: u32 = 0x4018_4b07;
const SET_CU_MASK: u32 = 0x4010_4b1a;
const APERTURES_NEW: u32 = 0xc010_4b14;
pub(super) const RUNTIME_ENABLE: u32 = 0xc010_4b25;
pub(super) const DBG_TRAP: u32 = 0xc020_4b26;
/// An address of the kernel's.
const KERNEL: u64 = 0xffff_8000_0000_0000;
/// A GPU that does not exist.
const NO_GPU: u32 = 0xdead;

pub(super) fn all(script: &mut Script<'_>) -> io::Result<()> {
    version(script)?;
    apertures(script)?;
    update_queue(script)?;
    queues(script)?;
    devices(script)?;
    events(script)?;
    debug_without_runtime(script)?;
    debug_with_runtime(script)?;
    private(script)?;
    dispatch(script)
}

fn version(script: &mut Script<'_>) -> io::Result<()> {
    let mut words = Words::new();
    script.call("GET_VERSION", GET_VERSION, &mut words)?;
    let text = format!("version {}.{}", words.u32(0), words.u32(4));
    script.value(&text)
}

fn apertures(script: &mut Script<'_>) -> io::Result<()> {
    for room in [16, 0] {
        let mut entries = [0_u64; 16 * 7];
        let mut words = Words::new().with_u64(0, address_of(&mut entries)).with(8, room);
        script.call(&format!("GET_PROCESS_APERTURES_NEW({room})"), APERTURES_NEW, &mut words)?;
        let text = format!("num_of_nodes={}", words.u32(8));
        script.value(&text)?;
    }
    let mut words = Words::new();
    script.call("GET_PROCESS_APERTURES", 0x8190_4b06, &mut words)?;
    let text = format!("num_of_nodes={}", words.u32(392));
    script.value(&text)
}

fn update(ring: u64, id: u32, bytes: u32, percentage: u32, priority: u32) -> Words {
    let words = Words::new().with_u64(0, ring).with(8, id).with(12, bytes);
    words.with(16, percentage).with(20, priority)
}

fn update_queue(script: &mut Script<'_>) -> io::Result<()> {
    let mut page = [0_u64; 512];
    let ring = address_of(&mut page);
    let cases = [
        ("qid=0,pct=0,ring=NULL,4096", update(0, 0, 4_096, 0, 7)),
        ("qid=4000", update(0, 4_000, 4_096, 0, 7)),
        ("pct=101", update(0, 0, 4_096, 101, 7)),
        ("prio=16", update(0, 0, 4_096, 0, 16)),
        ("ring_size=3000 !pow2", update(ring, 0, 3_000, 0, 7)),
        ("ring=kernel addr", update(KERNEL, 0, 4_096, 0, 7)),
    ];
    for (what, mut words) in cases {
        script.call(&format!("UPDATE_QUEUE({what})"), UPDATE_QUEUE, &mut words)?;
    }
    Ok(())
}

fn queues(script: &mut Script<'_>) -> io::Result<()> {
    let mut page = [0_u64; 512];
    let place = address_of(&mut page);
    let create = Words::new().with_u64(0, place).with_u64(8, place).with_u64(16, place);
    let mut create = create.with(32, 4_096).with(36, NO_GPU).with(44, 100).with(48, 7);
    script.call("CREATE_QUEUE(gpu_id unknown)", 0xc060_4b02, &mut create)?;
    script.call("DESTROY_QUEUE(0)", 0xc008_4b03, &mut Words::new())?;
    let mut state = Words::new().with_u64(0, place);
    script.call("GET_QUEUE_WAVE_STATE(0)", 0xc018_4b1b, &mut state)?;
    for (what, bits) in [("qid=0,64", 64), ("n=33", 33)] {
        let mut words = Words::new().with(4, bits).with_u64(8, place);
        script.call(&format!("SET_CU_MASK({what})"), SET_CU_MASK, &mut words)?;
    }
    script.call("ALLOC_QUEUE_GWS(0)", 0xc010_4b1e, &mut Words::new().with(4, 1))
}

fn devices(script: &mut Script<'_>) -> io::Result<()> {
    script.call("SMI_EVENTS(unknown gpu)", 0xc008_4b1f, &mut Words::new().with(0, NO_GPU))?;
    let mut memory = Words::new().with(8, NO_GPU);
    script.call("AVAILABLE_MEMORY(unknown gpu)", 0xc010_4b23, &mut memory)?;
    let mut criu = Words::new().with(44, std::process::id());
    script.call("CRIU_OP(PROCESS_INFO self)", 0xc038_4b22, &mut criu)?;
    let mut clocks = Words::new().with(32, NO_GPU);
    script.call("GET_CLOCK_COUNTERS(unknown gpu)", 0xc028_4b05, &mut clocks)
}

fn events(script: &mut Script<'_>) -> io::Result<()> {
    let mut event = Words::new().with(16, 1);
    script.call("CREATE_EVENT(SIGNAL)", 0xc020_4b08, &mut event)?;
    let (id, slot, page) = (event.u32(24), event.u32(28), event.u64(0));
    script.value(&format!("event_id={id} slot={slot} page_off={page:#x}"))?;
    script.call("SET_EVENT", 0x4008_4b0a, &mut Words::new().with(0, id))?;
    let mut entry = Words::new().with(40, id);
    let wait = Words::new().with_u64(0, address_of(&mut entry.0)).with(8, 1);
    let mut wait = wait.with(12, 1).with(16, 1_000);
    script.call("WAIT_EVENTS", 0xc018_4b0c, &mut wait)?;
    let text = format!("wait_result={}", wait.u32(20));
    script.value(&text)
}

/// An argument of `DBG_TRAP`, for this process.
pub(super) fn trap(operation: u32) -> Words {
    Words::new().with(0, std::process::id()).with(4, operation)
}

pub(super) fn enable(info: &mut [u32; 4], file: RawFd) -> Words {
    let words = trap(0).with_u64(16, address_of(info)).with(24, 16);
    words.with(28, file.cast_unsigned())
}

pub(super) fn suspend(ids: &mut [u32]) -> Words {
    trap(6).with_u64(16, address_of(ids)).with(24, ids.len() as u32)
}

pub(super) fn disable() -> Words {
    trap(1)
}

fn debug_without_runtime(script: &mut Script<'_>) -> io::Result<()> {
    let (mut ids, mut info) = ([0, 77], [0_u32; 4]);
    script.call("DBG_TRAP(SUSPEND, not enabled)", DBG_TRAP, &mut suspend(&mut ids))?;
    script.call("DBG_TRAP(ENABLE self, fd=INVALID)", DBG_TRAP, &mut enable(&mut info, -1))?;
    let (reader, _writer) = rustix::pipe::pipe()?;
    let mut words = enable(&mut info, reader.as_raw_fd());
    script.call("DBG_TRAP(ENABLE self, fd=pipe)", DBG_TRAP, &mut words)?;
    let (size, [_, _, state, ttmp]) = (words.u32(24), info);
    script.value(&format!("rinfo_size={size} runtime_state={state} ttmp_setup={ttmp}"))?;
    let mut words = enable(&mut info, reader.as_raw_fd());
    script.call("DBG_TRAP(ENABLE self again)", DBG_TRAP, &mut words)?;
    let mut words = suspend(&mut ids);
    script.call("DBG_TRAP(SUSPEND before RUNTIME_ENABLE)", DBG_TRAP, &mut words)?;
    script.call("DBG_TRAP(DISABLE)", DBG_TRAP, &mut disable())
}

fn debug_with_runtime(script: &mut Script<'_>) -> io::Result<()> {
    let mut runtime = Words::new().with_u64(0, 0x1000).with(8, 3);
    script.call("RUNTIME_ENABLE(enable|ttmp)", RUNTIME_ENABLE, &mut runtime)?;
    let capabilities = runtime.u32(12);
    script.value(&format!("capabilities_mask={capabilities:#x}"))?;
    let mut again = Words::new().with_u64(0, 0x1000).with(8, 3);
    script.call("RUNTIME_ENABLE(again)", RUNTIME_ENABLE, &mut again)?;
    let (reader, _writer) = rustix::pipe::pipe()?;
    let mut info = [0_u32; 4];
    let mut words = enable(&mut info, reader.as_raw_fd());
    script.call("DBG_TRAP(ENABLE self after RUNTIME_ENABLE)", DBG_TRAP, &mut words)?;
    let [low, high, state, ttmp] = info.map(u64::from);
    let r_debug = low | (high << 32);
    script.value(&format!("runtime_state={state} ttmp_setup={ttmp} r_debug={r_debug:#x}"))?;
    suspend_unknown(script)?;
    let mut entries = [0_u64; 64];
    let snapshot = trap(13).with_u64(8, 1 << 30).with_u64(16, address_of(&mut entries));
    let mut snapshot = snapshot.with(24, 8).with(28, 64);
    script.call("DBG_TRAP(GET_QUEUE_SNAPSHOT)", DBG_TRAP, &mut snapshot)?;
    let (count, bytes) = (snapshot.u32(24), snapshot.u32(28));
    script.value(&format!("num={count} entry_size={bytes}"))?;
    let mut other = enable(&mut info, reader.as_raw_fd()).with(0, 1);
    script.call("DBG_TRAP(ENABLE pid=1, not traced)", DBG_TRAP, &mut other)?;
    script.call("DBG_TRAP(DISABLE)", DBG_TRAP, &mut disable())?;
    script.call("RUNTIME_ENABLE(disable)", RUNTIME_ENABLE, &mut Words::new())
}

fn suspend_unknown(script: &mut Script<'_>) -> io::Result<()> {
    let mut ids = [0, 77];
    script.call("DBG_TRAP(SUSPEND [0,77])", DBG_TRAP, &mut suspend(&mut ids))?;
    script.value(&format!("ids={:#010x},{:#010x}", ids[0], ids[1]))?;
    let mut ids = [0, 77];
    let mut resume = trap(7).with_u64(8, address_of(&mut ids)).with(16, 2);
    script.call("DBG_TRAP(RESUME [0,77])", DBG_TRAP, &mut resume)?;
    script.value(&format!("ids={:#010x},{:#010x}", ids[0], ids[1]))
}

/// Numbers above the driver's table.
fn private(script: &mut Script<'_>) -> io::Result<()> {
    let mut words = Words::new().with(0, u32::MAX).with(4, 2).with(8, 1);
    script.call("0x87 PREEMPT_QUEUE (local patch)", 0xc010_4b87, &mut words)?;
    let mut words = Words::new().with(0, u32::MAX);
    script.call("0x88 RESUME_QUEUE (local patch)", 0xc010_4b88, &mut words)?;
    for number in [0].into_iter().chain(0x27..=0x29).chain(0x7f..=0x8a) {
        let answer = super::ioctl(script.file, 0xc010_4b00 | number, Words::new().address());
        match answer {
            Ok(result) => writeln!(script.out, "NR {number:#04x} -> {result} 0")?,
            Err(errno) => {
                writeln!(script.out, "NR {number:#04x} -> -1 {}", super::name(errno))?;
            }
        }
    }
    Ok(())
}

/// Dispatch of requests: the driver looks at the number alone.
fn dispatch(script: &mut Script<'_>) -> io::Result<()> {
    let mut words = Words::new();
    script.call("GET_VERSION with magic 'Z'", 0x8008_5a01, &mut words)?;
    let text = format!("version {}.{}", words.u32(0), words.u32(4));
    script.value(&text)?;
    let mut words = Words::new();
    script.call("GET_VERSION as _IOWR size 64", 0xc040_4b01, &mut words)?;
    let hex = |bytes: &[u8]| {
        let words: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        words.join(" ")
    };
    let bytes = words.bytes();
    let text = format!("bytes {}|{}|{}", hex(&bytes[..4]), hex(&bytes[4..8]), hex(&bytes[8..9]));
    script.value(&text)?;
    script.call_at("GET_VERSION bad pointer", GET_VERSION, 8)
}

/// Has another process use this one's file, and then one of its own.
pub(super) fn other_processes(out: &mut dyn Write, file: RawFd) -> io::Result<()> {
    let mut command = Command::new("/proc/self/exe");
    let said = command.args(["helper", "child", &file.to_string()]).output()?;
    out.write_all(&said.stdout)
}

/// Part of the other process.
pub(super) fn in_child(out: &mut dyn Write, inherited: RawFd) -> io::Result<()> {
    let what = "GET_VERSION via inherited fd in fork child";
    Script { out, file: inherited }.call(what, GET_VERSION, &mut Words::new())?;
    let own = open_inherited()?;
    let what = "GET_VERSION via own open in child";
    Script { out, file: own.as_raw_fd() }.call(what, GET_VERSION, &mut Words::new())
}
