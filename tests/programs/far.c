// Runs far from its memory: fills so many MiB on one CPU, is found on another then, and uses all of it from
// wherever it is put. Says twice a second where its pages are, and how many of them are local, until it is ended or so many seconds
// have passed. After SIGUSR1 only root may ask about it. Several that run all the time leave an emulated machine no CPU to look at them;
// but the kernel puts one that rests where it likes.
//
//     far MIB CPU_TO_FILL_ON CPU_TO_BEGIN_ON SECONDS [PERCENT_OF_THE_TIME]
#include "hazard.h"

enum { ASKED = 256, NODES = 4 };

static void run_on(int cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    must(!sched_setaffinity(0, sizeof cpus, &cpus), "affinity");
}

// As if nobody had ever set an affinity.
static void run_anywhere(void) {
    cpu_set_t cpus;
    memset(&cpus, 0xff, sizeof cpus);
    must(!sched_setaffinity(0, sizeof cpus, &cpus), "affinity");
}

static void hide(int signal) {
    (void)signal;
    prctl(PR_SET_DUMPABLE, 0);
}

static void say(double since, const char *data, size_t size, unsigned long rounds) {
    static void *pages[ASKED];
    static int at[ASKED];
    size_t step = size / ASKED / PAGE * PAGE;
    for (int i = 0; i < ASKED; i++) pages[i] = (char *)data + i * step;
    must(!syscall(SYS_move_pages, 0, ASKED, pages, NULL, at, 0), "move_pages");
    int on[NODES] = {0};
    for (int i = 0; i < ASKED; i++)
        if (at[i] >= 0 && at[i] < NODES) on[at[i]]++;
    int local = on[own_node() % NODES] * 100 / ASKED;
    printf("{\"pid\": %d, \"seconds\": %.1f, \"local_percent\": %d, \"pages_on\": [%d, %d, %d, %d], \"rounds\": %lu}\n",
           getpid(), since, local, on[0], on[1], on[2], on[3], rounds);
    fflush(stdout);
}

int main(int argc, char **argv) {
    must(argc == 5 || argc == 6, "far MIB CPU_TO_FILL_ON CPU_TO_BEGIN_ON SECONDS [PERCENT_OF_THE_TIME]");
    signal(SIGUSR1, hide);
    size_t size = strtoul(argv[1], NULL, 10) << 20;
    double seconds = strtod(argv[4], NULL);
    double percent = argc == 6 ? strtod(argv[5], NULL) : 100;
    run_on(atoi(argv[2]));
    char *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(data != MAP_FAILED, "mmap");
    memset(data, 1, size);
    run_on(atoi(argv[3]));
    run_anywhere();
    double began = seconds_now(), said = began;
    unsigned long rounds = 0, sum = 0;
    while (seconds_now() < began + seconds) {
        double round = seconds_now();
        for (size_t at = 0; at < size; at += 64) sum += data[at]++;
        rounds++;
        if (percent < 100) usleep(1e6 * (seconds_now() - round) * (100 / percent - 1));
        if (seconds_now() >= said + 0.5) say((said = seconds_now()) - began, data, size, rounds);
    }
    return sum == 0;
}
