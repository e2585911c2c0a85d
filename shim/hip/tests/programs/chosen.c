// A library that a user chooses for a program to load. It says whose rights it has.

#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void load(void) {
  printf("chosen, as %u\n", (unsigned)geteuid());
}
