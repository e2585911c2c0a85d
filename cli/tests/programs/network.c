// A program of the shape of PyTorch's on ROCm, linked with HIP's runtime: it trains a small network in
// the legacy default stream, with the libraries' ways to launch, pools of memory, copies in a stream
// of its own, backward passes in another thread, and replays of a graph. It compares all results with
// the processor's, and prints them. A line that begins with FAILED says what is wrong.
//
//   network KERNELS STEPS [FILE]     with a file: until the file is gone, and counts its steps there

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(truth) \
  if (!(truth)) printf("FAILED in line %d: %s\n", __LINE__, #truth), exit(1)
#define OK(call) CHECK((call) == 0)

typedef void *handle;
typedef struct {
  unsigned x, y, z;
} dim3;

enum { BATCH = 32, IN = 16, HIDDEN = 16, OUT = 8, BLOCK = 64, REPLAYS = 3 };
enum { BATCH_IN = BATCH * IN, BATCH_HIDDEN = BATCH * HIDDEN, BATCH_OUT = BATCH * OUT };
enum { IN_HIDDEN = IN * HIDDEN, HIDDEN_OUT = HIDDEN * OUT };
enum { TO_DEVICE = 1, TO_HOST = 2, NON_BLOCKING = 1, WITHOUT_TIMES = 2, RELEASE_THRESHOLD = 4 };

int hipGetDeviceCount(int *), hipSetDevice(int), hipGetDevice(int *), hipDeviceSynchronize(void);
int hipDeviceGetStreamPriorityRange(int *, int *), hipGetLastError(void);
int hipStreamCreate(handle *), hipStreamCreateWithPriority(handle *, unsigned, int);
int hipStreamSynchronize(handle), hipStreamWaitEvent(handle, handle, unsigned), hipStreamDestroy(handle);
int hipEventCreateWithFlags(handle *, unsigned), hipEventCreate(handle *), hipEventRecord(handle, handle);
int hipEventQuery(handle), hipEventSynchronize(handle), hipEventElapsedTime(float *, handle, handle);
int hipMalloc(void *, size_t), hipFree(void *), hipHostMalloc(void *, size_t, unsigned), hipHostFree(void *);
int hipDeviceGetDefaultMemPool(handle *, int), hipMemPoolSetAttribute(handle, int, void *);
int hipMallocAsync(void *, size_t, handle), hipFreeAsync(void *, handle);
int hipMemcpyAsync(void *, const void *, size_t, unsigned, handle);
int hipMemcpyWithStream(void *, const void *, size_t, unsigned, handle);
int hipMemsetAsync(void *, int, size_t, handle);
int hipModuleLoadData(handle *, const void *), hipModuleGetFunction(handle *, handle, const char *);
int hipExtModuleLaunchKernel(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, size_t,
                             handle, void **, void **, handle, handle, unsigned)
    // As C++ calls it, which is what all versions have.
    __asm__("_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j");
int hipModuleLaunchKernel(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          handle, void **, void **);
int hipLaunchKernel(const void *, dim3, dim3, void **, size_t, handle);
int hipStreamBeginCapture(handle, int), hipStreamEndCapture(handle, handle *);
int hipGraphInstantiate(handle *, handle, handle, char *, size_t), hipGraphLaunch(handle, handle);
int hipGraphExecDestroy(handle), hipGraphDestroy(handle);
void **__hipRegisterFatBinary(const void *);
void __hipRegisterFunction(void **, const void *, const char *, const char *, unsigned, void *, void *, void *,
                           void *, void *);

static handle gemm, loss;
static struct {
  unsigned magic, version;
  const void *image, *none;
} code = {0x48495046, 1, NULL, NULL};

// What a compiler puts in the place of kernels.
static void rectify(float *words, unsigned count) { (void)words, (void)count; }
static void rectify_back(float *words, const float *other, unsigned count) { (void)words, (void)other, (void)count; }
static void descend(float *words, const float *other, float rate, unsigned count) {
  (void)words, (void)other, (void)rate, (void)count;
}

static void load(const char *path) {
  _Alignas(4096) static char image[1 << 16];
  FILE *file = fopen(path, "rb");
  CHECK(file && fread(image, 1, sizeof image - 1, file) > 0);
  fclose(file);
  code.image = image;
  void **modules = __hipRegisterFatBinary(&code);
  static const struct {
    const void *stub;
    const char *name;
  } STUBS[] = {{(const void *)rectify, "rectify"}, {(const void *)rectify_back, "rectify_back"},
               {(const void *)descend, "descend"}};
  for (unsigned n = 0; n < sizeof STUBS / sizeof *STUBS; n++)
    __hipRegisterFunction(modules, STUBS[n].stub, STUBS[n].name, STUBS[n].name, 0, NULL, NULL, NULL, NULL, NULL);
  handle module;
  OK(hipModuleLoadData(&module, image));
  OK(hipModuleGetFunction(&gemm, module, "gemm"));
  OK(hipModuleGetFunction(&loss, module, "loss"));
}

// As the libraries for matrices launch.
static void multiply(float *a, float *b, float *c, unsigned rows, unsigned columns, unsigned inner, unsigned turned,
                     handle stream) {
  void *parameters[] = {&a, &b, &c, &rows, &columns, &inner, &turned};
  OK(hipExtModuleLaunchKernel(gemm, (rows * columns + BLOCK - 1) / BLOCK * BLOCK, 1, 1, BLOCK, 1, 1, 0, stream,
                              parameters, NULL, NULL, NULL, 0));
}

// As operators do.
static void each(const void *kernel, unsigned count, void **parameters, handle stream) {
  dim3 grid = {(count + BLOCK - 1) / BLOCK, 1, 1}, block = {BLOCK, 1, 1};
  OK(hipLaunchKernel(kernel, grid, block, parameters, 0, stream));
}

// The same on the processor.
static void host_multiply(const float *a, const float *b, float *c, int rows, int columns, int inner, int turned) {
  for (int row = 0; row < rows; row++)
    for (int column = 0; column < columns; column++) {
      float sum = 0;
      for (int n = 0; n < inner; n++)
        sum = fmaf(turned & 1 ? a[n * rows + row] : a[row * inner + n],
                   turned & 2 ? b[column * inner + n] : b[n * columns + column], sum);
      c[row * columns + column] = sum;
    }
}

static float random_word(void) {
  static uint32_t state = 12345;
  state = state * 1664525 + 1013904223;
  return (float)(int32_t)state / 2147483648.0f;
}

// The network: on the device, and on the processor.
static float *first, *second, *of_first, *of_second, *squares;
static struct {
  float first[IN_HIDDEN], second[HIDDEN_OUT];
} host;

static void forward(float *in, float *hidden, float *out, handle stream) {
  unsigned count = BATCH_HIDDEN;
  multiply(in, first, hidden, BATCH, HIDDEN, IN, 0, stream);
  each((const void *)rectify, count, (void *[]){&hidden, &count}, stream);
  multiply(hidden, second, out, BATCH, OUT, HIDDEN, 0, stream);
}

static void host_forward(const float *in, float *hidden, float *out) {
  host_multiply(in, host.first, hidden, BATCH, HIDDEN, IN, 0);
  for (int n = 0; n < BATCH_HIDDEN; n++) hidden[n] = hidden[n] < 0 ? 0 : hidden[n];
  host_multiply(hidden, host.second, out, BATCH, OUT, HIDDEN, 0);
}

static const float RATE = 0.001f;

// A backward pass, for which there is another thread.
struct backward {
  float *in, *hidden, *out;
};

static void *backward(void *argument) {
  struct backward *pass = argument;
  float *of_hidden, rate = RATE;
  unsigned hidden = BATCH_HIDDEN, in_hidden = IN_HIDDEN, hidden_out = HIDDEN_OUT;
  OK(hipSetDevice(0));
  OK(hipMallocAsync(&of_hidden, sizeof(float) * BATCH_HIDDEN, NULL));
  multiply(pass->hidden, pass->out, of_second, HIDDEN, OUT, BATCH, 1, NULL);
  multiply(pass->out, second, of_hidden, BATCH, HIDDEN, OUT, 2, NULL);
  each((const void *)rectify_back, hidden, (void *[]){&of_hidden, &pass->hidden, &hidden}, NULL);
  multiply(pass->in, of_hidden, of_first, IN, HIDDEN, BATCH, 1, NULL);
  each((const void *)descend, in_hidden, (void *[]){&first, &of_first, &rate, &in_hidden}, NULL);
  each((const void *)descend, hidden_out, (void *[]){&second, &of_second, &rate, &hidden_out}, NULL);
  OK(hipFreeAsync(of_hidden, NULL));
  return NULL;
}

// What the step before this one computes, on the processor: the loss.
static float host_step(const float *in, const float *wanted) {
  float hidden[BATCH_HIDDEN], out[BATCH_OUT], of_hidden[BATCH_HIDDEN], parts[BLOCK] = {0};
  float of_first[IN_HIDDEN], of_second[HIDDEN_OUT];
  host_forward(in, hidden, out);
  for (int n = 0; n < BATCH_OUT; n++) {
    out[n] -= wanted[n];
    parts[n % BLOCK] = fmaf(out[n], out[n], parts[n % BLOCK]);
  }
  for (int half = BLOCK / 2; half; half /= 2)
    for (int n = 0; n < half; n++) parts[n] += parts[n + half];
  host_multiply(hidden, out, of_second, HIDDEN, OUT, BATCH, 1);
  host_multiply(out, host.second, of_hidden, BATCH, HIDDEN, OUT, 2);
  for (int n = 0; n < BATCH_HIDDEN; n++) of_hidden[n] = hidden[n] == 0 ? 0 : of_hidden[n];
  host_multiply(in, of_hidden, of_first, IN, HIDDEN, BATCH, 1);
  for (int n = 0; n < IN_HIDDEN; n++) host.first[n] = fmaf(-RATE, of_first[n], host.first[n]);
  for (int n = 0; n < HIDDEN_OUT; n++) host.second[n] = fmaf(-RATE, of_second[n], host.second[n]);
  return parts[0];
}

static float *pinned;
static handle copies, copied;

// The next batch, through pinned memory and a stream for copies, for which the default stream waits.
static void next_batch(float *in, float *wanted) {
  OK(hipEventSynchronize(copied));
  for (int n = 0; n < BATCH_IN + BATCH_OUT; n++) pinned[n] = random_word();
  OK(hipMemcpyAsync(in, pinned, sizeof(float) * BATCH_IN, TO_DEVICE, copies));
  OK(hipMemcpyAsync(wanted, pinned + BATCH_IN, sizeof(float) * BATCH_OUT, TO_DEVICE, copies));
  OK(hipEventRecord(copied, copies));
  OK(hipStreamWaitEvent(NULL, copied, 0));
}

static void train(float *in, float *wanted) {
  float *hidden, *out, found;
  unsigned count = BATCH_OUT;
  next_batch(in, wanted);
  OK(hipMallocAsync(&hidden, sizeof(float) * BATCH_HIDDEN, NULL));
  OK(hipMallocAsync(&out, sizeof(float) * BATCH_OUT, NULL));
  OK(hipMemsetAsync(out, 0, sizeof(float) * BATCH_OUT, NULL));
  forward(in, hidden, out, NULL);
  OK(hipModuleLaunchKernel(loss, 1, 1, 1, BLOCK, 1, 1, 0, NULL, (void *[]){&out, &wanted, &squares, &count}, NULL));
  pthread_t thread;
  struct backward pass = {in, hidden, out};
  OK(pthread_create(&thread, NULL, backward, &pass));
  OK(pthread_join(thread, NULL));
  OK(hipMemcpyWithStream(&found, squares, sizeof found, TO_HOST, NULL));
  float expected = host_step(pinned, pinned + BATCH_IN);
  CHECK(!memcmp(&found, &expected, sizeof found));
  printf("loss %a\n", found);
  OK(hipFreeAsync(hidden, NULL));
  OK(hipFreeAsync(out, NULL));
}

static void same(const float *device, const float *expected, size_t words) {
  float read[BATCH_HIDDEN];
  OK(hipMemcpyWithStream(read, device, sizeof(float) * words, TO_HOST, NULL));
  CHECK(!memcmp(read, expected, sizeof(float) * words));
}

// Captures a forward pass in a stream of its own, and replays it in the default stream and another.
static void replay(float *in, float *wanted, handle side) {
  float *hidden, *out, host_hidden[BATCH_HIDDEN], host_out[BATCH_OUT];
  handle graph, executable, done;
  OK(hipMalloc(&hidden, sizeof(float) * BATCH_HIDDEN));
  OK(hipMalloc(&out, sizeof(float) * BATCH_OUT));
  OK(hipDeviceSynchronize());
  OK(hipStreamBeginCapture(side, 0));
  forward(in, hidden, out, side);
  OK(hipStreamEndCapture(side, &graph));
  OK(hipGraphInstantiate(&executable, graph, NULL, NULL, 0));
  OK(hipEventCreateWithFlags(&done, WITHOUT_TIMES));
  for (int n = 0; n < REPLAYS; n++) {
    next_batch(in, wanted);
    if (n % 2) {
      OK(hipStreamWaitEvent(side, copied, 0));
      OK(hipGraphLaunch(executable, side));
      OK(hipEventRecord(done, side));
      OK(hipStreamWaitEvent(NULL, done, 0));
    } else {
      OK(hipGraphLaunch(executable, NULL));
    }
    host_forward(pinned, host_hidden, host_out);
    same(out, host_out, BATCH_OUT);
    printf("replay %a\n", host_out[0]);
  }
  OK(hipGraphExecDestroy(executable));
  OK(hipGraphDestroy(graph));
  OK(hipFree(hidden));
  OK(hipFree(out));
}

// Streams of the kinds that programs make, each with a chain of products that must stay in order.
static void streams(float *in, const handle *of_kinds, int count) {
  float expected[2][IN_HIDDEN], *chain[8];
  unsigned words = IN_HIDDEN;
  float rate = 0.5f;
  (void)in;
  for (int s = 0; s < count; s++) {
    OK(hipMalloc(&chain[s], sizeof expected));
    OK(hipMemcpyAsync(chain[s], host.first, sizeof *expected, TO_DEVICE, of_kinds[s]));
  }
  memcpy(expected[0], host.first, sizeof *expected);
  for (int n = 0; n < 6; n++) {
    for (int s = 0; s < count; s++) {
      float *from = chain[s] + n % 2 * IN_HIDDEN, *to = chain[s] + (n + 1) % 2 * IN_HIDDEN;
      multiply(from, from, to, IN, HIDDEN, IN, 0, of_kinds[s]);
      each((const void *)descend, words, (void *[]){&to, &from, &rate, &words}, of_kinds[s]);
    }
    float *from = expected[n % 2], *to = expected[(n + 1) % 2];
    host_multiply(from, from, to, IN, HIDDEN, IN, 0);
    for (unsigned at = 0; at < words; at++) to[at] = fmaf(-rate, from[at], to[at]);
  }
  for (int s = 0; s < count; s++) {
    OK(hipStreamSynchronize(of_kinds[s]));
    same(chain[s], expected[0], IN_HIDDEN);
    OK(hipFree(chain[s]));
  }
}

int main(int count, char **arguments) {
  int devices = 0, least, greatest, device = -1;
  CHECK(count >= 3);
  OK(hipGetDeviceCount(&devices));
  CHECK(devices > 0);
  OK(hipSetDevice(0));
  OK(hipGetDevice(&device));
  OK(hipDeviceGetStreamPriorityRange(&least, &greatest));
  load(arguments[1]);

  handle pool, streams_of[5], begun, ended;
  uint64_t all = UINT64_MAX;
  OK(hipDeviceGetDefaultMemPool(&pool, device));
  OK(hipMemPoolSetAttribute(pool, RELEASE_THRESHOLD, &all));
  for (int s = 0; s < 2; s++) OK(hipStreamCreateWithPriority(&streams_of[s], NON_BLOCKING, s ? greatest : 0));
  for (int s = 2; s < 5; s++) OK(hipStreamCreate(&streams_of[s]));
  OK(hipStreamCreateWithPriority(&copies, NON_BLOCKING, 0));
  OK(hipEventCreateWithFlags(&copied, WITHOUT_TIMES));
  OK(hipEventCreate(&begun));
  OK(hipEventCreate(&ended));

  // One large piece of memory for what stays.
  float *memory, *in, *wanted;
  OK(hipMalloc(&memory, 2 << 20));
  float **places[] = {&in, &wanted, &first, &second, &of_first, &of_second, &squares};
  const int words[] = {BATCH_IN, BATCH_OUT, IN_HIDDEN, HIDDEN_OUT, IN_HIDDEN, HIDDEN_OUT, 1};
  float *place = memory;
  for (int n = 0; n < 7; n++) *places[n] = place, place += (words[n] + 127) / 128 * 128;
  OK(hipHostMalloc(&pinned, sizeof(float) * (BATCH_IN + BATCH_OUT), 0));
  for (int n = 0; n < IN_HIDDEN; n++) host.first[n] = random_word() / 4;
  for (int n = 0; n < HIDDEN_OUT; n++) host.second[n] = random_word() / 4;
  OK(hipMemcpyWithStream(first, host.first, sizeof host.first, TO_DEVICE, NULL));
  OK(hipMemcpyWithStream(second, host.second, sizeof host.second, TO_DEVICE, NULL));

  OK(hipEventRecord(begun, NULL));
  unsigned done = 0, steps = (unsigned)atoi(arguments[2]);
  while (count < 4 ? done < steps : !access(arguments[3], F_OK)) {
    train(in, wanted);
    done++;
    FILE *file = count < 4 ? NULL : fopen(arguments[3], "r+");
    if (file) fprintf(file, "%u\n", done), fclose(file);
  }
  OK(hipEventRecord(ended, NULL));
  replay(in, wanted, streams_of[0]);
  streams(in, streams_of, 5);

  float ms = 0;
  while (hipEventQuery(ended) == 600) usleep(100);
  OK(hipEventElapsedTime(&ms, begun, ended));
  CHECK(ms > 0 && hipGetLastError() == 0);
  same(first, host.first, IN_HIDDEN);
  same(second, host.second, HIDDEN_OUT);
  OK(hipDeviceSynchronize());
  for (int s = 0; s < 5; s++) OK(hipStreamDestroy(streams_of[s]));
  OK(hipHostFree(pinned));
  OK(hipFree(memory));
  printf("weights %a %a\n", host.first[0], host.second[0]);
  return 0;
}
