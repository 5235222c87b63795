// SPDX-License-Identifier: GPL-2.0
// munmap of a populated region

#include "workload.h"

static void run(const struct wl_case *c)
{
	struct region r = { 0 };
	struct smaps s;
	int err;

	region_make(c, &r);
	region_check(&r);

	step_begin(c, 0);
	err = munmap(r.base, r.len);
	step_end(r.pages);
	if (err)
		fail("munmap: %s", strerror(errno));
	/* Every page: a translation that stayed behind would still serve. */
	for (size_t p = 0; p < r.pages; p++)
		if (probe(region_mark(&r, p), PROT_READ) != SEGV_MAPERR ||
		    probe(region_mark(&r, p), PROT_WRITE) != SEGV_MAPERR)
			fail("page %zu can still be accessed", p);
	s = region_smaps(&r, -1);
	if (s.mapped)
		fail("smaps has %zu bytes mapped", s.mapped);
	free(r.mark);
}

static const struct wl_case cases[] = {
	{ { "munmap/%" }, FOLIO_BASE, run, NULL },
	{ { "munmap/%" }, FOLIO_64K, run, NULL },
	{ { "munmap/%" }, FOLIO_2M, run, NULL },
};

int main(int argc, char **argv)
{
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 64, 1);
}
