// What the examples run on: the processor (`host`), a GPU of AMD's or the emulated HIP runtime
// (`hip`), or a GPU of NVIDIA's (`cuda`). XSCHED_HIP_LIB and XSCHED_CUDA_LIB name the library.

#pragma once

#include <xsched/cuda/hal.h>
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
    explicit Device(const std::string &name) {
        if (name == "hip") {
            load(std::getenv("XSCHED_HIP_LIB"), "libamdhip64.so");
            look_up("hipStreamCreateWithFlags", create_stream_);
            look_up("hipLaunchHostFunc", launch_function_);
        } else if (name == "cuda") {
            load(std::getenv("XSCHED_CUDA_LIB"), "libcuda.so.1");
            look_up("cuStreamCreate", create_stream_);
            look_up("cuLaunchHostFunc", launch_function_);
            look_up("cuCtxSetCurrent", set_context_);
            int (*init)(unsigned) = nullptr;
            int (*retain)(void **, int) = nullptr;
            look_up("cuInit", init);
            look_up("cuDevicePrimaryCtxRetain", retain);
            if (init(0) != 0 || retain(&context_, 0) != 0) fail("opening the first GPU");
        } else if (name != "host") {
            std::cerr << "say host, hip or cuda\n";
            std::exit(2);
        }
    }

    // A hardware queue: on a GPU, one on a new stream.
    HwQueueHandle queue() {
        HwQueueHandle hwq = 0;
        if (library_ == nullptr) {
            CHECK(HostQueueCreate(&hwq));
            return hwq;
        }
        if (set_context_ != nullptr && set_context_(context_) != 0) fail("cuCtxSetCurrent");
        void *stream = nullptr;
        const unsigned non_blocking = 1;
        if (create_stream_(&stream, non_blocking) != 0) fail("making a stream");
        if (set_context_ != nullptr) {
            CHECK(CudaQueueCreate(&hwq, static_cast<CUstream>(stream)));
        } else {
            CHECK(HipQueueCreate(&hwq, static_cast<hipStream_t>(stream)));
        }
        std::lock_guard<std::mutex> guard(mutex_);
        streams_.push_back({hwq, stream});
        return hwq;
    }

    // A command that takes so many microseconds.
    HwCommandHandle command(HwQueueHandle hwq, int64_t us) {
        HwCommandHandle command = 0;
        if (library_ == nullptr) {
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
        void *stream;
        int64_t us;
    };
    struct Stream {
        HwQueueHandle hwq;
        void *stream;
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

    void load(const char *named, const char *usual) {
        library_ = dlopen(named != nullptr ? named : usual, RTLD_NOW);
        if (library_ == nullptr) fail(dlerror());
    }

    template <typename Function>
    void look_up(const char *name, Function &function) {
        function = reinterpret_cast<Function>(dlsym(library_, name));
        if (function == nullptr) fail(name);
    }

    void *stream_of(HwQueueHandle hwq) const {
        for (const Stream &stream : streams_) {
            if (stream.hwq == hwq) return stream.stream;
        }
        return nullptr;
    }

    void *library_ = nullptr;
    void *context_ = nullptr;
    int (*create_stream_)(void **, unsigned) = nullptr;
    int (*launch_function_)(void *, HostFunction, void *) = nullptr;
    int (*set_context_)(void *) = nullptr;
    std::mutex mutex_;
    std::list<Stream> streams_;
    // A list, so that they stay where they are.
    std::list<Work> works_;
};
