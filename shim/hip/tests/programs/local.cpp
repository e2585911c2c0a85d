// A program whose plugin brings HIP along, loaded for the plugin alone: with PLUGIN defined the
// plugin, without it the program. It prints what the plugin's calls answered, and how many threads
// the process has then.

#ifdef PLUGIN

extern "C" {
int hipStreamCreate(void **stream);
int hipMemsetAsync(void *to, int value, unsigned long bytes, void *stream);
int hipStreamSynchronize(void *stream);
int hipStreamDestroy(void *stream);
int hipHostMalloc(void **memory, unsigned long bytes, unsigned flags);
int hipHostFree(void *memory);

int use(void) {
  void *stream = nullptr, *memory = nullptr;
  if (int code = hipStreamCreate(&stream)) return code;
  if (int code = hipHostMalloc(&memory, 64, 0)) return code;
  if (int code = hipMemsetAsync(memory, 1, 64, stream)) return code;
  if (int code = hipStreamSynchronize(stream)) return code;
  if (*static_cast<char *>(memory) != 1) return -1;
  if (int code = hipHostFree(memory)) return code;
  return hipStreamDestroy(stream);
}
}

#else

#include <dirent.h>
#include <dlfcn.h>

#include <cstdio>

int main(int, char **arguments) {
  void *plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  auto use = plugin ? reinterpret_cast<int (*)()>(dlsym(plugin, "use")) : nullptr;
  if (!use) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int code = use(), threads = 0;
  DIR *tasks = opendir("/proc/self/task");
  while (dirent *task = readdir(tasks)) threads += task->d_name[0] != '.';
  closedir(tasks);
  std::printf("%d %d\n", code, threads);
  return 0;
}

#endif
