//! `xsched run` with `xschedd`: processes on the emulated driver that are held as a whole.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use xsched_daemon::{Daemon, Settings};
use xsched_node::{ClientStatus, Status};
use xsched_policies::Any;

/// A program that fills memory again and again, writes how often into the file that it is told,
/// and ends when that file is gone, or when what it has filled is not what it filled last. Every
/// tenth time it waits for the device. Each time it captures a launch, which goes
/// past unless the process is alone.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <unistd.h>
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long *, unsigned long); int cuCtxSynchronize(void);
int cuMemsetD32Async(unsigned long, unsigned, unsigned long, void *);
int cuMemcpyDtoH_v2(void *, unsigned long, unsigned long);
int cuStreamCreate(void **, unsigned); int cuStreamBeginCapture_v2(void *, int);
int cuStreamEndCapture(void *, void **); int cuGraphDestroy(void *);
int main(int count, char **arguments) {
  void *context, *stream, *graph; unsigned long memory; unsigned done = 0;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
  if (cuMemAlloc_v2(&memory, 4096)) return 2;
  if (cuStreamCreate(&stream, 1)) return 6;
  while (count < 2 || !access(arguments[1], F_OK)) {
    if (cuStreamBeginCapture_v2(stream, 2)) return 7;
    if (cuMemsetD32Async(memory, 0, 1024, stream)) return 8;
    if (cuStreamEndCapture(stream, &graph) || cuGraphDestroy(graph)) return 9;
    for (int i = 0; i < 10; ++i)
      if (cuMemsetD32Async(memory, done++, 1024, 0)) return 3;
    if (cuCtxSynchronize()) return 4;
    unsigned last = 0;
    if (cuMemcpyDtoH_v2(&last, memory + 4092, 4) || last != done - 1) return 5;
    if (count < 2 && done >= 200) return 0;
    usleep(1500);
    FILE *file = count < 2 ? NULL : fopen(arguments[1], "r+");
    if (file) { fprintf(file, "%u\n", done); fclose(file); }
  }
  return 0;
}
"#;

/// A program whose two streams wait for each other by events, and which launches a graph with a
/// short branch. It counts steps like [`PROGRAM`], has 50 waits behind each other before it waits
/// for the device, and prints what the driver counted: waits for events, numbers written, and edges
/// that were added to graphs beside those of gates.
const EVENTS: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long *, unsigned long); int cuCtxSynchronize(void);
int cuMemsetD32Async(unsigned long, unsigned, unsigned long, void *);
int cuMemcpyAsync(unsigned long, unsigned long, unsigned long, void *);
int cuMemcpyDtoH_v2(void *, unsigned long, unsigned long);
int cuStreamCreateWithPriority(void **, unsigned, int); int cuEventCreate(void **, unsigned);
int cuEventRecord(void *, void *); int cuStreamWaitEvent(void *, void *, unsigned);
int cuStreamBeginCapture_v2(void *, int); int cuStreamEndCapture(void *, void **);
int cuGraphInstantiateWithFlags(void **, void *, unsigned long); int cuGraphLaunch(void *, void *);
int cuGraphDestroy(void *);
static int branched(void **exec, unsigned long memory, void **streams, void **events) {
  void *graph;
  if (cuStreamBeginCapture_v2(streams[0], 2)) return 20;
  for (int i = 0; i < 20; ++i) {
    if (cuMemsetD32Async(memory, i, 128, streams[0])) return 21;
    if (i == 5 && cuEventRecord(events[0], streams[0])) return 22;
  }
  if (cuStreamWaitEvent(streams[1], events[0], 0)) return 23;
  if (cuMemsetD32Async(memory + 512, 7, 128, streams[1])) return 24;
  if (cuEventRecord(events[1], streams[1])) return 25;
  if (cuStreamWaitEvent(streams[0], events[1], 0)) return 26;
  if (cuMemsetD32Async(memory, 20, 128, streams[0])) return 27;
  if (cuStreamEndCapture(streams[0], &graph)) return 28;
  if (!exec) return cuGraphDestroy(graph) ? 30 : 0;
  return cuGraphInstantiateWithFlags(exec, graph, 0) ? 29 : 0;
}
int main(int count, char **arguments) {
  void *context, *streams[2], *events[2]; unsigned long memory; unsigned done = 0;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
  if (count < 2 || cuMemAlloc_v2(&memory, 4096)) return 2;
  for (int i = 0; i < 2; ++i)
    if (cuStreamCreateWithPriority(&streams[i], 1, getenv("APART") ? -5 * i : 0)
        || cuEventCreate(&events[i], 2)) return 3;
  void *exec; int code = branched(&exec, memory + 2048, streams, events);
  if (code) return code;
  while (!access(arguments[1], F_OK)) {
    for (int i = 0; i < 25; ++i) {
      if (cuMemsetD32Async(memory, ++done, 256, streams[0])) return 4;
      if (cuEventRecord(events[0], streams[0])) return 5;
      if (cuStreamWaitEvent(streams[1], events[0], 0)) return 6;
      if (cuMemcpyAsync(memory + 1024, memory, 1024, streams[1])) return 7;
      if (cuEventRecord(events[1], streams[1])) return 8;
      if (cuStreamWaitEvent(streams[0], events[1], 0)) return 9;
    }
    // The same events, now in a capture.
    if ((code = branched(NULL, memory + 2048, streams, events))) return code;
    if (cuGraphLaunch(exec, streams[0])) return 10;
    if (cuCtxSynchronize()) return 11;
    unsigned last = 0, graphs[256];
    if (cuMemcpyDtoH_v2(&last, memory + 2044, 4) || last != done) return 12;
    if (cuMemcpyDtoH_v2(graphs, memory + 2048, 1024) || graphs[127] != 20 || graphs[128] != 7)
      return 13;
    usleep(1500);
    FILE *file = fopen(arguments[1], "r+");
    if (file) { fprintf(file, "%u\n", done); fclose(file); }
  }
  unsigned long (*calls)(const char *);
  void *driver = dlopen(getenv("XSCHED_CUDA_DRIVER"), RTLD_NOW);
  *(void **)&calls = dlsym(driver, "cuEmulatedCalls");
  if (!calls) return 14;
  fprintf(stderr, "waits=%lu writes=%lu edges=%ld\n", calls("cuStreamWaitEvent"),
          calls("cuStreamWriteValue32_v2"), (long)calls("cuGraphAddDependencies")
          - (long)calls("cuGraphAddBatchMemOpNode"));
  return 0;
}
"#;

