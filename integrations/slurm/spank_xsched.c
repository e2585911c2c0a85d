/* A SPANK plugin for Slurm: srun, sbatch and salloc take --xsched=CLASS[,share=N], and root on the
 * node grants the job that class, or the highest of its partition, by `xsched ctl grant`.
 *
 *   cc -shared -fPIC -O2 -o spank_xsched.so spank_xsched.c
 *
 * docs/src/guides/slurm.md has the line for plugstack.conf. Prolog and epilog are functions of this
 * plugin, which slurmd calls as root; a file for each job says what the prolog has decided. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

SPANK_PLUGIN(xsched, 1)

#define PATH_BYTES 4096
#define LINE_BYTES 65536 /* a variable of the environment at most: an eighth of what execve takes */

enum class { NONE, BATCH, NORMAL, INTERACTIVE };
static const char *const CLASSES[] = { "none", "batch", "normal", "interactive" };

/* How the programs of a job are to be scheduled; share is -1 without one. */
struct wish {
    enum class class;
    int share;
};

/* From plugstack.conf. */
static const char *xsched = "/usr/bin/xsched", *state = "/run/xsched-slurm", *socket_path;
static int gangs;

/* What the user asks for in this context, and what the job has. */
static struct wish asked = { NONE, -1 }, has = { NONE, -1 };

static enum class class_of(const char *text, size_t length) {
    for (int i = BATCH; i <= INTERACTIVE; i++)
        if (strlen(CLASSES[i]) == length && !strncmp(CLASSES[i], text, length)) return i;
    return NONE;
}

/* Reads CLASS[,share=N]. */
static int parse(const char *text, struct wish *wish) {
    size_t length = strcspn(text, ",");
    char *end;
    wish->class = class_of(text, length);
    wish->share = -1;
    if (wish->class == NONE) return -1;
    if (!text[length]) return 0;
    if (strncmp(text + length, ",share=", 7) || !text[length + 7]) return -1;
    long share = strtol(text + length + 7, &end, 10);
    if (*end || share < 0 || share > 100) return -1;
    wish->share = (int)share;
    return 0;
}

static int take(int val, const char *text, int remote) {
    (void)val, (void)remote;
    if (text && !parse(text, &asked)) return 0;
    slurm_error("--xsched=%.64s: say interactive, normal or batch, and behind it ,share=0 to 100 "
                "if need be", text ? text : "");
    return -1;
}

static struct spank_option option = {
    "xsched", "CLASS[,share=N]",
    "schedule the job's GPU programs as interactive, normal or batch, and with N percent", 1, 0, take
};

/* What plugstack.conf says by `WHAT=CLASS`; with a name, by `WHAT.KINDNAME=CLASS`. */
static int find(int ac, char **av, const char *what, const char *kind, const char *name, enum class *found) {
    char key[PATH_BYTES];
    int is_found = 0, length = snprintf(key, sizeof key, name ? "%s.%s%s=" : "%s=", what, kind, name);
    for (int i = 0; i < ac && length > 0 && length < PATH_BYTES; i++) {
        if (strncmp(av[i], key, (size_t)length)) continue;
        *found = class_of(av[i] + length, strlen(av[i] + length));
        is_found = 1;
    }
    return is_found;
}

/* What it says of the job's QoS, or else of its partition, or else of all jobs. */
static enum class setting(int ac, char **av, const char *what, const char *qos, enum class otherwise) {
    const char *partition = getenv("SLURM_JOB_PARTITION");
    enum class found = otherwise;
    if (qos && find(ac, av, what, "qos:", qos, &found)) return found;
    if (partition && find(ac, av, what, "", partition, &found)) return found;
    find(ac, av, what, "", NULL, &found);
    return found;
}

/* The QoS of a job, by the controller, and only if plugstack.conf has a word for one. 1 if that
 * cannot be found out. */
static int qos_of_job(int ac, char **av, uint32_t job, char *qos) {
    job_info_msg_t *answer = NULL;
    int is_asked = 0;
    *qos = 0;
    for (int i = 0; i < ac; i++) is_asked |= strstr(av[i], ".qos:") != NULL;
    if (!is_asked) return 0;
    /* Slurm 24.11 ends a process that asks without this, and drains the node. */
    slurm_init(NULL);
    if (slurm_load_job(&answer, job, SHOW_ALL) || !answer || !answer->record_count) return 1;
    const char *name = answer->job_array[0].qos;
    int length = snprintf(qos, PATH_BYTES, "%s", name ? name : "");
    slurm_free_job_info_msg(answer);
    return length >= PATH_BYTES;
}

