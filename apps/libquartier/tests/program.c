/* Uses every function of libquartier.h; prints what was wrong, and "ok". */
#ifndef _GNU_SOURCE /* C++ compilers define it themselves */
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "libquartier.h"

static int failures;

#define CHECK(holds)                                          \
    do {                                                      \
        if (!(holds)) {                                       \
            printf("line %d: %s\n", __LINE__, #holds);        \
            failures++;                                       \
        }                                                     \
    } while (0)

int main(int argc, char **argv) {
    char why[200] = "";
    struct quartier_place place, second, pages;
    CHECK(quartier_tree_open("/nonexistent", why, sizeof why) == NULL);
    CHECK(strstr(why, "/nonexistent") != NULL);
    CHECK(quartier_tree_open("/nonexistent", why, 5) == NULL && strlen(why) == 4);
    CHECK(quartier_tree_open("/nonexistent", NULL, 0) == NULL);

    struct quartier_tree *tree = quartier_tree_open(argc > 1 ? argv[1] : NULL, why, sizeof why);
    if (tree == NULL) {
        printf("cannot open: %s\n", why);
        return 1;
    }
    CHECK(quartier_tree_is_shared(tree) == 0 || quartier_tree_is_shared(tree) == 1);

    cpu_set_t own;
    CHECK(sched_getaffinity(0, sizeof own, &own) == 0);
    int here = sched_getcpu();
    int64_t before = quartier_threads_on_cpu(tree, here);
    CHECK(before >= 0);
    CHECK(quartier_place_thread(tree, here, QUARTIER_THESIS, NULL, 0, &place) == 0);
    CHECK(CPU_ISSET(place.cpu, &own) && place.attempt >= 1 && place.record >= 0);
    CHECK(quartier_threads_on_cpu(tree, place.cpu) >= 1);
    CHECK(quartier_threads_on_node(tree, place.node) >= 1);
    CHECK(quartier_place_thread(tree, -1, QUARTIER_SPREAD, &own, sizeof own, &second) == 0);
    CHECK(quartier_release(tree, &second) == 0);
    CHECK(quartier_release(tree, &second) == -EINVAL);
    CHECK(quartier_place_fork(tree, here, NULL, 0, &second) == 0);
    CHECK(quartier_release(tree, &second) == 0);
    CHECK(quartier_place_exec(tree, 0, 42, NULL, 0, &second) == 0);
    CHECK(quartier_release(tree, &second) == 0);
    CHECK(quartier_release(tree, &place) == 0);
    CHECK(quartier_threads_on_cpu(tree, here) == before);

    cpu_set_t none;
    CPU_ZERO(&none);
    CHECK(quartier_place_thread(tree, here, QUARTIER_PACKED, &none, sizeof none, &place) == -ENODEV);
    CHECK(quartier_place_thread(tree, here, QUARTIER_PACKED, &none, 0, &place) == -ENODEV);
    CHECK(quartier_place_thread(tree, here, (enum quartier_strategy)9, NULL, 0, &place) == -EINVAL);
    CHECK(quartier_place_thread(NULL, here, QUARTIER_THESIS, NULL, 0, &place) == -EINVAL);
    CHECK(quartier_place_thread(tree, here, QUARTIER_THESIS, NULL, 0, NULL) == -EINVAL);
    CHECK(quartier_threads_on_cpu(tree, 1 << 30) == -EINVAL);
    CHECK(quartier_threads_on_node(tree, -7) == -EINVAL);

    /* Absent is not zero: a fresh tree knows neither U nor M. */
    int usage = quartier_usage_of_cpu(tree, here);
    CHECK(usage == -ENODATA || (usage >= 0 && usage <= 100));
    CHECK(quartier_usage_of_node(tree, 0) == -ENODATA || quartier_usage_of_node(tree, 0) <= 100);
    if (quartier_free_pages_of_node(tree, 0) == -ENODATA)
        CHECK(quartier_place_pages(tree, 0, 1, -1, &pages) == -ENODEV);
    else
        CHECK(quartier_place_pages(tree, 0, 1, 9, &pages) == 0 && pages.cpu == -1);
    CHECK(quartier_place_balance(tree, here, &none, sizeof none, &place) == -ENODEV);

    quartier_tree_close(tree);
    quartier_tree_close(NULL);
    if (failures == 0)
        printf("ok\n");
    return failures != 0;
}
