// What a launch costs the thread that makes it: empty kernels, launched into an idle device one by
// one, and 200 in a row, on the legacy default stream and on a stream of their own. A program that
// knows nothing of XQueues: run it plain and under `xsched run`.
//
// Usage: launches PTX [SAMPLES]

#include <cstdio>
#include <cstdlib>

#include "../../capi/bench/cuda.hpp"
#include "../../capi/bench/report.hpp"

namespace {

constexpr int kInARow = 200;

void measure(const Driver &driver, const Kernels &kernels, CUstream stream, int samples,
             const char *name) {
  std::vector<int64_t> lone, row;
  for (int n = 0; n < samples + 100; ++n) {
    int64_t begin = now_ns();
    Driver::check(kernels.launch_empty(stream), "cuLaunchKernel");
    int64_t end = now_ns();
    driver.wait(stream);
    if (n >= 100) lone.push_back(end - begin);
  }
  for (int n = 0; n < samples / kInARow + 1; ++n) {
    for (int k = 0; k < kInARow; ++k) {
      int64_t begin = now_ns();
      Driver::check(kernels.launch_empty(stream), "cuLaunchKernel");
      row.push_back(now_ns() - begin);
    }
    driver.wait(stream);
  }
  std::printf("{\"stream\": \"%s\", ", name);
  Quantiles(lone).print("alone");
  std::printf(", ");
  Quantiles(row).print("in_a_row");
  std::printf("}\n");
}

}  // namespace

int main(int count, char **arguments) {
  if (count < 2) return std::fprintf(stderr, "usage: launches PTX [SAMPLES]\n"), 2;
  int samples = count > 2 ? std::atoi(arguments[2]) : 20000;
  Driver driver;
  Kernels kernels(driver, arguments[1]);
  measure(driver, kernels, nullptr, samples, "legacy");
  measure(driver, kernels, driver.stream(), samples, "own");
}
