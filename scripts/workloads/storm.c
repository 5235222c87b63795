// SPDX-License-Identifier: GPL-2.0
// a shell: starts one small program after another, and works on in between

#include "workload.h"

/* The program that is started is this one, with a number to work on. */
#define WORK		"--work"
#define SHELL_SIZE	(8 * MIB)
#define PROGRAM_SIZE	(256 * KIB)

static char self[4096];

/* Fill some memory, add it up: a status that depends on all of it. */
static int status_of(unsigned int number)
{
	unsigned int sum = 0;

	for (unsigned int i = 0; i < PROGRAM_SIZE / KIB; i++)
		sum += number * 31 + i;
	return sum % 100;
}

static int work(unsigned int number)
{
	unsigned int *memory = malloc(PROGRAM_SIZE), sum = 0;

	if (!memory)
		return 127;
	for (unsigned int i = 0; i < PROGRAM_SIZE / KIB; i++)
		memory[i * KIB / sizeof(*memory)] = number * 31 + i;
	for (unsigned int i = 0; i < PROGRAM_SIZE / KIB; i++)
		sum += memory[i * KIB / sizeof(*memory)];
	return sum % 100;
}

/*
 * After each fork the shell writes to some pages of its memory, which the child
 * still shares, and after each program to some that only it has.
 */
static void run(const struct wl_case *c)
{
	struct region r = { .len = SHELL_SIZE, .words = 8 };
	unsigned int good = 0, page = 0;
	char arg[16];
	char *argv[] = { self, WORK, arg, NULL };

	region_make(c, &r);
	step_begin(c, 0);
	for (unsigned int i = 0; i < wl.rounds; i++) {
		int status = 0;
		pid_t pid;

		snprintf(arg, sizeof(arg), "%u", i);
		pid = fork();
		if (!pid) {
			execv(argv[0], argv);
			_exit(127);
		}
		for (unsigned int n = 0; n < 4; n++) {
			page = (page + 37) % r.pages;
			*(volatile unsigned char *)region_mark(&r, page) = i;
		}
		if (pid > 0)
			waitpid(pid, &status, 0);
		good += pid > 0 && WIFEXITED(status) &&
			WEXITSTATUS(status) == status_of(i);
		page = (page + 37) % r.pages;
		*(volatile unsigned char *)region_mark(&r, page) = i;
	}
	step_end(wl.rounds);

	if (good != wl.rounds)
		fail("%u of %u programs ended as they should", good, wl.rounds);
	page = 0;
	for (unsigned int i = 0; i < wl.rounds; i++) {
		for (unsigned int n = 0; n < 5; n++) {
			page = (page + 37) % r.pages;
			r.mark[page] = i;
		}
	}
	region_check(&r);
	region_free(&r);
}

static const struct wl_case cases[] = {
	{ { "storm/%" }, FOLIO_BASE, run, NULL },
	{ { "storm/%" }, FOLIO_64K, run, NULL },
};

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], WORK))
		_exit(work(atoi(argv[2])));
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		skip_all("no /proc/self/exe");
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 8, 200);
}
