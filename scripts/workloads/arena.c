// SPDX-License-Identifier: GPL-2.0
// an allocator's arena: a reserve that grows, shrinks, and is committed again

#include "workload.h"

#define RW	(PROT_READ | PROT_WRITE)

/* What malloc adds to a heap for a small request, in whole pages. */
static size_t growth(void)
{
	size_t step = 132 * KIB;

	return (step + wl.page - 1) / wl.page * wl.page;
}

static void expect_none(const struct region *r, size_t from, size_t to)
{
	for (size_t p = from; p < to; p++)
		region_probe(r, p, PROT_NONE);
}

/* Pages below @top have their own number in word 1, and are zero elsewhere. */
static void expect_touched(const struct region *r, size_t top, bool zero)
{
	for (size_t p = 0; p < top; p++) {
		const uint64_t *w = region_page(r, p);

		for (size_t i = 0; i < wl.page / 8; i++) {
			uint64_t want = i == 1 && !zero ? p + 1 : 0;

			if (w[i] != want)
				fail("page %zu word %zu is %#lx, expected %#lx",
				     p, i, (unsigned long)w[i],
				     (unsigned long)want);
		}
	}
}

static void expect_rss(const struct region *r, size_t rss)
{
	struct smaps s = region_smaps(r, -1);

	if (s.mapped != r->len || s.rss != rss || s.anon_huge)
		fail("smaps: mapped %zu Rss %zu AnonHugePages %zu, expected %zu %zu 0",
		     s.mapped, s.rss, s.anon_huge, r->len, rss);
}

/* The last piece and what is no whole piece stay a reserve. */
static void run_growth(const struct wl_case *c)
{
	size_t step = growth(), steps = wl.size / step - 1;
	size_t per = step / wl.page, top = steps * per;
	struct region r = {
		.len = wl.size, .pages = wl.size / wl.page,
		.folio = c->folio,
	};
	unsigned int bad = 0;

	r.mark = calloc(r.pages, 1);
	if (!r.mark)
		fail("out of memory");
	region_map(&r);
	must(mprotect(r.base, r.len, PROT_NONE));
	expect_none(&r, 0, r.pages);

	step_begin(c, 0);
	for (size_t s = 0; s < steps; s++) {
		bad += !!mprotect(r.base + s * step, step, RW);
		for (size_t p = s * per; p < (s + 1) * per; p++)
			region_page(&r, p)[1] = p + 1;
	}
	step_end(steps);
	if (bad)
		fail("%u calls failed", bad);
	expect_none(&r, top, r.pages);
	expect_touched(&r, top, false);
	expect_rss(&r, steps * step);

	step_begin(c, 1);
	for (size_t s = steps; s-- > 0; ) {
		bad += !!madvise(r.base + s * step, step, MADV_DONTNEED);
		bad += !!mprotect(r.base + s * step, step, PROT_NONE);
	}
	step_end(2 * steps);
	if (bad)
		fail("%u calls failed", bad);
	expect_none(&r, 0, r.pages);
	expect_rss(&r, 0);
	must(mprotect(r.base, r.len, RW));
	expect_touched(&r, r.pages, true);
	region_free(&r);
}

static unsigned int change(const struct region *r, int prot)
{
	unsigned int bad = 0;

	for (size_t at = 0; at < r->len; at += 2 * BLOCK)
		bad += !!mprotect(r->base + at, 2 * BLOCK, prot);
	return bad;
}

/* Memory that was used is taken away and given back, with its contents. */
static void run_commit(const struct wl_case *c)
{
	struct region r = { 0 };
	unsigned int bad;

	region_make(c, &r);

	step_begin(c, 0);
	bad = change(&r, PROT_NONE);
	step_end(r.len / (2 * BLOCK));
	if (bad)
		fail("%u calls failed", bad);
	expect_none(&r, 0, r.pages);
	region_expect(&r, PROT_NONE);

	step_begin(c, 1);
	bad = change(&r, RW);
	step_end(r.len / (2 * BLOCK));
	if (bad)
		fail("%u calls failed", bad);
	region_expect(&r, RW);
	region_check(&r);
	region_write(&r, 1);
	region_written(&r, 1);
	region_free(&r);
}

static const struct wl_case cases[] = {
	{ { "arena/grow-%", "arena/shrink-%" }, FOLIO_BASE, run_growth, NULL },
	{ { "arena/decommit-%", "arena/commit-%" }, FOLIO_BASE, run_commit,
	  NULL },
	{ { "arena/decommit-%", "arena/commit-%" }, FOLIO_64K, run_commit,
	  NULL },
};

int main(int argc, char **argv)
{
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 64, 1);
}
