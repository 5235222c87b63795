// SPDX-License-Identifier: GPL-2.0
// mprotect to read-only and back, for regions from 4 KiB to 1 GiB
// memory: 2048
// timeout: 1200
// on_request: 1

#include "workload.h"

#define RO	PROT_READ
#define RW	(PROT_READ | PROT_WRITE)

/* Calls for small regions, so that a step has more to count than one call. */
#define TOTAL	(16 * MIB)
#define MAX_CALLS	512

static unsigned int calls(size_t len)
{
	size_t n = TOTAL / len;

	return n > MAX_CALLS ? MAX_CALLS : n ? n : 1;
}

/* Returns how many calls failed. */
static unsigned int toggle(const struct region *r, unsigned int n)
{
	unsigned int bad = 0;

	while (n--) {
		bad += !!mprotect(r->base, r->len, RO);
		bad += !!mprotect(r->base, r->len, RW);
	}
	return bad;
}

static void run(const struct wl_case *c)
{
	size_t len = *(const size_t *)c->arg, folio = folio_size(c->folio);
	struct region r = { .len = (len + folio - 1) / folio * folio, .words = 4 };
	unsigned int n = calls(r.len), bad;

	if (len < folio)
		return case_skip(c, "the region is smaller than a folio");
	region_make(c, &r);
	/* The first change of a mapping is not like the others. */
	bad = toggle(&r, 1);

	step_begin(c, 0);
	bad += toggle(&r, n);
	step_end(2 * n * r.pages);
	if (bad)
		fail("%u calls failed", bad);
	region_expect(&r, RW);
	region_write(&r, 1);
	region_written(&r, 1);

	must(mprotect(r.base, r.len, RO));
	region_probe_some(&r, RO);
	must(mprotect(r.base, r.len, RW));
	region_probe_some(&r, RW);
	region_free(&r);
}

#define SIZE(name, len)							\
	{ .step = { "toggle/%/" name }, .folio = FOLIO_BASE, .run = run,	\
	  .arg = &(const size_t){ len } },				\
	{ .step = { "toggle/%/" name }, .folio = FOLIO_64K, .run = run,	\
	  .arg = &(const size_t){ len } }

static const struct wl_case cases[] = {
	SIZE("4k", 4 * KIB),
	SIZE("40k", 40 * KIB),
	SIZE("400k", 400 * KIB),
	SIZE("4m", 4 * MIB),
	SIZE("64m", 64 * MIB),
	SIZE("1g", 1024 * MIB),
};

int main(int argc, char **argv)
{
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 2, 1);
}
