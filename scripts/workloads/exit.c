// SPDX-License-Identifier: GPL-2.0
// exit of a process that has populated a region of its own

#include "workload.h"

static unsigned long anon_pages(void)
{
	return proc_value(proc_text(wl.vmstat), "nr_anon_pages");
}

/*
 * The interval begins in the child, right before it exits, and ends in the
 * parent, which has done nothing but wait. A page that the teardown had lost
 * would stay in the kernel's count of anonymous pages, which is exact to some
 * hundred pages.
 */
static void run(const struct wl_case *c)
{
	unsigned long before = anon_pages(), after;
	size_t pages = wl.size / wl.page;
	int status;
	pid_t pid;

	step_set(c, 0);
	pid = fork();
	must(pid);
	if (!pid) {
		struct region r = { 0 };

		region_make(c, &r);
		region_write(&r, 1);
		region_written(&r, 1);
		step_start();
		_exit(0);
	}
	must(waitpid(pid, &status, 0));
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAIL)
		_exit(EXIT_FAIL);
	step_end(pages);
	if (status)
		fail("child ended with status %#x", status);
	after = anon_pages();
	if (pages >= 1024 && after > before + pages / 2)
		fail("%lu anonymous pages before, %lu after", before, after);
}

static const struct wl_case cases[] = {
	{ { "exit/%" }, FOLIO_BASE, run, NULL },
	{ { "exit/%" }, FOLIO_64K, run, NULL },
	{ { "exit/%" }, FOLIO_2M, run, NULL },
};

int main(int argc, char **argv)
{
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 64, 1);
}
