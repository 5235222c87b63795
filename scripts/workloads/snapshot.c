// SPDX-License-Identifier: GPL-2.0
// a snapshot by fork: the parent writes at random, the child keeps what was

#include "workload.h"

#include <sys/prctl.h>

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* One page of each 64 KiB block, in an order that is random and always same. */
static size_t choose_pages(const struct region *r, size_t *page)
{
	size_t per = wl.page < BLOCK ? BLOCK / wl.page : 1;
	size_t n = r->pages / per;
	uint32_t state = 20181121;

	for (size_t i = 0; i < n; i++) {
		size_t j = next_random(&state) % (i + 1);

		page[i] = page[j];
		page[j] = i * per + next_random(&state) % per;
	}
	return n;
}

static void run(const struct wl_case *c)
{
	struct region r = { 0 };
	size_t *page, n;
	int status;
	pid_t pid;

	region_make(c, &r);
	page = calloc(r.pages, sizeof(*page));
	if (!page)
		fail("out of memory");
	n = choose_pages(&r, page);

	/* Up to where the child stops, so that no step gets a part of it. */
	step_begin(c, 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		raise(SIGSTOP);
		/* Its own copy of r.mark says what was there at the fork. */
		region_check(&r);
		region_expect(&r, PROT_READ | PROT_WRITE);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, &status, WUNTRACED);
	step_end(r.pages);
	must(pid);
	if (!WIFSTOPPED(status))
		fail("child did not stop: status %#x", status);

	step_begin(c, 1);
	for (size_t i = 0; i < n; i++)
		*(volatile unsigned char *)region_mark(&r, page[i]) = 1;
	step_end(n);
	for (size_t i = 0; i < n; i++)
		r.mark[page[i]] = 1;
	region_check(&r);
	region_expect(&r, PROT_READ | PROT_WRITE);
	must(kill(pid, SIGCONT));
	reap(pid, 0);
	region_check(&r);

	free(page);
	region_free(&r);
}

static const struct wl_case cases[] = {
	{ { "snapshot-fork/%", "snapshot-write/%" }, FOLIO_BASE, run, NULL },
	{ { "snapshot-fork/%", "snapshot-write/%" }, FOLIO_64K, run, NULL },
};

int main(int argc, char **argv)
{
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 64, 1);
}