/// A program with a stream of low priority, which never pauses, and an urgent one, which does, each
/// with a thread of its own. Both count steps: into a file, and into one with `-urgent` behind its
/// name. With `WHOLE` set the urgent thread waits for the whole device.
const STREAMS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long *, unsigned long); int cuCtxSynchronize(void);
int cuMemsetD32Async(unsigned long, unsigned, unsigned long, void *);
int cuMemcpyDtoHAsync_v2(void *, unsigned long, unsigned long, void *);
int cuStreamCreateWithPriority(void **, unsigned, int); int cuStreamSynchronize(void *);
int cuStreamDestroy_v2(void *);
static void *context;
static char *counters[2];
static long work(int urgent) {
  void *stream; unsigned long memory; unsigned done = 0, last;
  if (cuCtxSetCurrent(context) || cuMemAlloc_v2(&memory, 65536)) return 2;
  if (cuStreamCreateWithPriority(&stream, 1, urgent ? -5 : 0)) return 3;
  while (!access(counters[0], F_OK)) {
    for (int i = 0; i < 10; ++i)
      if (cuMemsetD32Async(memory, ++done, 16384, stream)) return 4;
    if (urgent && getenv("WHOLE") && cuCtxSynchronize()) return 5;
    if (cuMemcpyDtoHAsync_v2(&last, memory + 65532, 4, stream)) return 6;
    if (cuStreamSynchronize(stream) || last != done) return 7;
    FILE *file = fopen(counters[urgent], "r+");
    if (file) { fprintf(file, "%u\n", done); fclose(file); }
    if (urgent) usleep(1500);
  }
  return cuStreamDestroy_v2(stream) ? 8 : 0;
}
static void *thread(void *urgent) { return (void *)work(urgent != NULL); }
int main(int count, char **arguments) {
  pthread_t urgent; void *low, *high;
  if (count < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0)) return 1;
  counters[0] = arguments[1];
  counters[1] = malloc(strlen(arguments[1]) + 8);
  sprintf(counters[1], "%s-urgent", arguments[1]);
  if (pthread_create(&urgent, NULL, thread, context)) return 1;
  low = thread(NULL);
  if (pthread_join(urgent, &high)) return 1;
  return (long)low + 10 * (long)high;
}
"#;

