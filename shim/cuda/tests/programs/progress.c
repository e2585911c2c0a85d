// A program whose work waits for what no driver tells of: values in memory, locks of the host. It
// ends in moments where nothing is scheduled, and is ended by a signal where it hangs.

#include "calls.h"

enum { MANY = 300 };

static int (*await_value)(handle, pointer, unsigned, unsigned);
static int (*write_value)(handle, pointer, unsigned, unsigned);
static int (*call_host)(handle, void (*)(void *), void *);
static handle low, high;

// A word that both sides see.
static volatile unsigned *host_word(pointer *at) {
  void *word = NULL;
  OK(((int (*)(void **, size_t, unsigned))find("cuMemHostAlloc"))(&word, 64, 3));
  OK(((int (*)(pointer *, void *, unsigned))find("cuMemHostGetDevicePointer_v2"))(at, word, 0));
  *(volatile unsigned *)word = 0;
  return word;
}

static handle stream_of(int priority) {
  handle stream = NULL;
  OK(((int (*)(handle *, unsigned, int))find("cuStreamCreateWithPriority"))(&stream, 1, priority));
  return stream;
}

// Two streams that are told apart by their priorities, and have had work.
static void open_streams(pointer at) {
  alarm(20);
  await_value = find("cuStreamWaitValue32_v2");
  write_value = find("cuStreamWriteValue32_v2");
  call_host = find("cuLaunchHostFunc");
  low = stream_of(0);
  high = stream_of(-5);
  OK(fill_with(low, at, 1));
  OK(fill_with(high, at, 2));
  OK(synchronize());
}

// More launches than are meant to be in flight, of a stream that waits for what comes after them.
static void launches(void) {
  pointer at = words(), flag;
  volatile unsigned *word = host_word(&flag);
  open_streams(at);
  for (int s = 0; s < 2; s++) {
    handle stream = s ? high : low;
    *word = 0;
    OK(await_value(stream, flag, 1, 0));
    for (unsigned n = 1; n <= MANY; n++) OK(fill_with(stream, at, n));
    *word = 1;
    OK(stream_synchronize(stream));
    CHECK(all_are(at, MANY));
  }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int calls;

static void needs_lock(void *nothing) {
  (void)nothing;
  pthread_mutex_lock(&lock);
  calls++;
  pthread_mutex_unlock(&lock);
}

// The urgent stream calls a function that needs a lock, whose holder launches into the other one.
static void locks(void) {
  pointer at = words(), beside = words();
  open_streams(at);
  for (unsigned round = 1; round <= 5; round++) {
    pthread_mutex_lock(&lock);
    OK(fill_with(high, at, round));
    OK(call_host(high, needs_lock, NULL));
    for (unsigned n = 1; n <= 64; n++) OK(fill_with(low, beside, round * 100 + n));
    pthread_mutex_unlock(&lock);
    OK(stream_synchronize(high));
    OK(stream_synchronize(low));
    CHECK(all_are(at, round) && all_are(beside, round * 100 + 64));
  }
  CHECK(calls == 5);
}

// The urgent stream waits on the device for what the other one writes.
static void values(void) {
  pointer at = words(), beside = words(), turn = words();
  open_streams(at);
  OK(fill_with(low, turn, 0));
  OK(stream_synchronize(low));
  for (unsigned round = 1; round <= 10; round++) {
    OK(await_value(high, turn, round, 0));
    OK(fill_with(high, at, round));
    for (unsigned n = 1; n <= 20; n++) OK(fill_with(low, beside, round * 100 + n));
    OK(write_value(low, turn, round, 0));
    OK(stream_synchronize(high));
    CHECK(all_are(at, round) && all_are(beside, round * 100 + 20));
  }
}

// A stream ends before what was launched there, which waits for what the program does after that.
static void ends(void) {
  pointer at = words(), flag;
  volatile unsigned *word = host_word(&flag);
  open_streams(at);
  handle ended = stream_of(0);
  OK(fill_with(ended, at, 3));
  OK(await_value(ended, flag, 1, 0));
  OK(fill_with(ended, at, 4));
  OK(stream_destroy(ended));
  while (!all_are(at, 3)) usleep(1000);
  // Its handle may be that of a new one.
  handle next = stream_of(0);
  OK(fill_with(next, at, 5));
  OK(stream_synchronize(next));
  CHECK(all_are(at, 5));
  *word = 1;
  while (!all_are(at, 4)) usleep(1000);
  OK(stream_destroy(next));
}

// A capture begins in a stream whose work waits for what the program does after that.
static void captures(void) {
  pointer at = words(), flag;
  volatile unsigned *word = host_word(&flag);
  open_streams(at);
  handle graph = NULL;
  OK(await_value(high, flag, 1, 0));
  OK(fill_with(high, at, 3));
  OK(((int (*)(handle, int))find("cuStreamBeginCapture_v2"))(high, 1));
  OK(fill_with(high, at, 4));
  // Longer than a fence is waited for.
  usleep(300 * 1000);
  OK(((int (*)(handle, handle *))find("cuStreamEndCapture"))(high, &graph));
  CHECK(graph != NULL);
  *word = 1;
  OK(stream_synchronize(high));
  CHECK(all_are(at, 3));
  OK(fill_with(high, at, 5));
  OK(stream_synchronize(high));
  CHECK(all_are(at, 5));
}

int main(int count, char **words) {
  static const mode MODES[] = {{"launches", launches}, {"locks", locks}, {"values", values},
                               {"ends", ends}, {"captures", captures}};
  return run_mode(MODES, sizeof MODES / sizeof *MODES, count, words);
}
