/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the stress programs share, beside what they have from the workloads:
 * random numbers, threads and the words they wait for, and what a kernel with
 * CONFIG_SETTLED_PTES_TEST counts of its updates.
 */
#ifndef STRESS_H
#define STRESS_H

#include "../workloads/workload.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define HOOKS		"/sys/kernel/debug/settled_ptes"
#define THP_64K		THP_DIR "/hugepages-64kB/"

/* The first thing that a program does: its name is for fail(). */
static inline void stress_init(const char *name)
{
	wl.page = getpagesize();
	snprintf(wl.step, sizeof(wl.step), "%s", name);
}

static inline void write_number(const char *path, unsigned long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%lu", value);
	file_write(path, text);
}

/* --- random numbers ------------------------------------------------------- */

/* The state for draw(); @seed is not 0. */
static inline uint64_t seeded(uint64_t seed)
{
	return seed * 0x9e3779b97f4a7c15UL;
}

static inline uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* --- threads -------------------------------------------------------------- */

static inline void stay_on_cpu(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &set);
	must(sched_setaffinity(0, sizeof(set), &set));
}

static inline void start_thread(pthread_t *thread, void *(*fn)(void *),
				void *arg)
{
	if (pthread_create(thread, NULL, fn, arg))
		fail("pthread_create");
}

/* Threads and processes may wait for @word: futex_wait(). */
static inline void post(_Atomic unsigned int *word, unsigned int value)
{
	atomic_store(word, value);
	must(syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0));
}

/* Until @word may be another one than @seen */
static inline void futex_wait(_Atomic unsigned int *word, unsigned int seen)
{
	syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

/* --- what the kernel counts ----------------------------------------------- */

/**
 * struct update_counts - updates of one kind
 * @name: the kind
 * @plain: by a plain store
 * @atomic: by an atomic
 * @raced: during which the entry changed
 * @lost: which lost that change
 */
struct update_counts {
	char name[32];
	long plain, atomic, raced, lost;
};

/**
 * stats_read() - read HOOKS "/stats"
 * @stats: the open file
 * @c: takes the counts of each kind, in the order of the bits of delay_ops
 * @max: room for so many
 *
 * Return: how many kinds there are.
 */
static inline unsigned int stats_read(int stats, struct update_counts *c,
				      unsigned int max)
{
	char text[4096], *line, *rest = text;
	ssize_t len = must(pread(stats, text, sizeof(text) - 1, 0));
	unsigned int n = 0;

	text[len] = '\0';
	/* The head */
	strsep(&rest, "\n");
	while ((line = strsep(&rest, "\n")) && *line) {
		if (n == max ||
		    sscanf(line, "%31s %ld %ld %ld %ld", c[n].name,
			   &c[n].plain, &c[n].atomic, &c[n].raced,
			   &c[n].lost) != 5)
			fail("%s", line);
		n++;
	}
	return n;
}

#endif /* STRESS_H */