/// The same as [`PROGRAM`], which asks for the scheduler of the node twice, and prints what it was
/// answered. It waits for a line in between; `early` makes it use the GPU before.
const ASKING: &str = r#"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **arguments) {
  int (*choose)(int, int);
  *(void **)&choose = dlsym(dlopen(getenv("PREEMPT"), RTLD_NOW), "XHintSetScheduler");
  if (!choose) return 20;
  printf("%d\n", choose(3, 0));
  if (strstr(arguments[1], "early") && work(1, arguments)) return 21;
  fflush(stdout);
  getchar();
  printf("%d\n", choose(3, 0));
  fflush(stdout);
  return work(count, arguments);
}
"#;

/// A program with an XQueue on the host device, at the level that it is told. It counts commands
/// into a file until that is gone. Its pauses are as long as its work, and thus not short.
const ON_HOST: &str = r#"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef uint64_t handle;
#define GET(name) if (!(*(void **)&name = dlsym(library, #name))) return 20
int main(int count, char **arguments) {
  void *library = dlopen(getenv("PREEMPT"), RTLD_NOW | RTLD_GLOBAL);
  if (count < 3 || !library) return 21;
  int (*xsched_private_host_queue_create)(handle *); GET(xsched_private_host_queue_create);
  int (*XQueueCreate)(handle *, handle, int64_t, int64_t); GET(XQueueCreate);
  int (*xsched_private_host_command_create_timed)(handle *, int64_t);
  GET(xsched_private_host_command_create_timed);
  int (*XQueueSubmit)(handle, handle); GET(XQueueSubmit);
  int (*XQueueWaitAll)(handle); GET(XQueueWaitAll);
  handle hwq, xq, command; unsigned done = 0;
  if (xsched_private_host_queue_create(&hwq)) return 1;
  if (XQueueCreate(&xq, hwq, atoi(arguments[2]), 0)) return 2;
  while (!access(arguments[1], F_OK)) {
    for (int i = 0; i < 4; ++i) {
      if (xsched_private_host_command_create_timed(&command, 250)) return 3;
      if (XQueueSubmit(xq, command)) return 4;
    }
    if (XQueueWaitAll(xq)) return 5;
    usleep(1000);
    FILE *file = fopen(arguments[1], "r+");
    if (file) { fprintf(file, "%u\n", done += 4); fclose(file); }
  }
  return 0;
}
"#;

/// A program that launches into its default stream, never waits, and counts its launches like
/// [`PROGRAM`]. With `APART` set it has a stream of another priority as well.
const AHEAD: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long *, unsigned long);
int cuMemsetD32Async(unsigned long, unsigned, unsigned long, void *);
int cuStreamCreateWithPriority(void **, unsigned, int);
int main(int count, char **arguments) {
  void *context, *stream; unsigned long memory; unsigned done = 0;
  if (count < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0)) return 1;
  if (cuCtxSetCurrent(context) || cuMemAlloc_v2(&memory, 4096)) return 2;
  if (cuMemsetD32Async(memory, 0, 256, 0)) return 3;
  if (getenv("APART") && cuStreamCreateWithPriority(&stream, 1, -5)) return 4;
  if (getenv("APART") && cuMemsetD32Async(memory + 1024, 0, 256, stream)) return 5;
  while (!access(arguments[1], F_OK)) {
    if (cuMemsetD32Async(memory, ++done, 256, 0)) return 6;
    FILE *file = fopen(arguments[1], "r+");
    if (file) { fprintf(file, "%u\n", done); fclose(file); }
    usleep(1000);
  }
  return 0;
}
"#;

struct Node {
    folder: tempfile::TempDir,
    driver: PathBuf,
    daemon: Option<Daemon>,
}

/// Where the daemon is to listen that this test runs as a process of its own.
const OWN: &str = "XSCHED_TEST_DAEMON";

/// A daemon in a process of its own.
struct Own(Child);

impl Own {
    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).expect("it is there");
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What [`Node::start_apart`] starts; nothing otherwise.
#[test]
fn a_daemon_in_a_process_of_its_own() {
    let Some(socket) = std::env::var_os(OWN) else { return };
    let policy = "hpf".parse::<Any>().expect("a policy");
    let settings = Settings { socket: socket.into(), policy, is_open: false };
    let _daemon = Daemon::start(&settings).expect("a daemon");
    loop {
        thread::park();
    }
}

