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
#include "stress.h"

#include <sys/resource.h>

#define BLOCKS	16
#define READERS	2

struct reader {
	pthread_t thread;
	unsigned long passes, faults;
};

static unsigned char *base;
static size_t per_block;
static atomic_bool stop;
static atomic_uint started;

static unsigned char pattern(size_t nr)
{
	return 0x40 + nr % 191;
}

static unsigned long faults(void)
{
	struct rusage usage;

	must(getrusage(RUSAGE_THREAD, &usage));
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
			volatile unsigned char *p = base + nr * wl.page;

			if (*p != pattern(nr))
				fail("wrong byte");
		}
		r->passes++;
	}
	r->faults = faults() - before;
	return NULL;
}

/* Updates of entries by now: to convert them in place, and to clear them. */
static bool updates(int stats, unsigned long *convert, unsigned long *clear)
{
	struct update_counts c[16];
	unsigned int n = stats_read(stats, c, ARRAY_SIZE(c));
	bool found = false;

	*convert = *clear = 0;
	for (unsigned int i = 0; i < n; i++) {
		if (!strcmp(c[i].name, "convert")) {
			*convert = c[i].plain + c[i].atomic;
			found = true;
		} else if (!strcmp(c[i].name, "clear")) {
			*clear = c[i].plain + c[i].atomic;
		}
	}
	return found;
}

__attribute__((noreturn))
static void usage(void)
{
	fprintf(stderr, "usage: convert [--rounds=N] [--seed=N]\n");
	exit(EXIT_USAGE);
}

static void map_blocks(void)
{
	size_t len = BLOCKS * BLOCK, nr;

	if (access(THP_64K "enabled", W_OK) || wl.page >= BLOCK)
		skip_all("there are no 64 KiB folios of smaller pages");
	file_write(THP_64K "enabled", "always");
	base = mmap(NULL, len + BLOCK, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	base += -(size_t)base % BLOCK;
	for (nr = 0; nr < BLOCKS * per_block; nr++)
		base[nr * wl.page] = pattern(nr);
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
	uint64_t random;
	int c, stats;

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
	stress_init("convert");
	random = seeded(seed);
	per_block = BLOCK / wl.page;
	stats = open(HOOKS "/stats", O_RDONLY);
	if (stats < 0)
		skip_all("the kernel lacks CONFIG_SETTLED_PTES_TEST");
	counted = updates(stats, &convert0, &clear0);
	map_blocks();

	for (int i = 0; i < READERS; i++)
		start_thread(&readers[i].thread, read_pages, &readers[i]);
	while (atomic_load(&started) < READERS)
		sched_yield();

	for (n = 0; n < rounds; n++) {
		unsigned char *block = base + draw(&random) % BLOCKS * BLOCK;
		unsigned char *last = block + BLOCK - wl.page;

		must(mprotect(last, wl.page, PROT_READ));
		must(mprotect(last, wl.page, PROT_READ | PROT_WRITE));
	}
	atomic_store(&stop, true);
	for (int i = 0; i < READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		passes += readers[i].passes;
		seen += readers[i].faults;
	}
	updates(stats, &convert, &clear);
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
