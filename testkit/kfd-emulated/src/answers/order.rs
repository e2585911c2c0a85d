//! Rules about the order of calls, calls that do not return, and processes that touch each other.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use super::calls::{DBG_TRAP, RUNTIME_ENABLE, disable, enable, suspend, trap};
use super::{Script, Words, open_inherited};

/// A call that has not returned after this time is said to block, where nothing lets it go on.
const MOMENT: Duration = Duration::from_millis(400);
/// And so, where something should have let it go on.
const PATIENCE: Duration = Duration::from_secs(20);
/// Lets `RUNTIME_ENABLE` go on.
const EC_PROCESS_RUNTIME: u64 = 1 << 47;
/// Operations of `ptrace`.
const SEIZE: libc::c_uint = libc::PTRACE_SEIZE;

pub(super) fn all(out: &mut dyn Write, file: RawFd) -> io::Result<()> {
    for case in ["runtime-waits", "disable-releases", "while-waiting", "said-beforehand"] {
        writeln!(out, "ORDER {case}")?;
        let said = Command::new("/proc/self/exe").args(["helper", case]).output()?;
        out.write_all(&said.stdout)?;
    }
    writeln!(out, "ORDER other-process")?;
    other_process(out, file)
}

/// Does the part of its own for which the script starts this program. Returns false if there is no
/// such part.
///
/// # Errors
/// If answers cannot be written.
pub fn helper(arguments: &[String], out: &mut dyn Write) -> io::Result<bool> {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["child", file] => super::calls::in_child(out, file.parse().unwrap_or(-1))?,
        ["runtime-waits"] => runtime_waits(out)?,
        ["disable-releases"] => disable_releases(out)?,
        ["while-waiting"] => while_waiting(out)?,
        ["said-beforehand"] => said_beforehand(out)?,
        ["target"] => target(out, true)?,
        ["bare-target"] => target(out, false)?,
        ["third", pid] => third(out, pid.parse().unwrap_or(0))?,
        _ => return Ok(false),
    }
    out.flush()?;
    Ok(true)
}

/// A call on a thread of its own, which may never return.
struct Pending(mpsc::Receiver<Result<u32, Errno>>);

fn pending(file: RawFd, request: u32, mut words: Words) -> Pending {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let answer = super::ioctl(file, request, words.address());
        // The receiver may be gone.
        let _ = sender.send(answer);
    });
    Pending(receiver)
}

impl Pending {
    fn state(&self, out: &mut dyn Write, what: &str, patience: Duration) -> io::Result<()> {
        match self.0.recv_timeout(patience) {
            Ok(Ok(result)) => writeln!(out, "PENDING {what:<42} returned ret={result}"),
            Ok(Err(errno)) => {
                writeln!(out, "PENDING {what:<42} returned -1 {}", super::name(errno))
            }
            Err(_) => writeln!(out, "PENDING {what:<42} blocks"),
        }
    }
}

fn runtime(mode: u32) -> Words {
    Words::new().with_u64(0, 0x1000).with(8, mode)
}

fn send_event() -> Words {
    trap(2).with_u64(8, EC_PROCESS_RUNTIME)
}

/// The debugger first, then the runtime; and the runtime ends before the debugger.
fn runtime_waits(out: &mut dyn Write) -> io::Result<()> {
    let file = open_inherited()?;
    let raw = file.as_raw_fd();
    let (reader, _writer) = rustix::pipe::pipe()?;
    let mut info = [0_u32; 4];
    let mut words = enable(&mut info, reader.as_raw_fd());
    Script { out, file: raw }.call("DBG_TRAP(ENABLE self)", DBG_TRAP, &mut words)?;
    for (what, mode) in [("RUNTIME_ENABLE", 1), ("RUNTIME_ENABLE(disable)", 0)] {
        let call = pending(raw, RUNTIME_ENABLE, runtime(mode));
        call.state(out, &format!("{what} while debugged"), MOMENT)?;
        let mut ids = [0];
        let mut words = suspend(&mut ids);
        let meanwhile = "DBG_TRAP(SUSPEND meanwhile)";
        Script { out, file: raw }.call(meanwhile, DBG_TRAP, &mut words)?;
        let mut words = send_event();
        let sent = "DBG_TRAP(SEND_RUNTIME_EVENT)";
        Script { out, file: raw }.call(sent, DBG_TRAP, &mut words)?;
        call.state(out, &format!("{what} after the event"), PATIENCE)?;
    }
    Script { out, file: raw }.call("DBG_TRAP(DISABLE)", DBG_TRAP, &mut disable())
}

