// SPDX-License-Identifier: GPL-2.0
/*
 * convert - contpte blocks are unmade and made again while other threads use them
 *
 * In a round the main thread makes the last page of a 64 KiB folio read-only,
 * which unmakes the block that maps it, and writable again, which makes the block.
 * Readers read all pages of the folios meanwhile. No permission to read is ever
 * taken away, so a fault of theirs is one for an entry that was invalid for a
 * moment.
 *
 * One line: conversions (races), how often a reader has read all pages meanwhile
 * (overlaps), and faults of the readers. Where the kernel converts in place, which
 * the counters of CONFIG_SETTLED_PTES_TEST tell, there must be no fault; elsewhere
 * there may be. Exit status: 0 all is well, 1 a fault or a wrong byte, 2 usage, 4
 * the kernel lacks what this needs.
 */
// stress: --rounds=50000
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define STATS	"/sys/kernel/debug/settled_ptes/stats"
#define THP_64K	"/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled"
#define BLOCK	(64 * 1024UL)
#define BLOCKS	16
#define READERS	2

enum { EXIT_FAIL = 1, EXIT_USAGE = 2, EXIT_SKIP = 4 };

struct reader {
	pthread_t thread;
	unsigned long passes, faults;
};

static unsigned char *base;
static size_t page, per_block;
static atomic_bool stop;
static atomic_uint started;

__attribute__((noreturn))
static void fail(const char *what)
{
	printf("@@ fail convert: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAIL);
}

__attribute__((noreturn))
static void skip(const char *why)
{
	printf("@@ skip convert: %s\n", why);
	exit(EXIT_SKIP);
}

static unsigned char pattern(size_t nr)
{
	return 0x40 + nr % 191;
}

static unsigned long faults(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage))
		fail("getrusage");
	return usage.ru_minflt + usage.ru_majflt;
}

static void *read_pages(void *arg)
{
	size_t nr, pages = BLOCKS * per_block;
	struct reader *r = arg;
	unsigned long before;

	before = faults();
	atomic_fetch_add(&started, 1);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		for (nr = 0; nr < pages; nr++) {
			volatile unsigned char *p = base + nr * page;

			if (*p != pattern(nr))
				fail("wrong byte");
		}
		r->passes++;
	}
	r->faults = faults() - before;
	return NULL;
}

/* Updates of entries by now: to convert them in place, and to clear them. */
static bool updates(unsigned long *convert, unsigned long *clear)
{
	unsigned long plain, atomic;
	FILE *f = fopen(STATS, "r");
	char line[256], name[32];
	bool found = false;

	*convert = *clear = 0;
	if (!f)
		skip("the kernel lacks CONFIG_SETTLED_PTES_TEST");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%31s %lu %lu", name, &plain, &atomic) != 3)
			continue;
		if (!strcmp(name, "convert")) {
			*convert = plain + atomic;
			found = true;
		} else if (!strcmp(name, "clear")) {
			*clear = plain + atomic;
		}
	}
	fclose(f);
	return found;
}

static void usage(void)
{
	fprintf(stderr, "usage: convert [--rounds=N] [--seed=N]\n");
	exit(EXIT_USAGE);
}

static void map_blocks(void)
{
	size_t len = BLOCKS * BLOCK, nr;
	int fd = open(THP_64K, O_WRONLY);

	if (fd < 0 || page >= BLOCK)
		skip("there are no 64 KiB folios of smaller pages");
	if (write(fd, "always", 6) != 6)
		fail(THP_64K);
	close(fd);
	base = mmap(NULL, len + BLOCK, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		fail("mmap");
	base += -(size_t)base % BLOCK;
	for (nr = 0; nr < BLOCKS * per_block; nr++)
		base[nr * page] = pattern(nr);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "rounds", required_argument, NULL, 'r' },
		{ "seed", required_argument, NULL, 's' },
		{ }
	};
	unsigned long rounds = 50000, seed = 1, n, convert, clear;
	unsigned long convert0, clear0, passes = 0, seen = 0;
	struct reader readers[READERS] = { };
	const char *why = NULL;
	bool in_place, counted;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'r')
			rounds = strtoul(optarg, NULL, 0);
		else if (c == 's')
			seed = strtoul(optarg, NULL, 0);
		else
			usage();
	}
	if (optind != argc || !rounds || !seed)
		usage();
	page = sysconf(_SC_PAGESIZE);
	per_block = BLOCK / page;
	counted = updates(&convert0, &clear0);
	map_blocks();

	for (int i = 0; i < READERS; i++)
		if (pthread_create(&readers[i].thread, NULL, read_pages,
				   &readers[i]))
			fail("pthread_create");
	while (atomic_load(&started) < READERS)
		sched_yield();

	for (n = 0; n < rounds; n++) {
		unsigned char *last;

		seed = seed * 1103515245 + 12345;
		last = base + (seed >> 8) % BLOCKS * BLOCK + BLOCK - page;
		if (mprotect(last, page, PROT_READ) ||
		    mprotect(last, page, PROT_READ | PROT_WRITE))
			fail("mprotect");
	}
	atomic_store(&stop, true);
	for (int i = 0; i < READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		passes += readers[i].passes;
		seen += readers[i].faults;
	}
	updates(&convert, &clear);
	convert -= convert0;
	clear -= clear0;
	in_place = counted && convert;

	if ((in_place ? convert : clear) < 2 * rounds * per_block)
		why = "fewer entries were converted";
	else if (passes < READERS * 10)
		why = "the readers hardly read";
	else if (in_place && seen)
		why = "a reader met an entry that was not valid";
	printf("convert/%s: races %lu overlaps %lu faults %lu : %s%s\n",
	       in_place ? "in-place" : "break-before-make", 2 * rounds, passes,
	       seen, why ? "FAILED " : "ok", why ? why : "");
	return why ? EXIT_FAIL : 0;
}
