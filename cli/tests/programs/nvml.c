// A library in the place of NVIDIA's management library, with one GPU: that of the emulated driver,
// divided into instances, for one process at a time, with two processes. Two samples, at 1000 and
// 2000 us, say that the first has used 40 and 20 % of it.

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { SUCCESS = 0, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

typedef struct {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
} pci_info;

typedef struct {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
} process;

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = 1;
  return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  *device = NULL;
  return index ? 2 : SUCCESS;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length) {
  (void)device;
  snprintf(name, length, "Emulated H200");
  return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(void *device, pci_info *info) {
  (void)device;
  memset(info, 0, sizeof *info);
  info->bus = 1;
  strcpy(info->bus_id, "00000000:01:00.0");
  return SUCCESS;
}

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
  (void)device;
  *current = *pending = 1;
  return SUCCESS;
}

int nvmlDeviceGetComputeMode(void *device, int *mode) {
  (void)device;
  *mode = 3;
  return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *list) {
  (void)device;
  unsigned room = *count;
  *count = 2;
  if (room < 2) return INSUFFICIENT_SIZE;
  for (unsigned n = 0; n < 2; n++) list[n] = (process){.pid = 7 + n};
  return SUCCESS;
}

typedef struct {
  unsigned pid;
  unsigned long long time_us;
  unsigned compute, memory, encoder, decoder;
} sample;

int nvmlDeviceGetProcessUtilization(void *device, sample *list, unsigned *count,
                                    unsigned long long since_us) {
  (void)device;
  unsigned room = *count;
  *count = since_us < 2000 ? 2 : 0;
  if (!*count) return NOT_FOUND;
  if (!list || room < 2) return INSUFFICIENT_SIZE;
  list[0] = (sample){.pid = 7, .time_us = 1000, .compute = 40};
  list[1] = (sample){.pid = 7, .time_us = 2000, .compute = 20};
  return SUCCESS;
}
