// A HIP program that knows nothing of XSched: an urgent stream and a busy one. It prints how many
// kernels of the busy stream ran while the urgent one had something to do, per request.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

// What HIP declares, so that the program builds without it.
extern "C" {
int hipStreamCreateWithPriority(void **stream, unsigned flags, int priority);
int hipStreamDestroy(void *stream);
int hipStreamSynchronize(void *stream);
int hipModuleLoadData(void **module, const void *image);
int hipModuleGetFunction(void **function, void *module, const char *name);
int hipModuleLaunchKernel(void *function, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, unsigned, void *stream, void **parameters, void **extra);
int hipEventCreateWithFlags(void **event, unsigned flags);
int hipEventRecord(void *event, void *stream);
int hipEventSynchronize(void *event);
int hipEventDestroy(void *event);
}

namespace {

void check(int code, const char *call) {
  if (code == 0) return;
  std::fprintf(stderr, "%s answered %d\n", call, code);
  std::exit(1);
}

void *kernel() {
  std::ifstream file(std::getenv("KERNELS"));
  std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  image.push_back('\0');
  void *module = nullptr, *function = nullptr;
  check(hipModuleLoadData(&module, image.c_str()), "hipModuleLoadData");
  check(hipModuleGetFunction(&function, module, "xs_spin"), "hipModuleGetFunction");
  return function;
}

void launch(void *function, void *stream, uint64_t cycles) {
  uint64_t stamps = 0;
  void *parameters[] = {&cycles, &stamps};
  check(hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr),
        "hipModuleLaunchKernel");
  // The arguments were copied by the launch, so this changes nothing.
  cycles = stamps = ~uint64_t{0};
}

std::atomic<bool> stop{false};
std::atomic<int> ran{0};

// Keeps eight kernels in flight.
void busy(void *function, void *stream) {
  std::deque<void *> flying;
  auto finish = [&flying] {
    check(hipEventSynchronize(flying.front()), "hipEventSynchronize");
    check(hipEventDestroy(flying.front()), "hipEventDestroy");
    flying.pop_front();
    ++ran;
  };
  while (!stop) {
    void *event = nullptr;
    launch(function, stream, 500'000);
    check(hipEventCreateWithFlags(&event, 2), "hipEventCreateWithFlags");
    check(hipEventRecord(event, stream), "hipEventRecord");
    flying.push_back(event);
    if (flying.size() == 8) finish();
  }
  while (!flying.empty()) finish();
}

}  // namespace

int main() {
  constexpr int kRequests = 40, kKernels = 8;
  void *function = kernel(), *urgent = nullptr, *lazy = nullptr;
  check(hipStreamCreateWithPriority(&urgent, 1, -1), "hipStreamCreateWithPriority");
  check(hipStreamCreateWithPriority(&lazy, 1, 1), "hipStreamCreateWithPriority");
  std::thread background(busy, function, lazy);
  int beside = 0;
  for (int n = 0; n < kRequests; ++n) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    int before = ran;
    for (int k = 0; k < kKernels; ++k) launch(function, urgent, 500'000);
    check(hipStreamSynchronize(urgent), "hipStreamSynchronize");
    beside += ran - before;
  }
  stop = true;
  background.join();
  check(hipStreamDestroy(urgent), "hipStreamDestroy");
  check(hipStreamDestroy(lazy), "hipStreamDestroy");
  std::printf("%.2f\n", static_cast<double>(beside) / kRequests);
  return ran > 0 ? 0 : 1;
}
