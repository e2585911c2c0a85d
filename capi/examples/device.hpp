// What the examples run on: the processor (`host`), or a GPU of AMD's or the emulated HIP runtime
// (`hip`). XSCHED_HIP_LIB names the runtime.

#pragma once

#include <xsched/hip/hal.h>
#include <xsched/host/hal.h>
#include <xsched/xsched.h>

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <list>
#include <mutex>
#include <string>
#include <thread>

inline void check(XResult result, const char *call) {
    if (result == kXSchedSuccess) return;
    std::cerr << call << ": " << XSchedGetLastErrorString() << '\n';
    std::exit(1);
}
#define CHECK(call) check((call), #call)

class Device {
public:
    explicit Device(const std::string &name) : is_hip_(name == "hip") {
        if (!is_hip_ && name != "host") {
            std::cerr << "say host or hip\n";
            std::exit(2);
        }
        if (is_hip_) load();
    }

    // A hardware queue: on HIP, one on a new stream.
    HwQueueHandle queue() {
        HwQueueHandle hwq = 0;
        if (!is_hip_) {
            CHECK(HostQueueCreate(&hwq));
            return hwq;
        }
        hipStream_t stream = nullptr;
        const unsigned non_blocking = 1;
        if (create_stream_(&stream, non_blocking) != 0) fail("hipStreamCreateWithFlags");
        CHECK(HipQueueCreate(&hwq, stream));
        std::lock_guard<std::mutex> guard(mutex_);
        streams_.push_back({hwq, stream});
        return hwq;
    }

    // A command that takes so many microseconds.
    HwCommandHandle command(HwQueueHandle hwq, int64_t us) {
        HwCommandHandle command = 0;
        if (!is_hip_) {
            CHECK(HostCommandCreateTimed(&command, us));
            return command;
        }
        std::lock_guard<std::mutex> guard(mutex_);
        works_.push_back({this, stream_of(hwq), us});
        CHECK(HwCommandCreateCallback(&command, launch, &works_.back()));
        return command;
    }

private:
    using HostFunction = void (*)(void *);
    struct Work {
        Device *device;
        hipStream_t stream;
        int64_t us;
    };
    struct Stream {
        HwQueueHandle hwq;
        hipStream_t stream;
    };

    // Called when it is the command's turn; what it launches is the command.
    static XResult launch(HwQueueHandle, void *data) {
        Work *work = static_cast<Work *>(data);
        int error = work->device->launch_function_(work->stream, run, work);
        return error == 0 ? kXSchedSuccess : kXSchedErrorHardware;
    }

    // In place of a kernel, so that no compiler for GPUs is needed.
    static void run(void *data) {
        std::this_thread::sleep_for(std::chrono::microseconds(static_cast<Work *>(data)->us));
    }

    static void fail(const char *what) {
        std::cerr << what << " failed\n";
        std::exit(1);
    }

    void load() {
        const char *path = std::getenv("XSCHED_HIP_LIB");
        void *library = dlopen(path != nullptr ? path : "libamdhip64.so", RTLD_NOW);
        if (library == nullptr) fail("loading HIP");
        create_stream_ = reinterpret_cast<int (*)(hipStream_t *, unsigned)>(
            dlsym(library, "hipStreamCreateWithFlags"));
        launch_function_ = reinterpret_cast<int (*)(hipStream_t, HostFunction, void *)>(
            dlsym(library, "hipLaunchHostFunc"));
        if (create_stream_ == nullptr || launch_function_ == nullptr) fail("looking up HIP");
    }

    hipStream_t stream_of(HwQueueHandle hwq) const {
        for (const Stream &stream : streams_) {
            if (stream.hwq == hwq) return stream.stream;
        }
        return nullptr;
    }

    bool is_hip_;
    int (*create_stream_)(hipStream_t *, unsigned) = nullptr;
    int (*launch_function_)(hipStream_t, HostFunction, void *) = nullptr;
    std::mutex mutex_;
    std::list<Stream> streams_;
    // A list, so that they stay where they are.
    std::list<Work> works_;
};
