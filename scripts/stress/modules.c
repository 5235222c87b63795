// SPDX-License-Identifier: GPL-2.0
/*
 * modules - two modules are loaded and unloaded in turn, while all CPUs run them
 *
 * Each has code that is not the other's, mostly at the same addresses. When one is
 * loaded, every CPU runs it, by an interrupt; and a thread on each CPU runs it
 * whenever it is there, by reading a parameter in sysfs. CPUs go and come meanwhile,
 * but the first.
 *
 * One line: loads (races), how often a thread ran the code (overlaps), and how often
 * a CPU went. Exit status: 0 all is well, 1 old code ran, a module was not there, or
 * no thread met one; 2 usage, 4 the kernel lacks what this needs.
 *
 * An emulator has no stale instruction cache. What this shows there is that
 * loading, running and unloading at once does not fail, hang or trip a check of
 * the kernel's; on hardware, that the code is the module's.
 */
// kernel: faults
// stress: --rounds=400
#include "stress.h"

#define NR		2
#define MAX_CPUS	64

/* See workloads/modules/icache_code.h */
static const char *const name[NR] = { "icache_code_one", "icache_code_two" };
static const int answer[NR] = { 1, 2 };

static atomic_bool stop;
static atomic_ulong ran;
static int fd[NR];

static int load(int module, int expected)
{
	char options[32];

	snprintf(options, sizeof(options), "expected=%d", expected);
	return syscall(SYS_finit_module, fd[module], options, 0) ? errno : 0;
}

/* A reader may be in its code just now. */
static void unload(int module)
{
	while (syscall(SYS_delete_module, name[module], O_NONBLOCK))
		if (errno != EAGAIN && errno != EBUSY)
			fail("%s is not unloaded: %s", name[module],
			     strerror(errno));
}

static void *run_code(void *arg)
{
	char path[NR][64], text[16];

	stay_on_cpu((uintptr_t)arg);
	for (int i = 0; i < NR; i++)
		snprintf(path[i], sizeof(path[i]),
			 "/sys/module/%s/parameters/answer", name[i]);
	for (unsigned long n = 0; !atomic_load(&stop); n++) {
		int file = open(path[n % NR], O_RDONLY | O_CLOEXEC);
		ssize_t len;

		if (file < 0)
			continue;
		len = read(file, text, sizeof(text) - 1);
		close(file);
		/* It may have gone in between. */
		if (len <= 0)
			continue;
		text[len] = '\0';
		if (atoi(text) != answer[n % NR])
			fail("%s answers %s", name[n % NR], text);
		atomic_fetch_add(&ran, 1);
	}
	return NULL;
}

static void *hotplug(void *arg)
{
	unsigned long *gone = arg;
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	char path[64];

	for (long cpu = 1; !atomic_load(&stop); cpu = cpu % (cpus - 1) + 1) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%ld/online", cpu);
		if (access(path, W_OK))
			return NULL;
		file_write(path, "0");
		file_write(path, "1");
		++*gone;
	}
	return NULL;
}

__attribute__((noreturn))
static void usage(void)
{
	fprintf(stderr, "usage: modules [--rounds=N] [--seed=N]\n");
	exit(EXIT_USAGE);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "rounds", required_argument, NULL, 'r' },
		{ "seed", required_argument, NULL, 's' },
		{ }
	};
	unsigned long rounds = 400, gone = 0;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t reader[MAX_CPUS], plug;
	const char *why = NULL;
	char path[64];
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'r')
			rounds = strtoul(optarg, NULL, 0);
		else if (c != 's')
			usage();
	}
	if (optind != argc || !rounds)
		usage();
	stress_init("modules");
	if (cpus < 2 || cpus > MAX_CPUS)
		skip_all("this takes several CPUs");
	for (int i = 0; i < NR; i++) {
		snprintf(path, sizeof(path), "/lib/%s.ko", name[i]);
		fd[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (fd[i] < 0)
			fail("%s: %s", path, strerror(errno));
	}
	/* What shall be found can be found: this is what old code would be. */
	c = load(0, answer[1]);
	if (c != EILSEQ)
		fail("another module's code is not noticed: %s", strerror(c));

	for (long i = 0; i < cpus; i++)
		start_thread(&reader[i], run_code, (void *)i);
	start_thread(&plug, hotplug, &gone);
	for (unsigned long n = 0; n < rounds; n++) {
		c = load(n % NR, answer[n % NR]);
		if (c)
			fail("load %lu: %s: %s", n, name[n % NR],
			     c == EILSEQ ? "other code ran" : strerror(c));
		unload(n % NR);
	}
	atomic_store(&stop, true);
	for (long i = 0; i < cpus; i++)
		pthread_join(reader[i], NULL);
	pthread_join(plug, NULL);
	if (!atomic_load(&ran))
		why = "no thread met a module";
	printf("modules/in-turn: races %lu overlaps %lu gone %lu : %s%s\n",
	       rounds, atomic_load(&ran), gone, why ? "FAILED " : "ok",
	       why ? why : "");
	return why ? EXIT_FAIL : 0;
}