/// Case: a waiting runtime goes on when the debugger leaves.
fn disable_releases(out: &mut dyn Write) -> io::Result<()> {
    let file = open_inherited()?;
    let raw = file.as_raw_fd();
    let (reader, _writer) = rustix::pipe::pipe()?;
    let mut info = [0_u32; 4];
    let mut words = enable(&mut info, reader.as_raw_fd());
    Script { out, file: raw }.call("DBG_TRAP(ENABLE self)", DBG_TRAP, &mut words)?;
    let call = pending(raw, RUNTIME_ENABLE, runtime(1));
    call.state(out, "RUNTIME_ENABLE while debugged", MOMENT)?;
    Script { out, file: raw }.call("DBG_TRAP(DISABLE)", DBG_TRAP, &mut disable())?;
    call.state(out, "RUNTIME_ENABLE after DISABLE", MOMENT)?;
    let mut script = Script { out, file: raw };
    let mut words = enable(&mut info, reader.as_raw_fd());
    script.call("DBG_TRAP(ENABLE self again)", DBG_TRAP, &mut words)?;
    let [_, _, state, ttmp] = info;
    script.value(&format!("runtime_state={state} ttmp_setup={ttmp}"))?;
    script.call("DBG_TRAP(SEND_RUNTIME_EVENT)", DBG_TRAP, &mut send_event())?;
    call.state(out, "RUNTIME_ENABLE after the event", PATIENCE)?;
    Script { out, file: raw }.call("DBG_TRAP(DISABLE)", DBG_TRAP, &mut disable())
}

/// Cases: calls of the debugger while the runtime waits, and odd arguments.
fn while_waiting(out: &mut dyn Write) -> io::Result<()> {
    let file = open_inherited()?;
    let raw = file.as_raw_fd();
    let (reader, _writer) = rustix::pipe::pipe()?;
    let (mut info, mut entries) = ([0_u32; 4], [0_u64; 64]);
    let place = super::address_of(&mut entries);
    let mut script = Script { out, file: raw };
    let mut words = enable(&mut info, reader.as_raw_fd());
    script.call("DBG_TRAP(ENABLE self)", DBG_TRAP, &mut words)?;
    let mut words = trap(13).with_u64(16, place).with(24, 8).with(28, 128);
    script.call("DBG_TRAP(GET_QUEUE_SNAPSHOT, 128)", DBG_TRAP, &mut words)?;
    script.value(&format!("num={} entry_size={}", words.u32(24), words.u32(28)))?;
    let call = pending(raw, RUNTIME_ENABLE, runtime(1));
    call.state(script.out, "RUNTIME_ENABLE while debugged", MOMENT)?;
    let mut ids = [0];
    script.call("DBG_TRAP(SUSPEND meanwhile)", DBG_TRAP, &mut suspend(&mut ids))?;
    script.call("DBG_TRAP(SEND_RUNTIME_EVENT)", DBG_TRAP, &mut send_event())?;
    call.state(script.out, "RUNTIME_ENABLE after the event", PATIENCE)?;
    let mut ids = [1 << 30, 1 << 31, u32::MAX, 1_024];
    script.call("DBG_TRAP(SUSPEND odd ids)", DBG_TRAP, &mut suspend(&mut ids))?;
    let [a, b, c, d] = ids;
    script.value(&format!("ids={a:#010x},{b:#010x},{c:#010x},{d:#010x}"))?;
    let mut words = suspend(&mut []).with_u64(16, 8).with(24, 2);
    script.call("DBG_TRAP(SUSPEND bad pointer)", DBG_TRAP, &mut words)?;
    script.call("DBG_TRAP(SUSPEND no ids)", DBG_TRAP, &mut trap(6))?;
    script.call("DBG_TRAP(RESUME no ids)", DBG_TRAP, &mut trap(7))?;
    script.call("DBG_TRAP(operation 15)", DBG_TRAP, &mut trap(15))?;
    script.call("DBG_TRAP(DISABLE, pid=0)", DBG_TRAP, &mut trap(1).with(0, 0))?;
    script.call("DBG_TRAP(DISABLE)", DBG_TRAP, &mut disable())?;
    script.call("DBG_TRAP(DISABLE again)", DBG_TRAP, &mut disable())
}

