// Programs in trouble: each case does something that an interposer may get wrong, with streams of
// two priorities, so that some are held while others run. A case that ends well exits with 0. Run
// each plain and under `xsched run`: both must end in the same way.
//
//     g++ -std=c++17 -O2 trouble.cpp -ldl -pthread -o trouble
//     ./trouble CASE      # without a case: their names
//
// Counters on the device say whether each launch ran once. TROUBLE_MANY is how many threads `many`
// has, and how many streams each of them (64).

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Handle = void *;
using Word = unsigned long long;
using std::chrono::milliseconds;

// `xt_add` counts up; `xt_spin` does so after so many cycles; `xs_trap` fails. The emulated driver
// knows them by their names.
const char *const kKernels = R"(
.version 6.5
.target sm_70
.address_size 64
.visible .entry xt_add(.param .u64 counter)
{
    .reg .b64 %a;
    ld.param.u64 %a, [counter];
    red.global.add.u64 [%a], 1;
    ret;
}
.visible .entry xt_spin(.param .u64 counter, .param .u64 cycles)
{
    .reg .b64 %a, %start, %now, %length;
    .reg .pred %more;
    ld.param.u64 %a, [counter];
    ld.param.u64 %length, [cycles];
    mov.u64 %start, %clock64;
AGAIN:
    mov.u64 %now, %clock64;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %more, %now, %length;
    @%more bra AGAIN;
    red.global.add.u64 [%a], 1;
    ret;
}
.visible .entry xs_trap()
{
    trap;
}
)";

constexpr int kNonBlocking = 1;
constexpr Word kMillisecond = 1'700'000;
Handle library;

template <typename... Arguments>
int call(const char *name, Arguments... arguments) {
  auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("the driver lacks ") + name);
  return function(arguments...);
}

// The same, which has to succeed.
template <typename... Arguments>
void must(const char *name, Arguments... arguments) {
  int code = call(name, arguments...);
  if (code != 0) throw std::runtime_error(std::string(name) + " answered " + std::to_string(code));
}

void expect(bool holds, const std::string &what) {
  if (!holds) throw std::runtime_error(what);
}

// A context that is current, its kernels, and a counter.
struct Device {
  Handle context = nullptr, module = nullptr, add = nullptr, spin = nullptr, trap = nullptr;
  Word counter = 0;

  explicit Device(bool own = false) {
    must("cuInit", 0u);
    int device = 0;
    if (own) {
      must("cuCtxCreate_v2", &context, 0u, device);
    } else {
      must("cuDevicePrimaryCtxRetain", &context, device);
      use();
    }
    must("cuModuleLoadData", &module, kKernels);
    must("cuModuleGetFunction", &add, module, "xt_add");
    must("cuModuleGetFunction", &spin, module, "xt_spin");
    must("cuModuleGetFunction", &trap, module, "xs_trap");
    must("cuMemAlloc_v2", &counter, size_t{8});
    must("cuMemsetD8_v2", counter, static_cast<unsigned char>(0), size_t{8});
    must("cuCtxSynchronize");
  }

  void use() const { must("cuCtxSetCurrent", context); }

  Handle stream(int priority) const {
    Handle stream = nullptr;
    must("cuStreamCreateWithPriority", &stream, unsigned{kNonBlocking}, priority);
    return stream;
  }

  int launch(Handle function, Handle stream, Word cycles = 0,
             const char *name = "cuLaunchKernel") const {
    Word address = counter;
    void *parameters[] = {&address, &cycles};
    return call(name, function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream, &parameters[0],
                static_cast<void **>(nullptr));
  }

  void count(Handle stream, int times, Word cycles = 0) const {
    for (int n = 0; n < times; ++n) {
      int code = launch(cycles ? spin : add, stream, cycles);
      expect(code == 0, "a launch answered " + std::to_string(code));
    }
  }

  void counted(Word wanted) const {
    Word found = 0;
    must("cuCtxSynchronize");
    must("cuMemcpyDtoH_v2", static_cast<void *>(&found), counter, size_t{8});
    expect(found == wanted, std::to_string(found) + " of " + std::to_string(wanted) + " ran");
  }
};

void sleep_on_stream(void *ms) {
  std::this_thread::sleep_for(milliseconds(reinterpret_cast<uintptr_t>(ms)));
}

// While it lives, a stream of the highest priority has something to do three quarters of the time.
// Without pauses the other streams would never run: that is what a priority means.
class Urgent {
 public:
  explicit Urgent(const Device &device) : device_(device), thread_([this] { run(); }) {
    while (!began_) std::this_thread::yield();
  }
  ~Urgent() {
    stop_ = true;
    thread_.join();
  }

 private:
  void run() {
    device_.use();
    Handle stream = device_.stream(-5);
    auto ms = reinterpret_cast<void *>(uintptr_t{15});
    while (!stop_) {
      must("cuLaunchHostFunc", stream, sleep_on_stream, ms);
      began_ = true;
      must("cuStreamSynchronize", stream);
      std::this_thread::sleep_for(milliseconds(5));
    }
    must("cuStreamDestroy_v2", stream);
  }