impl Node {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let driver = xsched_cuda_emulated::place(folder.path()).expect("the emulated driver");
        let source = folder.path().join("program.c");
        fs::write(&source, PROGRAM).expect("a file");
        let mut node = Self { folder, driver, daemon: None };
        node.compile(&source);
        node.start();
        node
    }

    /// Compiles a program, whose name is that of its source without the `.c`.
    fn compile(&self, source: &Path) {
        let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compile.arg(source).arg(&self.driver).args(["-ldl", "-pthread"]);
        compile.arg("-o").arg(source.with_extension(""));
        assert!(compile.status().expect("a C compiler").success());
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn start(&mut self) {
        let policy = "hpf".parse::<Any>().expect("a policy");
        let settings = Settings { socket: self.socket(), policy, is_open: false };
        self.daemon = Some(Daemon::start(&settings).expect("a daemon"));
    }

    /// Starts a daemon in a process of its own, and waits until it answers.
    fn start_apart(&self) -> Own {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "a_daemon_in_a_process_of_its_own"]).env(OWN, self.socket());
        let own = Own(command.stdout(Stdio::null()).spawn().expect("a process"));
        self.until("no daemon", |node| node.tell(&["ps"]).status.success());
        own
    }

    fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < Duration::from_secs(20), "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn xsched(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
        for variable in ["LD_PRELOAD", "XSCHED_POLICY", "XSCHED_SCHEDULER"] {
            command.env_remove(variable);
        }
        command.args(arguments).env("XSCHED_SOCKET", self.socket());
        command.env("XSCHED_CUDA_DRIVER", &self.driver);
        command
    }

    fn tell(&self, arguments: &[&str]) -> Output {
        self.xsched(arguments).output().expect("it runs")
    }

    fn status(&self) -> Status {
        let output = self.tell(&["ps", "--json"]);
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// A program in the background that counts into a file of this name.
    fn background(&self, name: &str, options: &[&str]) -> Background {
        self.background_with(name, options, &[])
    }

    /// The same with these variables.
    fn background_with(
        &self,
        name: &str,
        options: &[&str],
        variables: &[(&str, &str)],
    ) -> Background {
        let counter = self.folder.path().join(name);
        fs::write(&counter, "0\n").expect("a file");
        let mut command = self.xsched(&["run"]);
        command.args(options).arg("--").arg(self.folder.path().join("program")).arg(&counter);
        command.envs(variables.iter().copied());
        let child = command.stderr(Stdio::piped()).spawn().expect("it runs");
        Background { child: Some(child), counter }
    }
}

struct Background {
    child: Option<Child>,
    counter: PathBuf,
}

impl Background {
    fn pid(&self) -> i32 {
        self.child.as_ref().map_or(0, |child| child.id() as i32)
    }

    fn count(&self) -> u64 {
        count(&self.counter)
    }

    /// Whether it counts on.
    fn goes_on(&self) -> bool {
        let (before, start) = (self.count(), Instant::now());
        while start.elapsed() < Duration::from_secs(20) {
            if self.count() > before + 20 {
                return true;
            }
            thread::sleep(Duration::from_millis(2));
        }
        false
    }

    /// Whether it stands still, once what was launched has run.
    fn stands_still(&self) -> bool {
        thread::sleep(Duration::from_millis(50));
        let before = self.count();
        thread::sleep(Duration::from_millis(150));
        self.count() == before
    }

