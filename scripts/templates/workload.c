// SPDX-License-Identifier: GPL-2.0
// @NAME@: what it does, in one line (`key: value` lines may follow, see Workload in lib.py)

#include "workload.h"

/*
 * One case: make the memory, measure the operation and nothing else, check
 * every byte. See workload.h for regions, probes and skips.
 */
static void run(const struct wl_case *c)
{
	struct region r = { 0 };

	region_make(c, &r);

	step_begin(c, 0);
	/* the operation */
	step_end(r.pages);

	region_check(&r);
	region_free(&r);
}

static const struct wl_case cases[] = {
	{ { "@NAME@/%" }, FOLIO_BASE, run, NULL },
};

int main(int argc, char **argv)
{
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 64, 1);
}
