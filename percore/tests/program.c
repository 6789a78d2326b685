/* Uses every function of quartier_percore.h; prints what was wrong, and "ok". */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quartier_percore.h"

#define NR_THREADS 4
#define NR_ROUNDS 20000

static int failures;

#define CHECK(holds)                                          \
    do {                                                      \
        if (!(holds)) {                                       \
            printf("line %d: %s\n", __LINE__, #holds);        \
            failures++;                                       \
        }                                                     \
    } while (0)

static void together(void *(*run)(void *), void *shared) {
    pthread_t threads[NR_THREADS];
    int i;
    for (i = 0; i < NR_THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, run, shared) == 0);
    for (i = 0; i < NR_THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void *count(void *shared) {
    struct quartier_counter *counter = (struct quartier_counter *)shared;
    int i;
    for (i = 0; i < NR_ROUNDS; i++) {
        quartier_counter_increment(counter);
        quartier_counter_increment(counter);
        quartier_counter_decrement(counter);
    }
    return NULL;
}

static void counters(void) {
    struct quartier_counter *counter = quartier_counter_new(5, 0);
    struct quartier_counter *small = quartier_counter_new(2, 1);
    together(count, counter);
    CHECK(quartier_counter_value(counter) == 5 + NR_THREADS * NR_ROUNDS);
    CHECK(quartier_counter_at_most(counter) >= quartier_counter_value(counter));
    CHECK(quartier_counter_uses_rseq(counter) == 0 || quartier_counter_uses_rseq(counter) == 1);
    /* The test sets it where the C library is to leave rseq alone. */
    CHECK(getenv("GLIBC_TUNABLES") == NULL || quartier_counter_uses_rseq(counter) == 0);
    CHECK(quartier_counter_decrement(small) == 0);
    CHECK(quartier_counter_close(small) == 1);
    CHECK(quartier_counter_decrement(small) == 1);
    CHECK(quartier_counter_value(NULL) == 0 && quartier_counter_decrement(NULL) == 0);
    quartier_counter_increment(NULL);
    quartier_counter_free(counter);
    quartier_counter_free(small);
    quartier_counter_free(NULL);
}

static void tables(void) {
    struct quartier_table *table = quartier_table_new(0);
    int one, two;
    void *value = NULL;
    CHECK(quartier_table_get(table, 1, &value) == 0);
    CHECK(quartier_table_insert(table, 1, &one, &value) == 0 && value == NULL);
    CHECK(quartier_table_get(table, 1, &value) == 1 && value == &one);
    CHECK(quartier_table_insert(table, 1, &two, &value) == 1 && value == &one);
    CHECK(quartier_table_get(table, 1, &value) == 1 && value == &two);
    CHECK(quartier_table_get(table, 1, NULL) == 1);
    CHECK(quartier_table_remove(table, 1, NULL) == 1);
    CHECK(quartier_table_get(table, 1, NULL) == 0);
    CHECK(quartier_table_get(NULL, 1, NULL) == -EINVAL);
    quartier_table_free(table);
}

static void add(void *thing, void *sum) {
    *(int *)sum += *(int *)thing;
}

static void free_lists(void) {
    struct quartier_free_list *list = quartier_free_list_new(2, 0);
    int things[100], sum = 0, nr_kept = 0, i;
    for (i = 0; i < 100; i++) {
        int status;
        things[i] = 1;
        status = quartier_free_list_push(list, &things[i]);
        CHECK(status == 0 || status == -ENOSPC);
        nr_kept += status == 0;
    }
    CHECK(nr_kept >= 2);
    CHECK(quartier_free_list_take_all(list, add, &sum) == (size_t)nr_kept && sum == nr_kept);
    CHECK(quartier_free_list_pop(list) == NULL);
    CHECK(quartier_free_list_push(list, NULL) == -EINVAL);
    CHECK(quartier_free_list_push(NULL, things) == -EINVAL);
    CHECK(quartier_free_list_pop(NULL) == NULL);
    quartier_free_list_free(list);
}

static void sharded_lists(void) {
    struct quartier_sharded_list *list = quartier_sharded_list_new(3, 2);
    int things[6], sum = 0, i;
    for (i = 0; i < 6; i++) {
        things[i] = 1;
        CHECK(quartier_sharded_list_push(list, &things[i]) == 0);
    }
    CHECK(quartier_sharded_list_push(list, &i) == -ENOSPC);
    CHECK(quartier_sharded_list_pop(list) != NULL);
    CHECK(quartier_sharded_list_take_all(list, add, &sum) == 5 && sum == 5);
    CHECK(quartier_sharded_list_pop(list) == NULL);
    CHECK(quartier_sharded_list_push(list, NULL) == -EINVAL);
    CHECK(quartier_sharded_list_push(NULL, things) == -EINVAL);
    CHECK(quartier_sharded_list_pop(NULL) == NULL);
    quartier_sharded_list_free(list);
    list = quartier_sharded_list_new(0, 1);
    CHECK(quartier_sharded_list_push(list, things) == 0);
    CHECK(quartier_sharded_list_pop(list) == things);
    quartier_sharded_list_free(list);
}

struct guarded {
    struct quartier_lock *lock;
    long count;
};

static void *lock_and_count(void *shared) {
    struct guarded *guarded = (struct guarded *)shared;
    struct quartier_lock_node node;
    int i;
    for (i = 0; i < NR_ROUNDS / 10; i++) {
        quartier_lock_acquire(guarded->lock, &node);
        guarded->count++;
        quartier_lock_release(guarded->lock, &node);
    }
    return NULL;
}

static size_t node_of_caller(void) {
    return 1;
}

static void locks(void) {
    int kind;
    for (kind = QUARTIER_LOCK_TICKET; kind <= QUARTIER_LOCK_CNA + 1; kind++) {
        struct guarded guarded;
        int is_again = kind == QUARTIER_LOCK_CNA + 1;
        guarded.count = 0;
        guarded.lock = quartier_lock_new(is_again ? QUARTIER_LOCK_CNA : kind, is_again ? node_of_caller : NULL, 8);
        CHECK(guarded.lock != NULL);
        together(lock_and_count, &guarded);
        CHECK(guarded.count == NR_THREADS * (NR_ROUNDS / 10));
        quartier_lock_free(guarded.lock);
    }
    CHECK(quartier_lock_new(9, NULL, 0) == NULL);
}

static void *plus_one(void *number) {
    return (char *)number + 1;
}

static void note_target(size_t target, void *context) {
    *(size_t *)context = target;
}

static void *listen_at_0(void *shared) {
    struct quartier_listener *listener = quartier_events_listen((struct quartier_events *)shared, 0);
    size_t nr_run = 0;
    CHECK(listener != NULL);
    while (nr_run < 1)
        nr_run += quartier_listener_run_pending(listener, 1);
    quartier_listener_free(listener);
    return NULL;
}

static void events(void) {
    size_t woken = 99;
    char text[4];
    void *result = NULL;
    struct quartier_events *events = quartier_events_new(2, 2, note_target, &woken);
    struct quartier_listener *listener = quartier_events_listen(events, 1);
    struct quartier_reply *reply, *late, *cancelled;
    pthread_t other;
    CHECK(listener != NULL && quartier_events_listen(events, 1) == NULL);
    CHECK(quartier_events_listen(events, 2) == NULL);

    CHECK(quartier_events_send(events, 1, QUARTIER_URGENT, -1, plus_one, text, &reply) == 0);
    CHECK(woken == 1);
    CHECK(quartier_events_send(events, 1, QUARTIER_NORMAL, 0, plus_one, text, &late) == 0);
    CHECK(quartier_events_send(events, 1, QUARTIER_BACKGROUND, -1, plus_one, text, &cancelled) == 0);
    CHECK(quartier_reply_wait(reply, 1000, &result) == -ETIMEDOUT);
    CHECK(quartier_reply_cancel(cancelled) == 1);
    CHECK(quartier_listener_defer(listener, plus_one, text) == 0);
    CHECK(quartier_listener_run_pending(listener, 10) == 2);
    CHECK(quartier_reply_wait(reply, -1, &result) == 0 && result == text + 1);
    CHECK(quartier_reply_wait(late, -1, &result) == -ETIME);
    CHECK(quartier_reply_wait(cancelled, -1, NULL) == -ECANCELED);

    CHECK(quartier_events_send(events, 1, QUARTIER_NORMAL, -1, plus_one, text, NULL) == 0);
    CHECK(quartier_events_send(events, 1, QUARTIER_NORMAL, -1, plus_one, text, &reply) == 0);
    CHECK(quartier_events_send(events, 1, QUARTIER_NORMAL, -1, plus_one, text, NULL) == -ENOBUFS);
    CHECK(quartier_events_send(events, 2, QUARTIER_NORMAL, -1, plus_one, text, NULL) == -ENODEV);
    CHECK(quartier_events_send(events, 1, 3, -1, plus_one, text, NULL) == -EINVAL);
    CHECK(quartier_events_send(events, 1, QUARTIER_NORMAL, -1, NULL, text, NULL) == -EINVAL);
    CHECK(quartier_listener_wait_for(listener, reply, &result) == 0 && result == text + 1);

    CHECK(pthread_create(&other, NULL, listen_at_0, events) == 0);
    CHECK(quartier_events_send(events, 0, QUARTIER_NORMAL, -1, plus_one, text + 1, &reply) == 0);
    CHECK(quartier_reply_wait(reply, -1, &result) == 0 && result == text + 2);
    CHECK(pthread_join(other, NULL) == 0);

    CHECK(quartier_events_send(events, 0, QUARTIER_NORMAL, -1, plus_one, text, &reply) == 0);
    CHECK(quartier_events_send(events, 0, QUARTIER_NORMAL, -1, plus_one, text, &late) == 0);
    quartier_reply_free(late);
    quartier_listener_free(listener);
    quartier_events_free(events);
    CHECK(quartier_reply_wait(reply, -1, &result) == -EOWNERDEAD);
    CHECK(quartier_reply_wait(NULL, -1, NULL) == -EINVAL && quartier_reply_cancel(NULL) == 0);
    CHECK(quartier_listener_run_pending(NULL, 1) == 0);
    CHECK(quartier_listener_defer(NULL, plus_one, NULL) == -EINVAL);
}

int main(void) {
    counters();
    tables();
    free_lists();
    sharded_lists();
    locks();
    events();
    if (failures == 0)
        printf("ok\n");
    return failures != 0;
}