    /// Ends it, and answers what it said.
    fn end(mut self) -> String {
        fs::remove_file(&self.counter).expect("the file");
        let child = self.child.take().expect("a program");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn count(path: &Path) -> u64 {
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn a_process_is_held_and_let_go_by_hand() {
    let node = Node::new();
    let background = node.background("count", &["--class", "batch"]);
    assert!(background.goes_on());
    let pid = background.pid().to_string();
    let output = node.tell(&["ctl", "hold", &pid]);
    assert!(output.status.success(), "{output:?}");
    assert!(background.stands_still());
    let status = node.status();
    assert_eq!(status.clients.len(), 1);
    let client = &status.clients[0];
    assert_eq!((client.pid, &*client.state, client.priority), (background.pid(), "held", -100));
    assert!(client.held_by_hand);
    assert!(client.waits > 0 && client.held_ms >= 150, "{client:?}");
    let gpu = (status.gpus.len(), status.gpus[0].clients, status.gpus[0].device.as_str());
    assert_eq!(gpu, (1, 1, &*client.device));
    assert!(node.tell(&["ctl", "release", &pid]).status.success());
    assert!(background.goes_on());
    assert_eq!(background.end(), "");
}

#[test]
fn a_more_urgent_process_has_the_gpu() {
    let node = Node::new();
    let batch = node.background("batch", &["--class", "batch"]);
    assert!(batch.goes_on());
    let other = node.background("other", &["--priority", "5"]);
    assert!(other.goes_on());
    let held =
        || node.status().clients.iter().any(|client| client.holds > 0 && client.priority < 0);
    assert!((0..100).any(|_| held()), "{:?}", node.status());
    // The other one pauses, so both go on.
    assert!(batch.goes_on() && other.goes_on());
    node.until("what retires and goes past", |node| {
        node.status().clients.iter().all(|client| client.retired > 0 && client.past > Some(0))
    });
    // Each uses its legacy default stream alone.
    node.until("levels", |node| node.status().clients.iter().all(|c| c.levels == [1, 0, 0]));
    assert_eq!((batch.end(), other.end()), (String::new(), String::new()));
}

#[test]
fn a_daemon_that_leaves_lets_everything_run_and_one_that_comes_back_is_told() {
    let mut node = Node::new();
    let background = node.background("count", &[]);
    assert!(background.goes_on());
    let pid = background.pid().to_string();
    assert!(node.tell(&["ctl", "hold", &pid]).status.success());
    assert!(background.stands_still());
    node.daemon = None;
    assert!(background.goes_on());
    node.start();
    let start = Instant::now();
    while !node.tell(&["ctl", "hold", &pid]).status.success() {
        assert!(start.elapsed() < Duration::from_secs(20), "it does not connect again");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(background.stands_still());
    assert!(node.tell(&["ctl", "release", &pid]).status.success());
    assert!(background.goes_on());
    let said = background.end();
    assert_eq!(said.matches("the scheduler of the node has left").count(), 1, "{said}");
}

#[test]
fn without_a_daemon_a_program_runs_by_itself() {
    let mut node = Node::new();
    node.daemon = None;
    let mut command = node.xsched(&["run", "--"]);
    let output = command.arg(node.folder.path().join("program")).output().expect("it runs");
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true), "{output:?}");
    let output = node.tell(&["ps"]);
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains("is xschedd running?"), "{why}");
}

#[test]
fn a_program_that_is_there_before_the_daemon_is_connected_later() {
    let mut node = Node::new();
    node.daemon = None;
    let counter = node.folder.path().join("count");
    fs::write(&counter, "0\n").expect("a file");
    let mut command = node.xsched(&["run", "--"]);
    command.arg(node.folder.path().join("program")).arg(&counter).env("XSCHED_SCHEDULER", "GLB");
    let child = Some(command.stderr(Stdio::piped()).spawn().expect("it runs"));
    let background = Background { child, counter };
    assert!(background.goes_on());
    node.start();
    node.until("it does not connect", |node| !node.status().clients.is_empty());
    let pid = background.pid().to_string();
    assert!(node.tell(&["ctl", "hold", &pid]).status.success());
    assert!(background.stands_still());
    assert!(node.tell(&["ctl", "release", &pid]).status.success());
    let said = background.end();
    assert_eq!(said.matches("this process connects later").count(), 1, "{said}");
}

/// The C library.
fn preempt() -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_xsched")).parent().expect("a folder");
    let folders = xsched_launch::folders_beside(programs).into_iter();
    let preempt = folders.map(|folder| folder.join(xsched_launch::LIBRARY)).find(|it| it.exists());
    preempt.expect("the C library is built")
}

/// Holds a program by hand and for another one, and lets it go each time.
fn check_holds(node: &Node, background: &Background, other: impl FnOnce() -> Background) {
    assert!(background.goes_on());
    let pid = background.pid().to_string();
    assert!(node.tell(&["ctl", "hold", &pid]).status.success());
    assert!(background.stands_still());
    let state = || {
        let clients = node.status().clients;
        let client = clients.into_iter().find(|client| client.pid == background.pid());
        client.expect("it is connected")
    };
    assert_eq!(state().state, "held");
    assert!(node.tell(&["ctl", "release", &pid]).status.success());
    assert!(background.goes_on());
    let holds = state().holds;
    let other = other();
    node.until("it is not held for the other one", |_| state().holds > holds);
    // The other one pauses, so both go on.
    assert!(background.goes_on() && other.goes_on());
    other.end();
}

