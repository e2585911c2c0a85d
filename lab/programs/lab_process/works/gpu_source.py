"""Kernels from source, by NVRTC or HIPRTC and the driver's own launches, through `ctypes`.

The source is that of a program in CUDA or HIP: both compile the same text.
"""

import ctypes

from ..faults import Missing

#: Libraries of the compiler, newest first: PyTorch brings one of them.
COMPILERS = {
    "cuda": ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"),
    "hip": ("libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6", "libamdhip64.so"),
}
DRIVERS = {
    "cuda": ("libcuda.so.1",),
    "hip": ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"),
}
#: What each vendor calls the functions: create, compile, log's size and log, code's size and code.
RTC = {
    "cuda": ("nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetProgramLogSize",
             "nvrtcGetProgramLog", "nvrtcGetCUBINSize", "nvrtcGetCUBIN"),
    "hip": ("hiprtcCreateProgram", "hiprtcCompileProgram", "hiprtcGetProgramLogSize",
            "hiprtcGetProgramLog", "hiprtcGetCodeSize", "hiprtcGetCode"),
}
DRIVER = {
    "cuda": ("cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"),
    "hip": ("hipModuleLoadData", "hipModuleGetFunction", "hipModuleLaunchKernel"),
}


def library(names):
    """The first of these libraries that can be loaded."""
    failed = []
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            failed.append(str(error))
    raise Missing(f"none of {', '.join(names)} can be loaded: {failed[0]}")


def bundled(torch, vendor):
    """Names of the compiler, with those that PyTorch's packages bring in their own folders."""
    import pathlib

    home = pathlib.Path(torch.__file__).parent
    folders = [home / "lib", *home.parent.glob("nvidia/*/lib")]
    found = [path for folder in folders for name in COMPILERS[vendor]
             for path in folder.glob(f"{name}*")]
    return (*COMPILERS[vendor], *map(str, found))


def answered(code, what):
    """Raises what a call answered, unless it was fine."""
    if code != 0:
        raise RuntimeError(f"{what} answered {code}")


def compile_source(compiler, vendor, source, architecture):
    """Machine code of a source for an architecture, such as `sm_90a` or `gfx942`."""
    create, compile_, log_size, log, code_size, code = (
        getattr(compiler, name) for name in RTC[vendor])
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    made = create(ctypes.byref(program), source.encode(), b"lab.cu", 0, None, None)
    answered(made, RTC[vendor][0])
    flag = "--gpu-architecture=" if vendor == "cuda" else "--offload-arch="
    options = (ctypes.c_char_p * 1)((flag + architecture).encode())
    if compile_(program, 1, options) != 0:
        log_size(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value or 1)
        log(program, text)
        raise RuntimeError(f"the source does not compile: {text.value.decode()}")
    answered(code_size(program, ctypes.byref(size)), RTC[vendor][4])
    binary = ctypes.create_string_buffer(size.value)
    answered(code(program, binary), RTC[vendor][5])
    return binary.raw


class Kernels:
    """The kernels of a source, loaded into the device's context."""

    def __init__(self, torch, vendor, source, names):
        properties = torch.cuda.get_device_properties(0)
        architecture = (f"sm_{properties.major}{properties.minor}" if vendor == "cuda"
                        else properties.gcnArchName)
        compiler = library(bundled(torch, vendor))
        binary = compile_source(compiler, vendor, source, architecture)
        self.torch, driver = torch, library(DRIVERS[vendor])
        load, find, self.start = (getattr(driver, name) for name in DRIVER[vendor])
        self.start.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p,
                               ctypes.c_void_p, ctypes.c_void_p]
        module = ctypes.c_void_p()
        answered(load(ctypes.byref(module), binary), "loading the kernels")
        self.functions = {}
        for name in names:
            function = ctypes.c_void_p()
            answered(find(ctypes.byref(function), module, name.encode()), f"finding {name}")
            self.functions[name] = function

    def launch(self, name, blocks, threads, *arguments):
        """Launches a kernel into the current stream: tensors, integers and floats as arguments."""
        values = [self.value(one) for one in arguments]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        stream = self.torch.cuda.current_stream().cuda_stream
        code = self.start(self.functions[name], *blocks, *threads, 0, stream, pointers, None)
        answered(code, f"launching {name}")

    def value(self, argument):
        """An argument as the kernel takes it."""
        if self.torch.is_tensor(argument):
            return ctypes.c_void_p(argument.data_ptr())
        return (ctypes.c_float if isinstance(argument, float) else ctypes.c_int)(argument)