  const Device &device_;
  std::atomic<bool> stop_{false}, began_{false};
  std::thread thread_;
};

void plain_work() {
  Device device;
  Handle stream = device.stream(0);
  device.count(stream, 100);
  device.counted(100);
}

// A child that does not exec: the driver does not work there, and calls of it must end.
void fork_alone() {
  Device device;
  Handle stream = device.stream(0);
  {
    Urgent urgent(device);
    device.count(stream, 5);
    std::fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      int code = device.launch(device.add, stream);
      _exit(code == 0 ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    expect(WIFEXITED(status), "the child was ended by signal " + std::to_string(WTERMSIG(status)));
    expect(WEXITSTATUS(status) == 0, "a launch of the child succeeded");
  }
  device.count(stream, 5);
  device.counted(10);
}

// A child that becomes a program which uses the device.
void fork_and_exec() {
  Device device;
  Handle stream = device.stream(0);
  Urgent urgent(device);
  device.count(stream, 5);
  pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "trouble", "plain", nullptr);
    _exit(9);
  }
  int status = 0;
  waitpid(child, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the program that it became failed");
  device.counted(5);
}

// Threads that end with work in their default streams, and in streams that they leave behind.
void threads_end() {
  Device device;
  Urgent urgent(device);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::thread> threads;
    for (int n = 0; n < 16; ++n) {
      threads.emplace_back([&device] {
        device.use();
        for (int n = 0; n < 10; ++n) {
          expect(device.launch(device.add, nullptr, 0, "cuLaunchKernel_ptsz") == 0, "a launch");
        }
        device.count(device.stream(0), 5);
      });
    }
    for (auto &thread : threads) thread.join();
  }
  device.counted(4 * 16 * 15);
}

// A context that is destroyed while what was launched into its streams is held.
void destroyed_context() {
  Device device;
  for (int round = 0; round < 3; ++round) {
    Device other(true);
    std::vector<Handle> streams;
    for (int n = 0; n < 4; ++n) streams.push_back(other.stream(0));
    device.use();
    Urgent urgent(device);
    other.use();
    for (Handle stream : streams) other.count(stream, 5, kMillisecond);
    must("cuCtxDestroy_v2", other.context);
    device.use();
  }
  Handle stream = device.stream(0);
  device.count(stream, 10);
  device.counted(10);
}