/// What a program of [`EVENTS`] says that was counted: waits for events, numbers, and edges.
fn counted(background: Background) -> [i64; 3] {
    let said = background.end();
    let line = said.lines().find(|line| line.starts_with("waits=")).expect("what was counted");
    let numbers = line.split([' ', '=']).filter_map(|word| word.parse().ok());
    numbers.collect::<Vec<i64>>().try_into().expect("three numbers")
}

#[test]
fn streams_that_wait_for_each_other_can_be_held_without_the_device() {
    let node = Node::new();
    let source = node.folder.path().join("program.c");
    fs::write(&source, EVENTS).expect("a file");
    node.compile(&source);
    let near = [("XSCHED_GATE_SPACING_US", "1")];
    let alone = node.background_with("alone", &[], &near);
    assert!(alone.goes_on());
    let [waits, writes, edges] = counted(alone);
    assert!(waits > 0 && (writes, edges) == (0, 0), "{writes} writes for {waits} waits, {edges}");
    let start = |name| node.background_with(name, &["--class", "batch"], &near);
    let [one, other] = ["one", "other"].map(start);
    assert!(one.goes_on() && other.goes_on());
    let pid = one.pid().to_string();
    for _ in 0..20 {
        assert!(node.tell(&["ctl", "hold", &pid]).status.success());
        thread::sleep(Duration::from_millis(5));
        assert!(node.tell(&["ctl", "release", &pid]).status.success());
    }
    assert!(one.goes_on(), "a wait for a number that is never written");
    let [waits, writes, edges] = counted(one);
    // What was launched before the other one came has none.
    assert!(writes * 2 > waits, "{writes} writes for {waits} waits");
    // The last one waits for the branch anyway, and the branch now for those before that.
    assert_eq!(edges, 1, "the branch is in line");
    other.end();
}

#[test]
fn a_process_that_nothing_comes_before_is_not_made_ready_to_be_held() {
    let node = Node::new();
    let batch = node.background("batch", &["--class", "batch"]);
    assert!(batch.goes_on());
    let source = node.folder.path().join("program.c");
    fs::write(&source, EVENTS).expect("a file");
    node.compile(&source);
    let near = [("XSCHED_GATE_SPACING_US", "1")];
    let first = node.background_with("first", &["--priority", "5"], &near);
    assert!(first.goes_on());
    let [waits, writes, _] = counted(first);
    assert!(writes * 10 < waits, "{writes} writes for {waits} waits");
    let second = node.background_with("second", &["--priority", "5"], &near);
    assert!(second.goes_on());
    // Of the same program, so that it counts as well.
    let before = node.background_with("before", &["--priority", "9"], &near);
    assert!(before.goes_on() && (0..10).all(|_| second.goes_on()));
    let [waits, writes, _] = counted(second);
    assert!(writes * 10 > waits, "{writes} writes for {waits} waits");
    before.end();
    assert!(batch.goes_on());
    batch.end();
}

#[test]
fn a_program_runs_ahead_in_its_default_stream_while_the_daemon_holds_it() {
    let node = Node::new();
    let source = node.folder.path().join("program.c");
    fs::write(&source, AHEAD).expect("a file");
    node.compile(&source);
    for (name, apart) in [("ahead", None), ("apart", Some(("APART", "1")))] {
        let variables: Vec<_> = apart.into_iter().collect();
        let program = node.background_with(name, &[], &variables);
        assert!(program.goes_on());
        let pid = program.pid().to_string();
        assert!(node.tell(&["ctl", "hold", &pid]).status.success());
        let held = program.count();
        node.until("it goes on for ever", |_| program.stands_still());
        let ahead = program.count() - held;
        assert_eq!(ahead > 100, apart.is_none(), "{ahead} launches ahead, {name}");
        assert!(node.tell(&["ctl", "release", &pid]).status.success());
        assert!(program.goes_on());
        program.end();
    }
}

