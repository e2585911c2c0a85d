// Streams that share a connection with one that waits for a word: how many kernels of other streams do
// not run while K streams wait. `nvcc -arch=sm_90 -lcuda connections.cu && ./a.out 56 8`: so many
// streams of normal priority and of the highest one, with CUDA_DEVICE_MAX_CONNECTIONS as it is.
#include <cuda.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <chrono>
#include <thread>
#include <string>
#define OK(x) do { CUresult r_ = (x); if (r_) { printf("%s: %d\n", #x, r_); exit(1); } } while (0)
typedef std::chrono::steady_clock C;
__global__ void tiny(int *p) { if (p) *p += 1; }
__global__ void spin(long long ns) { long long t0, t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t0)); do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); } while (t - t0 < ns); }
int low, high, n, *p; std::vector<cudaStream_t> s; std::vector<cudaEvent_t> e; unsigned *word; CUdeviceptr at;
void close_(int i) { OK(cuStreamWaitValue32((CUstream)s[i], at, 0, CU_STREAM_WAIT_VALUE_EQ)); tiny<<<1, 1, 0, s[i]>>>(p); }
void look(const char *what, int k, std::vector<int> js, int ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    int l = 0, h = 0; std::string names;
    for (int j : js) if (cudaEventQuery(e[j]) != cudaSuccess) { (j < low ? l : h)++; if (names.size() < 60) names += " " + std::to_string(j); }
    cudaGetLastError();
    printf("%s K %d: blocked low %d high %d of %zu:%s\n", what, k, l, h, js.size(), names.c_str());
    *(volatile unsigned *)word = 0; cudaDeviceSynchronize(); *(volatile unsigned *)word = 1;
}
int main(int argc, char **argv) {
    low = atoi(argv[1]), high = atoi(argv[2]); n = low + high;
    cudaMalloc(&p, 4); tiny<<<1, 1>>>(p); spin<<<1, 1>>>(1); cudaDeviceSynchronize();
    int least, most; cudaDeviceGetStreamPriorityRange(&least, &most);
    for (int i = 0; i < n; i++) {
        cudaStream_t t; cudaStreamCreateWithPriority(&t, cudaStreamNonBlocking, i < low ? 0 : most); s.push_back(t);
        cudaEvent_t v; cudaEventCreateWithFlags(&v, cudaEventDisableTiming); e.push_back(v);
    }
    for (int i = 0; i < n; i++) { tiny<<<1, 1, 0, s[i]>>>(p); cudaStreamSynchronize(s[i]); }
    cudaHostAlloc((void **)&word, 4, cudaHostAllocMapped); OK(cuMemHostGetDevicePointer(&at, word, 0)); *(volatile unsigned *)word = 1;
    const char *c = getenv("CUDA_DEVICE_MAX_CONNECTIONS"); printf("low %d high %d connections %s\n", low, high, c ? c : "default");
    int ks[] = {1, 3, 5, 6, 7, 8, 9, 12, 15, 16, 24, 30, 31, 32, 40};
    for (int k : ks) if (k < low - 6) {
        // A: one other at a time
        for (int i = 0; i < k; i++) close_(i);
        std::vector<int> js; int bl = 0, bh = 0, first = -1;
        for (int j = k; j < n; j++) {
            tiny<<<1, 1, 0, s[j]>>>(p); cudaEventRecord(e[j], s[j]);
            auto t = C::now(); bool ok = false; while (!ok && C::now() - t < std::chrono::milliseconds(2)) ok = cudaEventQuery(e[j]) == cudaSuccess;
            if (!ok) { (j < low ? bl : bh)++; if (first < 0) first = j; }
        }
        cudaGetLastError();
        printf("A K %d: blocked low %d high %d first %d\n", k, bl, bh, first);
        *(volatile unsigned *)word = 0; cudaDeviceSynchronize(); *(volatile unsigned *)word = 1;
        // B: all others at once
        for (int i = 0; i < k; i++) close_(i);
        for (int j = k; j < n; j++) { tiny<<<1, 1, 0, s[j]>>>(p); cudaEventRecord(e[j], s[j]); js.push_back(j); }
        look("B", k, js, 10);
        // C: four others and two high are active before, and launch more behind the waits
        js.clear(); for (int j = low - 4; j < low; j++) js.push_back(j); for (int j = low; j < low + 2 && j < n; j++) js.push_back(j);
        for (int j : js) spin<<<1, 1, 0, s[j]>>>(8000000);
        for (int i = 0; i < k; i++) close_(i);
        for (int j : js) { tiny<<<1, 1, 0, s[j]>>>(p); cudaEventRecord(e[j], s[j]); }
        look("C", k, js, 20);
        // D: those to be closed are active before, with the others
        for (int i = 0; i < k; i++) spin<<<1, 1, 0, s[i]>>>(5000000);
        for (int j : js) spin<<<1, 1, 0, s[j]>>>(5000000);
        for (int i = 0; i < k; i++) close_(i);
        for (int j : js) { tiny<<<1, 1, 0, s[j]>>>(p); cudaEventRecord(e[j], s[j]); }
        look("D", k, js, 25);
    }
    printf("end: %s\n", cudaGetErrorString(cudaGetLastError()));
}
