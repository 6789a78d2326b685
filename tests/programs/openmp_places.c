// An OpenMP program whose user binds its threads (OMP_PROC_BIND, OMP_PLACES): each thread has the affinity
// of its place, as the OpenMP library gave it, and may use no other CPU.
#include "hazard.h"
#include <omp.h>

int main(void) {
    int places = omp_get_num_places();
    if (places < 2) skip("fewer than two places: OMP_PLACES=cores or threads, and two CPUs");
    must(omp_get_proc_bind() != omp_proc_bind_false, "not bound: OMP_PROC_BIND=true");
    char *memory = marked(MIB);
    for (int round = 0; round < 3; round++) {
#pragma omp parallel num_threads(places)
        {
            int place = omp_get_place_num(), *cpus, count;
            must(place >= 0, "a thread without a place");
            count = omp_get_place_num_procs(place);
            must((cpus = malloc(count * sizeof *cpus)), "memory");
            omp_get_place_proc_ids(place, cpus);
            cpu_set_t wanted, allowed, raw;
            CPU_ZERO(&wanted);
            for (int i = 0; i < count; i++) CPU_SET(cpus[i], &wanted);
            CPU_ZERO(&raw);
            must(!sched_getaffinity(0, sizeof allowed, &allowed), "getaffinity");
            must(syscall(SYS_sched_getaffinity, 0, sizeof raw, &raw) > 0, "raw getaffinity");
            must(CPU_EQUAL(&allowed, &wanted), "place %d has %d CPUs, the thread %d", place, count, CPU_COUNT(&allowed));
            must(CPU_EQUAL(&raw, &wanted), "place %d has %d CPUs, the thread really %d", place, count, CPU_COUNT(&raw));
            must(CPU_ISSET(sched_getcpu(), &wanted), "place %d, on CPU %d", place, sched_getcpu());
            check(memory, MIB, "in a thread");
            free(cpus);
        }
    }
    return done();
}