#[test]
fn a_process_whose_streams_have_no_gates_is_held_at_level_1() {
    // All streams share a hardware queue, so a gate of one would hold all.
    let node = Node::new();
    let one = [("CUDA_DEVICE_MAX_CONNECTIONS", "1")];
    let batch = node.background_with("batch", &["--class", "batch"], &one);
    check_holds(&node, &batch, || node.background_with("other", &["--class", "normal"], &one));
    let said = batch.end();
    assert!(said.contains("queues are at Lv1"), "it has gates: {said}");
}

#[test]
fn streams_that_are_told_apart_are_held_one_by_one() {
    let node = Node::new();
    let source = node.folder.path().join("program.c");
    fs::write(&source, STREAMS).expect("a file");
    node.compile(&source);
    for whole in [None, Some(("WHOLE", "1"))] {
        fs::write(node.folder.path().join("two-urgent"), "0\n").expect("a file");
        let near = [("XSCHED_GATE_SPACING_US", "1")];
        let variables: Vec<_> = near.into_iter().chain(whole).collect();
        let low = node.background_with("two", &["--streams"], &variables);
        let urgent = Background { child: None, counter: node.folder.path().join("two-urgent") };
        assert!(low.goes_on() && urgent.goes_on());
        let pid = low.pid();
        let of = |priority: i32| {
            let of = |one: &ClientStatus| one.pid == pid && one.priority == priority;
            let clients = node.status().clients.into_iter();
            clients.filter(of).find(|one| !one.device.is_empty())
        };
        assert!(of(0).is_some_and(|one| one.levels == [0, 1, 0]), "{:?}", node.status());
        assert!(of(5).is_some(), "{:?}", node.status());
        // A process between the two, which has work nearly always.
        let between = node.background("between", &["--priority", "3"]);
        node.until("it is not held", |_| of(0).is_some_and(|one| one.state == "held"));
        assert!(between.goes_on() && urgent.goes_on());
        assert_eq!(of(5).expect("it is connected").holds, 0);
        drop(between);
        assert!(low.goes_on() && urgent.goes_on());
        // What is done by the number of the process is done to both.
        assert!(node.tell(&["ctl", "hold", &pid.to_string()]).status.success());
        assert!(low.stands_still() && urgent.stands_still());
        assert!(node.tell(&["ctl", "release", &pid.to_string()]).status.success());
        assert!(low.goes_on() && urgent.goes_on());
        low.end();
    }
}

#[test]
fn streams_that_wait_for_each_other_have_the_priority_of_the_more_urgent_one() {
    let node = Node::new();
    let source = node.folder.path().join("program.c");
    fs::write(&source, EVENTS).expect("a file");
    node.compile(&source);
    let variables = [("XSCHED_GATE_SPACING_US", "1"), ("APART", "1")];
    let two = node.background_with("two", &["--streams"], &variables);
    assert!(two.goes_on());
    let priorities = || {
        // The process itself has the default stream.
        let clients = node.status().clients.into_iter().filter(|one| one.name.contains(" stream "));
        clients.filter(|one| one.pid == two.pid()).map(|one| one.priority).collect::<Vec<_>>()
    };
    assert_eq!(priorities(), [5, 5]);
    let other = node.background_with("other", &["--priority", "7"], &variables);
    assert!(other.goes_on() && two.goes_on() && other.goes_on());
    other.end();
    assert!(two.goes_on());
    two.end();
}

#[test]
fn a_program_on_the_host_device_is_held_at_each_level() {
    let node = Node::new();
    let source = node.folder.path().join("host.c");
    fs::write(&source, ON_HOST).expect("a file");
    let program = source.with_extension("");
    let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compile.arg(&source).arg("-ldl").arg("-o").arg(&program);
    assert!(compile.status().expect("a C compiler").success());
    for level in ["1", "2", "3"] {
        let start = |name: &str, class| {
            let counter = node.folder.path().join(format!("{name}-{level}"));
            fs::write(&counter, "0\n").expect("a file");
            let mut command = node.xsched(&["run", "--class", class, "--"]);
            command.arg(&program).arg(&counter).arg(level).env("PREEMPT", preempt());
            let child = Some(command.stderr(Stdio::piped()).spawn().expect("it runs"));
            Background { child, counter }
        };
        let batch = start("batch", "batch");
        check_holds(&node, &batch, || start("other", "normal"));
        assert_eq!(batch.end(), "");
    }
}