static int is_setting(const char *word) {
    const char *equals = strrchr(word, '=');
    int is_class = !strncmp(word, "default", 7) || !strncmp(word, "max", 3);
    return equals && is_class && class_of(equals + 1, strlen(equals + 1)) != NONE;
}

static int file_of_job(spank_t sp, char *path, uint32_t *job) {
    if (spank_get_item(sp, S_JOB_ID, job) != ESPANK_SUCCESS) return -1;
    int length = snprintf(path, PATH_BYTES, "%s/%u", state, *job);
    return length > 0 && length < PATH_BYTES ? 0 : -1;
}

/* Runs xsched. What it prints goes to `output`, a descriptor. */
static pid_t start(char *const *words, int output) {
    static char socket_variable[PATH_BYTES];
    char *environment[] = { NULL, NULL };
    if (socket_path) {
        snprintf(socket_variable, sizeof socket_variable, "XSCHED_SOCKET=%s", socket_path);
        environment[0] = socket_variable;
    }
    pid_t child = fork();
    if (child) return child;
    if (output >= 0 && dup2(output, STDOUT_FILENO) < 0) _exit(127);
    /* Nothing of the job's environment: this process may be root. */
    execve(xsched, words, environment);
    _exit(127);
}

static int end(pid_t child) {
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Reads the words of plugstack.conf, which every function gets: not all contexts call init. */
static void configure(int ac, char **av, int tells) {
    for (int i = 0; i < ac; i++) {
        if (!strncmp(av[i], "xsched=", 7)) xsched = av[i] + 7;
        else if (!strncmp(av[i], "socket=", 7)) socket_path = av[i] + 7;
        else if (!strncmp(av[i], "state=", 6)) state = av[i] + 6;
        else if (!strcmp(av[i], "gangs")) gangs = 1;
        else if (tells && !is_setting(av[i]))
            slurm_error("xsched: plugstack.conf: `%s` means nothing here", av[i]);
    }
}

int slurm_spank_init(spank_t sp, int ac, char **av) {
    configure(ac, av, 1);
    return spank_option_register(sp, &option) == ESPANK_SUCCESS ? 0 : -1;
}

/* As root, before the first step: decides what the job has. */
int slurm_spank_job_prolog(spank_t sp, int ac, char **av) {
    char path[PATH_BYTES], qos[PATH_BYTES], text[64], *word = NULL;
    uint32_t job;
    struct wish wish = { NONE, -1 };
    configure(ac, av, 0);
    if (file_of_job(sp, path, &job)) return 0;
    int is_unknown = qos_of_job(ac, av, job, qos);
    if (spank_option_getopt(sp, &option, &word) != ESPANK_SUCCESS || !word || parse(word, &wish))
        wish.class = setting(ac, av, "default", qos, NONE);
    enum class max = setting(ac, av, "max", qos, INTERACTIVE);
    if (is_unknown) {
        slurm_error("xsched: slurmctld does not tell the QoS of job %u; it gets no more than batch", job);
        max = BATCH;
    }
    if (wish.class > max) wish.class = max;
    if (wish.class == NONE) return 0;
    if (mkdir(state, 0700) && errno != EEXIST) {
        slurm_error("xsched: cannot make %s: %s; job %u has no grant", state, strerror(errno), job);
        return 0;
    }
    unlink(path);
    int length = snprintf(text, sizeof text, "%s %d\n", CLASSES[wish.class], wish.share);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || write(file, text, (size_t)length) != length)
        slurm_error("xsched: cannot write %s: %s; job %u has no grant", path, strerror(errno), job);
    if (file >= 0) close(file);
    return 0;
}

/* As root in slurmstepd: what the prolog has decided. */
int slurm_spank_init_post_opt(spank_t sp, int ac, char **av) {
    char path[PATH_BYTES], class[16] = "";
    uint32_t job;
    (void)ac, (void)av;
    if (spank_context() != S_CTX_REMOTE || file_of_job(sp, path, &job)) return 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (fscanf(file, "%15s %d", class, &has.share) == 2) has.class = class_of(class, strlen(class));
    fclose(file);
    return 0;
}

/* The cgroup of the job: the folder of the freezer of version 1, or of version 2, with its name. */
static int cgroup_of_job(pid_t task, uint32_t job, char *folder) {
    static const char *const PLACES[][2] = {
        { ":freezer:", "/sys/fs/cgroup/freezer" }, { "0::", "/sys/fs/cgroup" },
        { "0::", "/sys/fs/cgroup/unified" },
    };
    char name[32], path[64], line[PATH_BYTES];
    struct stat about;
    snprintf(name, sizeof name, "/job_%u", job);
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)task);
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
        FILE *file = fopen(path, "re");
        while (file && fgets(line, sizeof line, file)) {
            char *at = strstr(line, PLACES[i][0]);
            char *end = at ? strstr(at += strlen(PLACES[i][0]), name) : NULL;
            if (!end || !strchr("/\n", end[strlen(name)])) continue;
            end[strlen(name)] = 0;
            int length = snprintf(folder, PATH_BYTES, "%s%s", PLACES[i][1], at);
            if (length < PATH_BYTES && !stat(folder, &about)) {
                fclose(file);
                return 0;
            }
        }
        if (file) fclose(file);
    }
    return -1;
}

