/*
 * quartier_percore.h: parts for programs that must go on scaling: sloppy counters, per-CPU tables and free lists,
 * queue locks, run-on-node. docs/percore.md says what each costs, and when it loses.
 *
 * All functions may be called from any thread, unless said otherwise. Null handles are ignored or refused; other
 * wrong pointers are the caller's mistake. Objects made by a `_new` are freed by the `_free` of the same name, when
 * nobody uses them any more. Link with -lquartier_percore.
 *
 * Errors are negative errno values:
 *   -EINVAL      a null pointer or a value that is none
 *   -ENODEV      there is no such mailbox
 *   -ENOSPC      the free list is full
 *   -ENOBUFS     the mailbox is full
 */
#ifndef QUARTIER_PERCORE_H
#define QUARTIER_PERCORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- A counter of which every CPU keeps spares (Boyd-Wickizer et al., OSDI 2010) ---- */

struct quartier_counter;

/* `batch`: references that go between a CPU and the shared count at a time; 0: 32. */
struct quartier_counter *quartier_counter_new(int64_t value, uint16_t batch);
void quartier_counter_free(struct quartier_counter *counter);

/* Never wait; may be called from signal handlers. */
void quartier_counter_increment(struct quartier_counter *counter);
/* 1: the counter is closed and this was the last reference. */
int quartier_counter_decrement(struct quartier_counter *counter);

/* The count at one instant of the call: a system call and a line of each CPU. */
int64_t quartier_counter_value(const struct quartier_counter *counter);
/* Not below the count, and above it by at most 2 * batch * CPUs: one load. */
int64_t quartier_counter_at_most(const struct quartier_counter *counter);

/*
 * Gives up spares for good, so that the last decrement is told. Returns the count at that instant: if it is 0,
 * nobody else will be told.
 */
int64_t quartier_counter_close(struct quartier_counter *counter);

/* 1 if it counts in restartable sequences, 0 if with atomic instructions. */
int quartier_counter_uses_rseq(const struct quartier_counter *counter);

/* ---- A table of pointers by number, with copies for each CPU (the study's per-core mount table) ---- */

struct quartier_table;

/* `slots_per_cpu`: copies for each CPU, rounded up to a power of two; 0: 256. */
struct quartier_table *quartier_table_new(size_t slots_per_cpu);
void quartier_table_free(struct quartier_table *table);

/*
 * 1, and the value, if the key is there; 0 if it is not. What a value points to is the caller's: whoever removes
 * it must know that nobody who looked it up before still uses it.
 */
int quartier_table_get(const struct quartier_table *table, uint64_t key, void **value);
/* 1, and the value that was there before, or 0. Lookups that begin later see the change, on every CPU. */
int quartier_table_insert(struct quartier_table *table, uint64_t key, void *value, void **before);
int quartier_table_remove(struct quartier_table *table, uint64_t key, void **before);

/* ---- A free list with a part for each CPU (Bonwick and Adams, USENIX 2001) ---- */

struct quartier_free_list;

/* Room for `own_max` things (at least 2) of each CPU and `shared_max` that all share. */
struct quartier_free_list *quartier_free_list_new(size_t own_max, size_t shared_max);
/* What is in it is not freed: take it out first. */
void quartier_free_list_free(struct quartier_free_list *list);

/* 0, or -ENOSPC: it stays the caller's. */
int quartier_free_list_push(struct quartier_free_list *list, void *thing);
/* NULL: nothing is there for this CPU. */
void *quartier_free_list_pop(struct quartier_free_list *list);
/* Takes all out and calls `each` (may be NULL) with every thing; returns how many. */
size_t quartier_free_list_take_all(struct quartier_free_list *list,
                                   void (*each)(void *thing, void *context), void *context);

/* ---- A free list in shards with a lock each: what rests in any of them is found from every CPU ---- */

struct quartier_sharded_list;

/* So many shards (at least 1; the nodes of a machine, say), each with room for `shard_max` things. */
struct quartier_sharded_list *quartier_sharded_list_new(size_t nr_shards, size_t shard_max);
/* What is in it is not freed: take it out first. */
void quartier_sharded_list_free(struct quartier_sharded_list *list);

