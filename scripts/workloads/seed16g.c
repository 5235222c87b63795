// SPDX-License-Identifier: GPL-2.0
// 16 GiB to read-only, read, to read-write, written, twice
// memory: 18432
// timeout: 1800
// on_request: 1

#include "workload.h"

#define RO	PROT_READ
#define RW	(PROT_READ | PROT_WRITE)
/* The byte that every page holds before round 0, and then one more a round. */
#define FIRST_MARK	0xa5

/* Page tables, one byte of bookkeeping a page, and room for the rest. */
static size_t needed(void)
{
	return wl.size + wl.size / wl.page * 9 + 64 * MIB;
}

static size_t available(void)
{
	int fd = open("/proc/meminfo", O_RDONLY);
	const char *text;

	must(fd);
	text = proc_text(fd);
	close(fd);
	return proc_value(text, "MemAvailable:") * KIB;
}

static unsigned long region_sum(const struct region *r)
{
	unsigned long sum = 0;

	for (size_t p = 0; p < r->pages; p++)
		sum += *(volatile unsigned char *)region_mark(r, p);
	return sum;
}

static void run(const struct wl_case *c)
{
	struct region r = { .words = 4 };
	unsigned long sum;
	int err;

	if (available() < needed()) {
		char why[128];

		snprintf(why, sizeof(why),
			 "needs %zu MiB, %zu MiB are available; boot the guest with more memory",
			 needed() / MIB, available() / MIB);
		skip_all(why);
	}
	region_make(c, &r);
	region_write(&r, FIRST_MARK);
	region_written(&r, FIRST_MARK);

	for (unsigned int round = 0; round < 2; round++) {
		unsigned char mark = FIRST_MARK + round;

		step_begin(c, round * 4);
		err = mprotect(r.base, r.len, RO);
		step_end(r.pages);
		if (err)
			fail("mprotect: %s", strerror(errno));
		region_probe_some(&r, RO);
		region_expect(&r, RO);

		step_begin(c, round * 4 + 1);
		sum = region_sum(&r);
		step_end(r.pages);
		if (sum != mark * r.pages)
			fail("sum is %lu, expected %lu", sum, mark * r.pages);

		step_begin(c, round * 4 + 2);
		err = mprotect(r.base, r.len, RW);
		step_end(r.pages);
		if (err)
			fail("mprotect: %s", strerror(errno));
		region_expect(&r, RW);
		region_check(&r);

		step_begin(c, round * 4 + 3);
		region_write(&r, mark + 1);
		step_end(r.pages);
		region_written(&r, mark + 1);
		region_probe_some(&r, RW);
	}
	region_free(&r);
}

static const struct wl_case cases[] = {
	{ { "seed16g-ro/%/round1", "seed16g-read/%/round1",
	    "seed16g-rw/%/round1", "seed16g-write/%/round1",
	    "seed16g-ro/%/round2", "seed16g-read/%/round2",
	    "seed16g-rw/%/round2", "seed16g-write/%/round2" },
	  FOLIO_BASE, run, NULL },
};

int main(int argc, char **argv)
{
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 16384, 1);
}