/* As root in slurmstepd: has the daemon enforce what the job has. A step that asks for the same
 * changes nothing. */
int slurm_spank_task_post_fork(spank_t sp, int ac, char **av) {
    char folder[PATH_BYTES], name[32], pid[16], share[16], gang[32];
    char *words[16] = { "xsched", "ctl", "grant", "--class", (char *)CLASSES[has.class], "--name", name };
    int count = 7;
    uint32_t job = 0;
    pid_t task = 0;
    (void)ac, (void)av;
    if (has.class == NONE || spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_TASK_PID, &task) != ESPANK_SUCCESS) return 0;
    snprintf(name, sizeof name, "job %u", job);
    if (!cgroup_of_job(task, job, folder)) {
        words[count++] = "--cgroup", words[count++] = folder;
    } else {
        /* Without cgroups of Slurm, the task alone. */
        snprintf(pid, sizeof pid, "%d", (int)task);
        snprintf(name, sizeof name, "job %u pid %d", job, (int)task);
        words[count++] = "--pid", words[count++] = pid;
    }
    if (has.share >= 0) {
        snprintf(share, sizeof share, "%d", has.share);
        words[count++] = "--share", words[count++] = share;
    }
    if (gangs) {
        snprintf(gang, sizeof gang, "slurm-%u", job);
        words[count++] = "--gang", words[count++] = gang;
    }
    words[count] = NULL;
    int code = end(start(words, -1));
    if (code) slurm_error("xsched: job %u has no grant: `%s ctl grant` ended with %d", job, xsched, code);
    return 0;
}

/* As the user in the task: the variables with which its programs are scheduled. */
int slurm_spank_task_init(spank_t sp, int ac, char **av) {
    static char line[LINE_BYTES], before[LINE_BYTES], value[2 * LINE_BYTES];
    char share[16];
    char *words[10] = { "xsched", "env", "--for", "slurm", "--class", NULL };
    struct wish wish = asked.class == NONE ? has : asked;
    int pipes[2], count = 5;
    (void)ac, (void)av;
    if (has.class == NONE) return 0;
    if (wish.class > has.class) {
        fprintf(stderr, "xsched: the job has class %s, and --xsched=%s asks for more; ask for it "
                "with the job, in a partition that allows it\n", CLASSES[has.class], CLASSES[wish.class]);
        wish.class = has.class;
    }
    words[count++] = (char *)CLASSES[wish.class];
    if (wish.share >= 0) {
        snprintf(share, sizeof share, "%d", wish.share);
        words[count++] = "--share", words[count++] = share;
    }
    if (pipe2(pipes, O_CLOEXEC)) return 0;
    pid_t child = start(words, pipes[1]);
    close(pipes[1]);
    FILE *from = fdopen(pipes[0], "r");
    while (from && fgets(line, sizeof line, from)) {
        char *name = line + strlen("export "), *equals = strchr(line, '=');
        if (strncmp(line, "export ", strlen("export ")) || !equals) continue;
        line[strcspn(line, "\n")] = 0;
        *equals = 0;
        /* What the user preloads stands in front. */
        int is_kept = !strcmp(name, "LD_PRELOAD") &&
            spank_getenv(sp, name, before, sizeof before) == ESPANK_SUCCESS && *before;
        snprintf(value, sizeof value, "%s%s%s", is_kept ? before : "", is_kept ? ":" : "", equals + 1);
        spank_setenv(sp, name, value, 1);
    }
    if (from) fclose(from);
    if (end(child)) fprintf(stderr, "xsched: `%s env` failed; the task is not scheduled\n", xsched);
    return 0;
}

/* As root, behind the last step. */
int slurm_spank_job_epilog(spank_t sp, int ac, char **av) {
    char path[PATH_BYTES], name[32];
    char *words[] = { "xsched", "--quiet", "ctl", "revoke", name, NULL };
    uint32_t job;
    configure(ac, av, 0);
    if (file_of_job(sp, path, &job) || unlink(path)) return 0;
    snprintf(name, sizeof name, "job %u", job);
    /* Most have ended with their cgroup by now, and then it says so. */
    end(start(words, -1));
    return 0;
}
