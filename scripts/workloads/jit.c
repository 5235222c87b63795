// SPDX-License-Identifier: GPL-2.0
// a code generator: writable to write new code, executable to run it, repeated

#include "workload.h"

#define RW	(PROT_READ | PROT_WRITE)
#define RX	(PROT_READ | PROT_EXEC)

/* No two rounds, and no two pages of a round, have the same result. */
static unsigned int result(unsigned int round, size_t page)
{
	return (round * 31 + page * 1021 + 1) & 0x7fff;
}

/* One round. Returns how many calls and functions went wrong. */
static unsigned int toggle(const struct region *r, unsigned int round)
{
	unsigned int bad = !!mprotect(r->base, r->len, RW);

	for (size_t p = 0; p < r->pages; p++) {
		*region_page(r, p) = code_word(result(round, p));
		code_sync(region_page(r, p));
	}
	bad += !!mprotect(r->base, r->len, RX);
	for (size_t p = 0; p < r->pages; p++)
		bad += code_run(region_page(r, p)) != (int)result(round, p);
	return bad;
}

static void run(const struct wl_case *c)
{
	const size_t *len = c->arg;
	struct region r = { .len = *len ? *len : wl.page };
	unsigned int bad = 0;

	region_make(c, &r);
	/* The first mapping as executable is not like the others. */
	bad += toggle(&r, wl.rounds);

	step_begin(c, 0);
	for (unsigned int i = 0; i < wl.rounds; i++)
		bad += toggle(&r, i);
	step_end(wl.rounds);
	if (bad)
		fail("%u calls or functions went wrong", bad);

	for (size_t p = 0; p < r.pages; p++)
		if (probe(region_mark(&r, p), PROT_WRITE) != SEGV_ACCERR)
			fail("page %zu is writable and executable", p);
	must(mprotect(r.base, r.len, RW));
	for (size_t p = 0; p < r.pages; p++) {
		if (probe(region_page(&r, p), PROT_EXEC) != SEGV_ACCERR)
			fail("page %zu is executable and writable", p);
		*region_page(&r, p) = code_word(region_code(p));
	}
	region_check(&r);
	region_expect(&r, RW);
	region_free(&r);
}

static const size_t one_page, block = BLOCK;

static const struct wl_case cases[] = {
	{ { "jit/toggle-1page" }, FOLIO_BASE, run, &one_page },
	{ { "jit/toggle-64k" }, FOLIO_64K, run, &block },
};

int main(int argc, char **argv)
{
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 64, 256);
}