/// Case: a runtime that was told beforehand to go on.
fn said_beforehand(out: &mut dyn Write) -> io::Result<()> {
    let file = open_inherited()?;
    let raw = file.as_raw_fd();
    let (reader, _writer) = rustix::pipe::pipe()?;
    let mut info = [0_u32; 4];
    let mut script = Script { out, file: raw };
    script.call("RUNTIME_ENABLE", RUNTIME_ENABLE, &mut runtime(1))?;
    let mut words = enable(&mut info, reader.as_raw_fd());
    script.call("DBG_TRAP(ENABLE self)", DBG_TRAP, &mut words)?;
    script.call("DBG_TRAP(SEND_RUNTIME_EVENT)", DBG_TRAP, &mut send_event())?;
    let call = pending(raw, RUNTIME_ENABLE, runtime(0));
    call.state(script.out, "RUNTIME_ENABLE(disable) after the event", PATIENCE)?;
    let mut ids = [0];
    script.call("DBG_TRAP(SUSPEND)", DBG_TRAP, &mut suspend(&mut ids))?;
    let call = pending(raw, RUNTIME_ENABLE, runtime(1));
    call.state(script.out, "RUNTIME_ENABLE once more", MOMENT)?;
    script.call("DBG_TRAP(SEND_RUNTIME_EVENT)", DBG_TRAP, &mut send_event())?;
    call.state(script.out, "RUNTIME_ENABLE after the event", PATIENCE)?;
    // What was said is kept when the debugger leaves.
    script.call("DBG_TRAP(SEND_RUNTIME_EVENT)", DBG_TRAP, &mut send_event())?;
    script.call("DBG_TRAP(DISABLE)", DBG_TRAP, &mut disable())?;
    script.call("RUNTIME_ENABLE(disable)", RUNTIME_ENABLE, &mut runtime(0))?;
    let mut words = enable(&mut info, reader.as_raw_fd());
    script.call("DBG_TRAP(ENABLE self again)", DBG_TRAP, &mut words)?;
    let call = pending(raw, RUNTIME_ENABLE, runtime(1));
    call.state(script.out, "RUNTIME_ENABLE under the next debugger", PATIENCE)?;
    script.call("DBG_TRAP(DISABLE)", DBG_TRAP, &mut disable())
}

