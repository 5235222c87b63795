// SPDX-License-Identifier: GPL-2.0
/*
 * blocks - change the protection of contpte blocks, and print their entries
 *
 * Each step is one mprotect() between two marks of the op counter, whose order
 * log then has what the kernel did; the entries of the blocks are read before
 * and after it. orderlog.py puts the two together and judges.
 *
 *	@@ order <case>/<step>
 *	before <block> <address of the first entry> <16 entries>
 *	after <block> <address of the first entry> <16 entries>
 *
 * Entries come from pteopt_entries of KUnit suite `entries`, which is loaded.
 * Exit status: 0 all steps ran, 1 something went wrong, 4 no such blocks here.
 */
#include "stress.h"

#define ENTRIES		"/sys/kernel/debug/pteopt_entries"
#define NR_BLOCKS	2
#define BLOCK_PAGES	16
#define NR_PAGES	(NR_BLOCKS * BLOCK_PAGES)

#define NONE		PROT_NONE
#define RO		PROT_READ
#define RW		(PROT_READ | PROT_WRITE)
#define RX		(PROT_READ | PROT_EXEC)

/**
 * struct step - one mprotect()
 * @name: of the step
 * @first: first page
 * @n: number of pages, 0 if there is no such step
 * @prot: to give to them
 */
struct step {
	const char *name;
	unsigned int first, n;
	int prot;
};

/**
 * struct order_case - steps on blocks that start out whole, dirty, writable
 * @name: of the case
 * @shared: the second half of the first block has been shared with a child
 * @step: what to do
 */
struct order_case {
	const char *name;
	bool shared;
	struct step step[6];
};

static const struct order_case cases[] = {
	{ "whole", false, {
		{ "ro", 0, NR_PAGES, RO }, { "rw", 0, NR_PAGES, RW },
		{ "none", 0, NR_PAGES, NONE }, { "rw-again", 0, NR_PAGES, RW } } },
	{ "exec", false, {
		{ "rx", 0, NR_PAGES, RX }, { "rw", 0, NR_PAGES, RW } } },
	/* Leaves a block of 16 entries that are alike, and not contpte */
	{ "one-page", false, {
		{ "page-ro", 5, 1, RO }, { "page-rw", 5, 1, RW },
		{ "ro", 0, NR_PAGES, RO }, { "rw", 0, NR_PAGES, RW } } },
	/* The same, but the last page: the kernel looks whether it can fold. */
	{ "last-page", false, {
		{ "page-ro", 15, 1, RO }, { "page-rw", 15, 1, RW },
		{ "ro", 0, NR_PAGES, RO } } },
	{ "unfolded", false, {
		{ "page-ro", 5, 1, RO }, { "page-rw", 5, 1, RW },
		{ "none", 0, NR_PAGES, NONE }, { "rw", 0, NR_PAGES, RW } } },
	/* Half of each block */
	{ "edges", false, {
		{ "ro", 8, BLOCK_PAGES, RO }, { "rw", 8, BLOCK_PAGES, RW },
		{ "all-ro", 0, NR_PAGES, RO } } },
	/* Write access is granted to a part of a block only. */
	{ "exclusive", true, {
		{ "ro", 0, NR_PAGES, RO }, { "rw", 0, NR_PAGES, RW },
		{ "ro-again", 0, NR_PAGES, RO }, { "none", 0, NR_PAGES, NONE },
		{ "rw-again", 0, NR_PAGES, RW } } },
};

struct entry {
	uint64_t value, where;
};

static int load(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int err = fd < 0 || syscall(SYS_finit_module, fd, "", 0) ? errno : 0;

	if (fd >= 0)
		close(fd);
	return err == EEXIST ? 0 : err;
}

static void read_entries(int fd, const struct region *r, struct entry *e)
{
	const size_t len = NR_PAGES * sizeof(*e);
	off_t at = (uintptr_t)r->base / wl.page * sizeof(*e);

	if (pread(fd, e, len, at) != (ssize_t)len)
		fail(ENTRIES ": %s", strerror(errno));
}

static void print_entries(const char *when, const struct entry *e)
{
	for (int block = 0; block < NR_BLOCKS; block++) {
		printf("%s %d %#lx", when, block,
		       (unsigned long)e[block * BLOCK_PAGES].where);
		for (int i = 0; i < BLOCK_PAGES; i++)
			printf(" %#lx", (unsigned long)
			       e[block * BLOCK_PAGES + i].value);
		printf("\n");
	}
}

/*
 * A child that had the pages, too, leaves them not exclusive: so the half of the
 * block that it got.
 */
static void share_half(const struct region *r)
{
	size_t len = BLOCK_PAGES / 2 * wl.page;
	unsigned char *rest = r->base + BLOCK_PAGES * wl.page;
	pid_t pid;

	must(madvise(r->base, len, MADV_DONTFORK));
	must(madvise(rest, r->len - BLOCK_PAGES * wl.page, MADV_DONTFORK));
	pid = must(fork());
	if (!pid)
		_exit(0);
	reap(pid, 0);
	must(madvise(r->base, r->len, MADV_DOFORK));
}

static void run_case(const struct order_case *c, int entries)
{
	const struct wl_case folio = { .folio = FOLIO_64K };
	struct region r = { .len = NR_PAGES * wl.page };
	struct entry before[NR_PAGES], after[NR_PAGES];

	region_make(&folio, &r);
	/* What is read later is there before, for its fault would be counted. */
	read_entries(entries, &r, after);
	if (c->shared)
		share_half(&r);
	for (const struct step *s = c->step; s->n; s++) {
		int err;

		read_entries(entries, &r, before);
		mark_start();
		err = mprotect(r.base + s->first * wl.page, s->n * wl.page,
			       s->prot);
		mark_stop();
		if (err)
			fail("%s/%s: %s", c->name, s->name, strerror(errno));
		read_entries(entries, &r, after);
		printf("@@ order %s/%s\n", c->name, s->name);
		print_entries("before", before);
		print_entries("after", after);
		fflush(stdout);
		/* A write to what is shared would put another page there. */
		for (unsigned int p = s->first; p < s->first + s->n; p++)
			if (!c->shared)
				region_probe(&r, p, s->prot);
	}
	must(mprotect(r.base, r.len, RW));
	region_check(&r);
	region_free(&r);
}

int main(void)
{
	const char *why = folio_missing(FOLIO_64K);
	int err, entries;

	stress_init("blocks");
	if (why || wl.page * BLOCK_PAGES != BLOCK)
		skip_all(why ? why : "a block is not of 16 pages here");
	catch_probes();
	err = load("/lib/kunit.ko");
	if (!err)
		err = load("/lib/kunit/entries_kunit.ko");
	if (err)
		fail("the entries suite can't be loaded: %s", strerror(err));
	entries = open(ENTRIES, O_RDONLY | O_CLOEXEC);
	if (entries < 0)
		fail(ENTRIES ": %s", strerror(errno));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		run_case(&cases[i], entries);
	return 0;
}
