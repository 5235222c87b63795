// SPDX-License-Identifier: GPL-2.0
/*
 * known - does something a known number of times, so that what perf counts of it
 * has an exact answer: scripts/perf.tsv
 *
 *	known load		load /lib/pteopt.ko, which stays
 *	known run REQUEST...	one request to the module's file `run`
 *	known mprotect N	N times 16 pages to read-only and back
 *	known fork N		N children that end at once
 *	known exec N		N children that execute this, without arguments
 *
 * Without arguments it ends at once: that is the guest's /bin/true, too. Exit
 * status: 0, or 1 with the reason.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODULE	"/lib/pteopt.ko"
#define REQUEST	"/sys/kernel/debug/pteopt/run"
#define MIB	(1UL << 20)

__attribute__((noreturn))
static void fail(const char *what)
{
	printf("@@ fail %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static void load(void)
{
	int fd = open(MODULE, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
		fail(MODULE);
}

static void request(int argc, char **argv)
{
	int fd = open(REQUEST, O_RDWR | O_CLOEXEC), len = 0, i;
	char text[256];

	for (i = 0; i < argc && len < (int)sizeof(text); i++)
		len += snprintf(text + len, sizeof(text) - len, "%s%s",
				i ? " " : "", argv[i]);
	if (fd < 0 || write(fd, text, len) != len)
		fail(REQUEST);
}

static void change(unsigned long rounds)
{
	size_t len = 16 * getpagesize();
	char *at = mmap(NULL, 4 * MIB, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		fail("mmap");
	/* All of them in one page table, and none part of a large folio */
	at = (char *)(((unsigned long)at + 2 * MIB - 1) & -(2 * MIB));
	if (mprotect(at, len, PROT_READ | PROT_WRITE))
		fail("mprotect");
	madvise(at, len, MADV_NOHUGEPAGE);
	memset(at, 1, len);
	while (rounds--)
		if (mprotect(at, len, PROT_READ) ||
		    mprotect(at, len, PROT_READ | PROT_WRITE))
			fail("mprotect");
}

static void children(unsigned long rounds, bool exec)
{
	while (rounds--) {
		pid_t pid = fork();
		int status = -1;

		if (!pid) {
			if (exec)
				execl("/proc/self/exe", "known", NULL);
			_exit(exec);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			fail("child");
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

	if (argc == 1)
		return EXIT_SUCCESS;
	if (!strcmp(what, "load"))
		load();
	else if (!strcmp(what, "run"))
		request(argc - 2, argv + 2);
	else if (!strcmp(what, "mprotect") && rounds)
		change(rounds);
	else if ((!strcmp(what, "fork") || !strcmp(what, "exec")) && rounds)
		children(rounds, !strcmp(what, "exec"));
	else
		fail(what);
	return EXIT_SUCCESS;
}