/// A process that is debugged: says that it is ready, and ends when its input does.
fn target(out: &mut dyn Write, opens: bool) -> io::Result<()> {
    let file = if opens { Some(open_inherited()?) } else { None };
    if let Some(file) = &file {
        super::ioctl(file.as_raw_fd(), RUNTIME_ENABLE, runtime(1).address())?;
    }
    writeln!(out, "ready")?;
    out.flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// A process that is neither the debugger nor the target.
fn third(out: &mut dyn Write, pid: u32) -> io::Result<()> {
    let file = open_inherited()?;
    let mut ids = [0];
    let mut words = suspend(&mut ids).with(0, pid);
    let mut script = Script { out, file: file.as_raw_fd() };
    script.call("DBG_TRAP(SUSPEND by a third process)", DBG_TRAP, &mut words)?;
    let (mut info, mut words) = ([0_u32; 4], disable().with(0, pid));
    script.call("DBG_TRAP(DISABLE by a third process)", DBG_TRAP, &mut words)?;
    let mut words = enable(&mut info, script.file).with(0, pid);
    script.call("DBG_TRAP(ENABLE by a third process)", DBG_TRAP, &mut words)
}

/// Starts a part of this program and waits until it is ready.
fn start(part: &str) -> io::Result<(Child, BufReader<ChildStdout>)> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["helper", part]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let out = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut out = BufReader::new(out);
    out.read_line(&mut String::new())?;
    Ok((child, out))
}

fn ptrace(operation: libc::c_uint, pid: u32) -> io::Result<()> {
    // SAFETY: none of the operations used here touches this process's memory.
    let done = unsafe { libc::ptrace(operation, pid.cast_signed(), 0_usize, 0_usize) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Stops tracing. The process must be stopped for that.
fn let_go(pid: u32) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT, pid)?;
    let raw = rustix::process::Pid::from_raw(pid.cast_signed());
    rustix::process::waitpid(raw, rustix::process::WaitOptions::UNTRACED)?;
    ptrace(libc::PTRACE_DETACH, pid)
}

fn other_process(out: &mut dyn Write, file: RawFd) -> io::Result<()> {
    let (reader, _writer) = rustix::pipe::pipe()?;
    let mut info = [0_u32; 4];
    let (mut bare, _bare_out) = start("bare-target")?;
    let mut words = enable(&mut info, reader.as_raw_fd()).with(0, bare.id());
    let mut script = Script { out, file };
    script.call("DBG_TRAP(ENABLE other without kfd)", DBG_TRAP, &mut words)?;
    let (mut child, _child_out) = start("target")?;
    let pid = child.id();
    let attach = |info: &mut _| enable(info, reader.as_raw_fd()).with(0, pid);
    script.call("DBG_TRAP(ENABLE other, not traced)", DBG_TRAP, &mut attach(&mut info))?;
    ptrace(SEIZE, pid)?;
    script.call("DBG_TRAP(ENABLE other, traced)", DBG_TRAP, &mut attach(&mut info))?;
    let [_, _, state, ttmp] = info;
    script.value(&format!("runtime_state={state} ttmp_setup={ttmp}"))?;
    let suspend_other = |ids: &mut [u32]| suspend(ids).with(0, pid);
    let mut ids = [0];
    script.call("DBG_TRAP(SUSPEND other [0])", DBG_TRAP, &mut suspend_other(&mut ids))?;
    script.value(&format!("ids={:#010x}", ids[0]))?;
    let_go(pid)?;
    let mut ids = [0];
    script.call("DBG_TRAP(SUSPEND other, let go)", DBG_TRAP, &mut suspend_other(&mut ids))?;
    let mut third = Command::new("/proc/self/exe");
    let said = third.args(["helper", "third", &pid.to_string()]).output()?;
    script.out.write_all(&said.stdout)?;
    child.kill()?;
    child.wait()?;
    script.call("DBG_TRAP(SUSPEND other, gone)", DBG_TRAP, &mut suspend_other(&mut ids))?;
    ptrace(SEIZE, bare.id())?;
    let mut words = enable(&mut info, reader.as_raw_fd()).with(0, bare.id());
    script.call("DBG_TRAP(ENABLE traced without kfd)", DBG_TRAP, &mut words)?;
    let [_, _, state, ttmp] = info;
    script.value(&format!("runtime_state={state} ttmp_setup={ttmp}"))?;
    bare.kill()?;
    bare.wait()?;
    Ok(())
}
