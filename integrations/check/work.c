/* A CUDA program for checks of integrations, which knows nothing of XSched.
 *
 *   work FILE [COUNT]
 *
 * It fills memory COUNT times, or until FILE is gone, and writes after every ten how often into
 * FILE, in a place of fixed width. It ends with 5 if the memory has not what it filled last. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(unsigned long *, unsigned long);
int cuMemsetD32Async(unsigned long, unsigned, unsigned long, void *);
int cuMemcpyDtoH_v2(void *, unsigned long, unsigned long);

int main(int count, char **words) {
    void *context;
    unsigned long memory;
    unsigned done = 0, last = 0, most = count > 2 ? (unsigned)atoi(words[2]) : 0;
    if (count < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0)) return 1;
    if (cuCtxSetCurrent(context) || cuMemAlloc_v2(&memory, 4096)) return 2;
    while ((!most || done < most) && !access(words[1], F_OK)) {
        for (int i = 0; i < 10; ++i)
            if (cuMemsetD32Async(memory, ++done, 1024, NULL)) return 3;
        if (cuCtxSynchronize()) return 4;
        if (cuMemcpyDtoH_v2(&last, memory + 4092, 4) || last != done) return 5;
        usleep(1500);
        FILE *file = fopen(words[1], "r+");
        if (file) {
            fprintf(file, "%8u\n", done);
            fclose(file);
        }
    }
    printf("right %u\n", done);
    return 0;
}
