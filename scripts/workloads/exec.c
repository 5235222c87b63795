// SPDX-License-Identifier: GPL-2.0
// vfork or fork, then exec of a small static program or of a script

#include "workload.h"

/* The program that is executed is this one, which then only ends like this. */
#define NOOP		"--noop"
#define NOOP_STATUS	7

static char self[4096];

static pid_t spawn_vfork(char **argv)
{
	pid_t pid = vfork();

	if (!pid) {
		execv(argv[0], argv);
		_exit(127);
	}
	return pid;
}

static pid_t spawn_fork(char **argv)
{
	pid_t pid = fork();

	if (!pid) {
		execv(argv[0], argv);
		_exit(127);
	}
	return pid;
}

static void repeat(const struct wl_case *c, char *path, pid_t (*spawn)(char **))
{
	char *argv[] = { path, NOOP, NULL };
	unsigned int good = 0;

	step_begin(c, 0);
	for (unsigned int i = 0; i < wl.rounds; i++) {
		int status = 0;
		pid_t pid = spawn(argv);

		if (pid > 0)
			waitpid(pid, &status, 0);
		good += WIFEXITED(status) && WEXITSTATUS(status) == NOOP_STATUS;
	}
	step_end(wl.rounds);
	if (good != wl.rounds)
		fail("%u of %u programs ran", good, wl.rounds);
}

static void run_vfork(const struct wl_case *c)
{
	repeat(c, self, spawn_vfork);
}

static void run_fork(const struct wl_case *c)
{
	repeat(c, self, spawn_fork);
}

static void run_script(const struct wl_case *c)
{
	int fd = memfd_create("script", 0), ro;
	char path[64];

	if (fd < 0)
		return case_skip(c, "no memfd_create()");
	if (dprintf(fd, "#!%s " NOOP "\n", self) < 0)
		fail("the script cannot be written: %s", strerror(errno));
	/* A file that is open for writing is not executed. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY);
	must(ro);
	close(fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ro);
	repeat(c, path, spawn_vfork);
	close(ro);
}

static const struct wl_case cases[] = {
	{ { "exec-vfork/static" }, FOLIO_NONE, run_vfork, NULL },
	{ { "exec-fork/static" }, FOLIO_NONE, run_fork, NULL },
	{ { "exec-vfork/script" }, FOLIO_NONE, run_script, NULL },
};

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], NOOP))
		_exit(NOOP_STATUS);
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		skip_all("no /proc/self/exe");
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 64, 20);
}
