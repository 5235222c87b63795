// SPDX-License-Identifier: GPL-2.0
// fork of a populated parent, twice, and the parent's writes after it

#include "workload.h"

/* The child ends at once: what is measured is the copy and its teardown. */
static void fork_and_exit(const struct wl_case *c, const struct region *r,
			  unsigned int step)
{
	int status = -1;
	pid_t pid;

	step_begin(c, step);
	pid = fork();
	if (!pid)
		_exit(0);
	if (pid > 0)
		waitpid(pid, &status, 0);
	step_end(r->pages);
	if (status)
		fail("fork gave %d, status %#x", pid, status);
	region_expect(r, PROT_READ | PROT_WRITE);
	region_check(r);
}

static void run(const struct wl_case *c)
{
	struct region r = { 0 };

	region_make(c, &r);
	fork_and_exit(c, &r, 0);
	fork_and_exit(c, &r, 1);

	step_begin(c, 2);
	region_write(&r, 1);
	step_end(r.pages);
	region_expect(&r, PROT_READ | PROT_WRITE);
	region_written(&r, 1);
	region_free(&r);
}

static const struct wl_case cases[] = {
	{ { "fork1/%", "fork2/%", "rewrite/%" }, FOLIO_BASE, run, NULL },
	{ { "fork1/%", "fork2/%", "rewrite/%" }, FOLIO_64K, run, NULL },
};

int main(int argc, char **argv)
{
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 64, 1);
}