/* 0, or -ENOSPC: it stays the caller's. */
int quartier_sharded_list_push(struct quartier_sharded_list *list, void *thing);
/* NULL: nothing is there. */
void *quartier_sharded_list_pop(struct quartier_sharded_list *list);
/* Takes all out and calls `each` (may be NULL) with every thing; returns how many. */
size_t quartier_sharded_list_take_all(struct quartier_sharded_list *list,
                                      void (*each)(void *thing, void *context), void *context);

/* ---- Queue locks; not for more threads than CPUs ---- */

struct quartier_lock;

enum quartier_lock_kind {
    QUARTIER_LOCK_TICKET = 0, /* first come, first served; a hand-over costs more the more wait */
    QUARTIER_LOCK_MCS = 1,    /* first come, first served (Mellor-Crummey and Scott, TOCS 1991) */
    QUARTIER_LOCK_CNA = 2     /* the holder's node first (Dice and Kogan, EuroSys 2019) */
};

/* What a thread brings, from before it waits until it has released; on its stack, for one. */
struct quartier_lock_node {
    size_t words[4];
};

/*
 * For QUARTIER_LOCK_CNA: `node_of_caller` tells the calling thread's node (NULL: as the kernel says), and after
 * `local_max` hand-overs within a node while others wait it is their turn. NULL for an unknown kind.
 */
struct quartier_lock *quartier_lock_new(int kind, size_t (*node_of_caller)(void), uint32_t local_max);
void quartier_lock_free(struct quartier_lock *lock);
void quartier_lock_acquire(struct quartier_lock *lock, struct quartier_lock_node *node);
void quartier_lock_release(struct quartier_lock *lock, struct quartier_lock_node *node);

/* ---- Run on a CPU or node: the events of ALMOS (thesis 4.2.3) ---- */

struct quartier_events;
struct quartier_listener;
struct quartier_reply;

enum quartier_priority {
    QUARTIER_URGENT = 0, /* first, and `wake` is called */
    QUARTIER_NORMAL = 1,
    QUARTIER_BACKGROUND = 2
};

/*
 * So many mailboxes, each with room for `capacity` events of each priority. `wake` (may be NULL) is called with a
 * mailbox's number after an urgent event was sent there, on the sender's thread.
 */
struct quartier_events *quartier_events_new(size_t nr_mailboxes, size_t capacity,
                                            void (*wake)(size_t target, void *context), void *context);
/* Listeners may live on. Events that nobody ran are lost when the last of them is freed too. */
void quartier_events_free(struct quartier_events *events);

/*
 * Has `work(argument)` run by whoever listens at the mailbox. After `timeout_ns` (negative: never) it is not begun
 * any more. `reply` (may be NULL: nobody wants to know) is for quartier_reply_wait. Never waits.
 */
int quartier_events_send(struct quartier_events *events, size_t target, int priority, int64_t timeout_ns,
                         void *(*work)(void *argument), void *argument, struct quartier_reply **reply);

/*
 * What came of it: 0 and `result` (may be NULL), -ETIME (not begun in time), -ECANCELED, or -EOWNERDEAD (lost); then
 * the reply is freed. -ETIMEDOUT: not known after `timeout_ns` (negative: waits for ever); ask again.
 */
int quartier_reply_wait(struct quartier_reply *reply, int64_t timeout_ns, void **result);
/* 1: it will not run. */
int quartier_reply_cancel(struct quartier_reply *reply);
/* Without waiting; the event runs all the same. */
void quartier_reply_free(struct quartier_reply *reply);

/* The right to run what is sent to a mailbox, for the calling thread only; NULL: somebody has it, or there is none. */
struct quartier_listener *quartier_events_listen(struct quartier_events *events, size_t target);
/* Runs at most so many waiting events, the most urgent first; returns how many. */
size_t quartier_listener_run_pending(struct quartier_listener *listener, size_t nr_max);
/* Has `work(argument)` run by this thread later, after all events. */
int quartier_listener_defer(struct quartier_listener *listener, void *(*work)(void *argument), void *argument);
/* As quartier_reply_wait for ever, and runs what is sent here meanwhile. */
int quartier_listener_wait_for(struct quartier_listener *listener, struct quartier_reply *reply, void **result);
void quartier_listener_free(struct quartier_listener *listener);

#ifdef __cplusplus
}
#endif

#endif