// One thread captures again and again, others launch.
void capture_beside() {
  Device device;
  std::atomic<bool> stop{false};
  std::atomic<int> launched{0};
  std::vector<std::thread> others;
  for (int n = 0; n < 4; ++n) {
    others.emplace_back([&, n] {
      device.use();
      Handle stream = device.stream(n % 2 ? -5 : 0);
      while (!stop) {
        device.count(stream, 1);
        ++launched;
        must("cuStreamSynchronize", stream);
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
    });
  }
  Handle stream = device.stream(0);
  constexpr int kRounds = 200, kNodes = 8, kThreadLocal = 1;
  for (int round = 0; round < kRounds; ++round) {
    Handle graph = nullptr, exec = nullptr;
    must("cuStreamBeginCapture_v2", stream, int{kThreadLocal});
    device.count(stream, kNodes);
    must("cuStreamEndCapture", stream, &graph);
    size_t nodes = 0;
    must("cuGraphGetNodes", graph, static_cast<Handle *>(nullptr), &nodes);
    expect(nodes == kNodes, "the graph has " + std::to_string(nodes) + " nodes");
    must("cuGraphInstantiateWithFlags", &exec, graph, Word{0});
    must("cuGraphDestroy", graph);
    must("cuGraphLaunch", exec, stream);
    if (round % 2) must("cuStreamSynchronize", stream);
    must("cuGraphExecDestroy", exec);
  }
  stop = true;
  for (auto &other : others) other.join();
  device.counted(Word(kRounds) * kNodes + launched);
}

// Calls that wait for the device, while work of this process is held.
void frees_while_held() {
  Device device;
  Urgent urgent(device);
  Handle stream = device.stream(0);
  for (int round = 0; round < 40; ++round) {
    Word memory = 0;
    must("cuMemAlloc_v2", &memory, size_t{1} << 20);
    device.count(stream, 4, kMillisecond / 4);
    must("cuMemFree_v2", memory);
  }
  device.counted(160);
}

// Copies into pageable memory, whose calls return when the copy is done: of a stream that is held,
// and of one that runs meanwhile.
void copies_while_held() {
  constexpr size_t kBytes = size_t{1} << 20;
  Device device;
  Word memory = 0;
  must("cuMemAlloc_v2", &memory, kBytes);
  std::atomic<bool> is_over{false};
  std::atomic<Word> launched{0};
  auto work = [&](int priority, int kernels, Word cycles, auto more) {
    device.use();
    Handle stream = device.stream(priority);
    std::vector<char> pageable(kBytes);
    for (int round = 0; more(round); ++round) {
      device.count(stream, kernels, cycles);
      launched += kernels;
      must("cuMemcpyDtoHAsync_v2", static_cast<void *>(pageable.data()), memory, kBytes, stream);
      must("cuStreamSynchronize", stream);
      std::this_thread::sleep_for(milliseconds(priority == 0 ? 0 : 2));
    }
  };
  std::thread held([&] { work(0, 20, kMillisecond / 2, [&](int) { return !is_over.load(); }); });
  work(-5, 10, kMillisecond / 10, [](int round) { return round < 100; });
  is_over = true;
  held.join();
  device.counted(launched);
}

void out_of_memory() {
  Device device;
  Urgent urgent(device);
  Handle stream = device.stream(0);
  for (int round = 0; round < 20; ++round) {
    device.count(stream, 4, kMillisecond / 4);
    Word memory = 0;
    int code = call("cuMemAlloc_v2", &memory, size_t{1} << 45);
    expect(code == 2, "too much memory answered " + std::to_string(code));
  }
  device.counted(80);
}

// A kernel that fails loses the context, and each call says so from then on.
void trap() {
  Device device;
  Handle urgent = device.stream(-5), stream = device.stream(0);
  device.count(urgent, 10);
  device.count(stream, 10, kMillisecond / 10);
  must("cuLaunchKernel", device.trap, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream,
       static_cast<void **>(nullptr), static_cast<void **>(nullptr));
  int first = call("cuStreamSynchronize", stream), then = call("cuStreamSynchronize", urgent);
  int launch = device.launch(device.add, urgent);
  std::printf("answers: %d %d %d\n", first, then, launch);
  expect(first != 0 && then != 0 && launch != 0, "something succeeded after a trap");
}

// A process that is killed while its streams are held, and others that go on.
void killed() {
  for (int round = 0; round < 5; ++round) {
    int ready[2];
    expect(pipe(ready) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
      dup2(ready[1], 3);
      execl("/proc/self/exe", "trouble", "until-killed", nullptr);
      _exit(9);
    }
    char byte = 0;
    expect(read(ready[0], &byte, 1) == 1, "the other process did not begin");
    std::this_thread::sleep_for(milliseconds(7 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
  }
  plain_work();
}

void until_killed() {
  Device device;
  Urgent urgent(device);
  Handle stream = device.stream(0);
  for (int n = 0;; ++n) {
    device.count(stream, 1, kMillisecond / 2);
    if (n == 20) expect(write(3, "r", 1) == 1, "write");
  }
}

// Many threads with many streams each.
void many() {
  Device device;
  const char *each = std::getenv("TROUBLE_MANY");
  const int kThreads = each ? std::atoi(each) : 64, kStreams = kThreads, kLaunches = 5;
  std::vector<std::thread> threads;
  for (int n = 0; n < kThreads; ++n) {
    threads.emplace_back([&device, kStreams, n] {
      device.use();
      std::vector<Handle> streams;
      for (int m = 0; m < kStreams; ++m) streams.push_back(device.stream((n + m) % 7 ? 0 : -5));
      for (int round = 0; round < kLaunches; ++round) {
        for (Handle stream : streams) device.count(stream, 1);
      }
      for (Handle stream : streams) must("cuStreamDestroy_v2", stream);
    });
  }
  for (auto &thread : threads) thread.join();
  device.counted(Word(kThreads) * kStreams * kLaunches);
}

const std::map<std::string, std::function<void()>> kCases = {
    {"plain", plain_work},
    {"fork", fork_alone},
    {"exec", fork_and_exec},
    {"threads-end", threads_end},
    {"destroyed-context", destroyed_context},
    {"capture-beside", capture_beside},
    {"copies-while-held", copies_while_held},
    {"frees-while-held", frees_while_held},
    {"out-of-memory", out_of_memory},
    {"trap", trap},
    {"killed", killed},
    {"many", many},
};

}  // namespace

int main(int count, char **arguments) {
  std::string name = count > 1 ? arguments[1] : "";
  auto found = kCases.find(name);
  if (found == kCases.end() && name != "until-killed") {
    for (const auto &one : kCases) std::printf("%s\n", one.first.c_str());
    return 2;
  }
  library = dlopen("libcuda.so.1", RTLD_NOW);
  auto begin = std::chrono::steady_clock::now();
  try {
    expect(library != nullptr, "there is no CUDA driver");
    name == "until-killed" ? until_killed() : found->second();
  } catch (const std::exception &error) {
    std::printf("%s: %s\n", name.c_str(), error.what());
    return 1;
  }
  auto took = std::chrono::steady_clock::now() - begin;
  std::printf("%s: well, %lld ms\n", name.c_str(),
              static_cast<long long>(std::chrono::duration_cast<milliseconds>(took).count()));
}
