// Holds a program's streams at random moments: preloaded beside the interposer, it has a thread
// with a stream of the highest priority, into which it launches a host function that sleeps. While
// that runs, the program's other streams wait. It uses nothing but CUDA's driver.
//
//     g++ -std=c++17 -O2 -shared -fPIC holder.cpp -ldl -pthread -o holder.so
//     LD_PRELOAD=holder.so xsched run -- python program.py
//
// HOLDER_SEED is the seed. The last line on standard error has the number of holds.

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

namespace {

using Handle = void *;
using std::chrono::microseconds;

std::atomic<bool> stop{false};
std::atomic<uint64_t> holds{0}, held_us{0};

// Sleeps for so many microseconds, on a thread of the driver's.
void sleep_on_stream(void *us) {
  auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(microseconds(reinterpret_cast<uintptr_t>(us)));
  auto slept = std::chrono::steady_clock::now() - begin;
  held_us += std::chrono::duration_cast<microseconds>(slept).count();
}

template <typename F>
F function(Handle driver, const char *name) {
  return reinterpret_cast<F>(dlsym(driver, name));
}

// The driver, once the program has made its context current somewhere.
Handle driver_in_use() {
  while (!stop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Handle driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!driver) continue;
    auto state = function<int (*)(int, unsigned *, int *)>(driver, "cuDevicePrimaryCtxGetState");
    unsigned flags = 0;
    int active = 0;
    if (state && state(0, &flags, &active) == 0 && active) return driver;
  }
  return nullptr;
}

void hold() {
  Handle driver = driver_in_use(), context = nullptr, stream = nullptr;
  if (!driver) return;
  auto retain = function<int (*)(Handle *, int)>(driver, "cuDevicePrimaryCtxRetain");
  auto enter = function<int (*)(Handle)>(driver, "cuCtxSetCurrent");
  auto create = function<int (*)(Handle *, unsigned, int)>(driver, "cuStreamCreateWithPriority");
  auto launch = function<int (*)(Handle, void (*)(void *), void *)>(driver, "cuLaunchHostFunc");
  auto wait = function<int (*)(Handle)>(driver, "cuStreamSynchronize");
  // So that it spoils no capture of another thread.
  auto relax = function<int (*)(int *)>(driver, "cuThreadExchangeStreamCaptureMode");
  int mode = 2;
  relax(&mode);
  constexpr unsigned kNonBlocking = 1;
  if (retain(&context, 0) || enter(context) || create(&stream, kNonBlocking, -5)) return;
  const char *seed = std::getenv("HOLDER_SEED");
  std::mt19937_64 random(seed ? std::strtoull(seed, nullptr, 10) : 1);
  std::uniform_int_distribution<int> between(200, 6000), length(100, 3000);
  while (!stop) {
    std::this_thread::sleep_for(microseconds(between(random)));
    auto us = reinterpret_cast<void *>(static_cast<uintptr_t>(length(random)));
    if (launch(stream, sleep_on_stream, us) || wait(stream)) return;
    ++holds;
  }
}

std::thread *holder = nullptr;

void end() {
  stop = true;
  holder->join();
  if (holds == 0) return;
  std::fprintf(stderr, "holder: %llu holds, %llu us in all\n",
               static_cast<unsigned long long>(holds), static_cast<unsigned long long>(held_us));
}

__attribute__((constructor)) void begin() {
  holder = new std::thread(hold);
  std::atexit(end);
}

}  // namespace