/// Starts [`ASKING`] without a daemon, and answers it with what it was told before and after there
/// was one.
fn asking(node: &mut Node, name: &str) -> (Background, [String; 2]) {
    node.daemon = None;
    let source = node.folder.path().join("asking.c");
    fs::write(&source, PROGRAM.replace("int main(", "static int work(") + ASKING).expect("a file");
    let (program, counter) = (source.with_extension(""), node.folder.path().join(name));
    node.compile(&source);
    fs::write(&counter, "0\n").expect("a file");
    let mut command = node.xsched(&["run", "--"]);
    command.arg(program).arg(&counter).env("PREEMPT", preempt());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut line = || said.next().expect("a line").expect("text");
    let before = line();
    node.start();
    writeln!(child.stdin.take().expect("a pipe")).expect("it reads");
    let answers = [before, line()];
    (Background { child: Some(child), counter }, answers)
}

#[test]
fn a_program_joins_when_it_asks_for_the_daemon_before_it_uses_a_gpu() {
    let mut node = Node::new();
    // It is not supported without a daemon.
    let (background, answers) = asking(&mut node, "count");
    assert_eq!(answers, ["5", "0"]);
    assert!(background.goes_on());
    let pid = background.pid().to_string();
    assert!(node.tell(&["ctl", "hold", &pid]).status.success());
    assert!(background.stands_still());
    assert!(node.tell(&["ctl", "release", &pid]).status.success());
    assert!(background.goes_on());
    drop(background);
    // It is not allowed with XQueues.
    let (background, answers) = asking(&mut node, "early");
    assert_eq!(answers, ["5", "4"]);
    assert!(background.goes_on() && node.status().clients.is_empty());
    background.end();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let node = Node::new();
    for (arguments, part) in [
        (&["ctl", "hold", "1"][..], "no process 1 is connected"),
        (&["ctl", "policy", "none"], "unknown policy"),
        (&["ctl", "set", "1", "--priority", "5"], "no process 1 is connected"),
    ] {
        let output = node.tell(arguments);
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{why}");
        assert!(why.contains(part), "{why}");
    }
    assert!(node.tell(&["ctl", "policy", "wfq"]).status.success());
    assert_eq!(node.status().policy, "wfq");
}

/// How often it kills; with `XSCHED_KILLS` more often, which takes about a second for two.
fn kills() -> u64 {
    std::env::var("XSCHED_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

#[test]
fn kills_at_any_moment_hold_no_process_and_lose_no_work() {
    let mut node = Node::new();
    node.daemon = None;
    let mut daemon = node.start_apart();
    let batch = node.background("batch", &["--class", "batch"]);
    let mut urgent = Some(node.background("urgent", &["--class", "interactive"]));
    // A different moment each time, the same ones in each run.
    let moment = |kill: u64| Duration::from_micros(kill.wrapping_mul(0x9e37_79b9) % 60_000);
    for kill in 0..kills() {
        let connected = |node: &Node| node.status().clients.len() == 2;
        node.until("both connect", connected);
        thread::sleep(moment(kill));
        if kill % 3 < 2 {
            daemon.signal(rustix::process::Signal::KILL);
        }
        if kill % 3 > 0 {
            drop(urgent.take());
        }
        assert!(batch.goes_on(), "after {kill} kills");
        if kill % 3 < 2 {
            drop(daemon);
            daemon = node.start_apart();
        }
        if kill % 3 > 0 {
            let name = format!("urgent-{kill}");
            urgent = Some(node.background(&name, &["--class", "interactive"]));
        }
        assert!(urgent.as_ref().is_some_and(Background::goes_on), "after {kill} kills");
    }
    batch.end();
    urgent.expect("one at a time").end();
    drop(daemon);
}

#[test]
fn a_daemon_that_is_stopped_loses_its_holds_and_takes_them_again() {
    let mut node = Node::new();
    node.daemon = None;
    let daemon = node.start_apart();
    let background = node.background("count", &[]);
    assert!(background.goes_on());
    let pid = background.pid().to_string();
    assert!(node.tell(&["ctl", "hold", &pid]).status.success());
    assert!(background.stands_still());
    daemon.signal(rustix::process::Signal::STOP);
    assert!(background.goes_on(), "it is held past the lease");
    daemon.signal(rustix::process::Signal::CONT);
    let still = (0..20).any(|_| background.stands_still());
    assert!(still, "a daemon that goes on does not hold it");
    assert!(node.tell(&["ctl", "release", &pid]).status.success());
    assert!(background.goes_on());
    background.end();
}
