// SPDX-License-Identifier: GPL-2.0
// kernel: faults
// stress: nth
// stress: random
// stress: signals
// stress: kills
/*
 * faults - does memory hold what was written if an update fails, or is cut short?
 *
 *   faults nth		each allocation of a fork, of an mprotect() and a
 *			munmap() that split, of a move and of copying on write
 *			is made to fail, one after the other
 *   faults random	several processes of which each allocation may fail
 *			fork, change protections, unmap and exit
 *   faults signals	the same with a timer's signal every 100 us
 *   faults kills	a process is killed while it forks, changes protections,
 *			unmaps, writes or exits; those that it shared memory
 *			with look at it
 *
 * All the time, CPUs are taken away and brought back. What failed must have
 * changed nothing; what is alive finds each byte as it was; no anonymous page and
 * no page table is left over at the end. The kernel log must be silent, which is
 * for the harness to see.
 *
 * One line per case: `<case>: operations N, failed N, <what> N: ok`. Exit status:
 * 0 all is well, 1 a check failed, 2 usage, 4 the kernel can't inject failures.
 */
#include "../workloads/workload.h"

#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/time.h>

#define DEBUG	"/sys/kernel/debug/"
#define RO	PROT_READ
#define RW	(PROT_READ | PROT_WRITE)

enum { WORKERS = 3, WORDS = 8, MAX_CPUS = 8, STACK = 64 * 1024 };

/* What all processes count in. */
static struct counts {
	atomic_ulong operations, failed, events, hotplug;
	atomic_bool stop;
} *counts;

static uint64_t seed = 1;

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static int operation(int err)
{
	atomic_fetch_add(&counts->operations, 1);
	if (err)
		atomic_fetch_add(&counts->failed, 1);
	return err;
}

/*
 * What there must be at least of a case's counts for it to mean something. What
 * may not fail is a failure that nobody asked for.
 */
enum need { NEED_EVENTS = 1, NEED_FAILED = 2, NEED_NO_FAILED = 4 };

static bool report(const char *name, const char *what, enum need need)
{
	unsigned long failed = atomic_exchange(&counts->failed, 0);
	unsigned long events = atomic_exchange(&counts->events, 0);
	unsigned long ops = atomic_exchange(&counts->operations, 0);
	const char *why = NULL;

	if (!ops)
		why = "nothing was done";
	else if ((need & NEED_EVENTS) && !events)
		why = "nothing happened meanwhile";
	else if ((need & NEED_FAILED) && !failed)
		why = "nothing failed";
	else if ((need & NEED_NO_FAILED) && failed)
		why = "something failed";
	printf("%s: operations %lu, failed %lu, %s %lu: %s%s\n", name, ops,
	       failed, what, events, why ? "FAILED: " : "ok", why ? why : "");
	fflush(stdout);
	return !why;
}

/* --- failures of allocations ----------------------------------------------- */

static void knob(const char *what, const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), DEBUG "%s/%s", what, name);
	file_write(path, value);
}

/* Of slab and of pages, those that may sleep and those of user memory, too. */
static void failures(const char *percent)
{
	static const char * const kinds[] = { "failslab", "fail_page_alloc" };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		knob(kinds[i], "verbose", "0");
		knob(kinds[i], "task-filter", "Y");
		knob(kinds[i], "ignore-gfp-wait", "N");
		knob(kinds[i], "interval", "1");
		knob(kinds[i], "times", "-1");
		knob(kinds[i], "probability", percent);
	}
	knob("fail_page_alloc", "ignore-gfp-highmem", "N");
	knob("fail_page_alloc", "min-order", "0");
}

/* The @n-th allocation of this process from now on fails, 0 is none of them. */
static void fail_nth(int fd, unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	if (pwrite(fd, text, len, 0) != len)
		fail("fail-nth: %s", strerror(errno));
}

static bool has_failed(int fd)
{
	char text[16] = "";

	must(pread(fd, text, sizeof(text) - 1, 0));
	return !strtoul(text, NULL, 10);
}

/*
 * A page fault of user mode that gets no memory is tried again, one of the kernel
 * while it writes a signal's frame or a result to the stack is not: let the stack
 * be there, after a fork, too.
 */
static void touch_stack(void)
{
	volatile unsigned char stack[STACK];

	for (size_t i = 0; i < sizeof(stack); i += 1024)
		stack[i] = 1;
}

/*
 * A probe takes a signal, for which the kernel writes to the stack, and gives up if
 * that page is one to be copied and there is no memory: no failures meanwhile.
 */
static int nth_fd = -1, chance_fd = -1;
static bool nth_armed, nth_hit;

/* Of this process; a child has to open its own file, and does not fail before. */
static void make_it_fail(bool yes)
{
	if (pwrite(chance_fd, yes ? "1" : "0", 1, 0) != 1)
		fail("make-it-fail: %s", strerror(errno));
}

static void calm(void)
{
	if (nth_armed) {
		nth_hit = has_failed(nth_fd);
		fail_nth(nth_fd, 0);
		nth_armed = false;
	} else if (chance_fd >= 0) {
		make_it_fail(false);
	}
	touch_stack();
}

/* --- operations; each leaves the region as it was -------------------------- */

/* Where do_move() moves to: address space that nothing else may get. */
static unsigned char *spare;

static void hold(void *at, size_t len)
{
	while (mmap(at, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		    MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED) {
		if (errno == EEXIST)
			return;
		if (errno != ENOMEM)
			fail("mmap: %s", strerror(errno));
	}
}

/* Everything is there, and can be written. */
static void look(struct region *r)
{
	unsigned char mark = draw();

	region_check(r);
	region_write(r, mark);
	region_written(r, mark);
}

static void probe_some(const struct region *r, size_t first, size_t n, int prot)
{
	calm();
	region_probe(r, first, prot);
	region_probe(r, first + n / 2, prot);
	region_probe(r, first + n - 1, prot);
	if (chance_fd >= 0)
		make_it_fail(true);
}

/* The child has what the parent had, and none of its writes is the parent's. */
static int do_fork(struct region *r)
{
	pid_t pid = fork();

	if (pid < 0)
		return errno;
	touch_stack();
	if (!pid) {
		look(r);
		_exit(0);
	}
	reap(pid, 0);
	return 0;
}

/* mprotect() until it works */
static void protect_at_last(void *at, size_t len, int prot)
{
	while (mprotect(at, len, prot))
		if (errno != ENOMEM)
			fail("mprotect: %s", strerror(errno));
}

/*
 * Of a part, so that the VMA has to be split; and back, which merges it, or does
 * not, if that fails: then the next one that fails may have changed a part.
 */
static int do_protect(struct region *r)
{
	size_t first = r->pages / 4, n = r->pages / 2;
	unsigned char *at = r->base + first * wl.page;

	if (mprotect(at, n * wl.page, RO)) {
		int err = errno;

		probe_some(r, 0, first, RW);
		protect_at_last(at, n * wl.page, RW);
		probe_some(r, first, n, RW);
		return err;
	}
	probe_some(r, first, n, RO);
	probe_some(r, 0, first, RW);
	protect_at_last(at, n * wl.page, RW);
	probe_some(r, first, n, RW);
	return 0;
}

/* A hole, which is mapped and filled again; the mappings merge. */
static int do_unmap(struct region *r)
{
	size_t first = r->pages / 4, n = r->pages / 8;
	unsigned char *at = r->base + first * wl.page;
	void *again;

	if (munmap(at, n * wl.page))
		return errno;
	do {
		again = mmap(at, n * wl.page, RW, MAP_PRIVATE | MAP_ANONYMOUS |
			     MAP_FIXED_NOREPLACE, -1, 0);
		if (again == MAP_FAILED && errno != ENOMEM)
			fail("mmap: %s", strerror(errno));
	} while (again == MAP_FAILED);
	while (madvise(at, n * wl.page, MADV_NOHUGEPAGE))
		if (errno == EINVAL)
			break;
	for (size_t p = first; p < first + n; p++) {
		for (size_t i = 0; i < r->words; i++)
			region_page(r, p)[i] = region_word(p, i);
		*region_mark(r, p) = r->mark[p];
	}
	return 0;
}

static int do_move(struct region *r)
{
	unsigned char *from = r->base;
	int err = 0;

	if (mremap(r->base, r->len, r->len, MREMAP_MAYMOVE | MREMAP_FIXED,
		   spare) == MAP_FAILED)
		err = errno;
	/* A failed split has left two mappings: these can't be moved at once. */
	if (err == EFAULT)
		err = 0;
	else if (!err)
		r->base = spare;
	if (r->base != from)
		spare = from;
	hold(spare, r->len);
	return err;
}

/* fork() until it works */
static pid_t fork_at_last(void)
{
	pid_t pid;

	while ((pid = fork()) < 0)
		if (errno != ENOMEM && errno != EAGAIN)
			fail("fork: %s", strerror(errno));
	touch_stack();
	return pid;
}

/* Every page is shared with a child that waits, and so is copied. */
static int do_copy(struct region *r)
{
	char c = 0;
	int end[2] = { -1, -1 };
	pid_t pid;

	while (pipe(end))
		if (errno != ENOMEM && errno != ENFILE)
			fail("pipe: %s", strerror(errno));
	pid = fork_at_last();
	if (!pid) {
		close(end[1]);
		must(read(end[0], &c, 1));
		region_check(r);
		_exit(0);
	}
	close(end[0]);
	look(r);
	close(end[1]);
	reap(pid, 0);
	return 0;
}

struct op {
	const char *name;
	int (*run)(struct region *r);
	bool can_fail;	/* else a page fault is tried again until it works */
};

static const struct op ops[] = {
	{ "fork", do_fork, true },
	{ "mprotect", do_protect, true },
	{ "munmap", do_unmap, true },
	{ "mremap", do_move, true },
	{ "copy", do_copy, false },
};

static const enum wl_folio folios[] = { FOLIO_BASE, FOLIO_64K, FOLIO_2M };

static void make(struct region *r, enum wl_folio folio, bool shared)
{
	const struct wl_case c = { .folio = folio };

	*r = (struct region){ .words = WORDS, .shared = shared };
	region_make(&c, r);
	if (shared)
		return;
	spare = reserve(r->len);
	hold(spare, r->len);
}

static void unmake(struct region *r)
{
	must(munmap(spare, r->len));
	region_free(r);
}

/* --- the parts -------------------------------------------------------------- */

static bool nth(enum wl_folio folio, unsigned long rounds)
{
	bool good = true;
	struct region r;

	nth_hit = true;
	nth_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	must(nth_fd);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		const struct op *op = &ops[i];

		snprintf(wl.step, sizeof(wl.step), "nth-%s-%s", op->name,
			 folio_name(folio));
		make(&r, folio, false);
		/* Wider steps once each one takes long */
		for (unsigned int n = 1; n <= rounds; n += 1 + n / 64) {
			int err;

			fail_nth(nth_fd, n);
			nth_armed = true;
			err = operation(op->run(&r));
			calm();
			if (err && err != ENOMEM && err != EAGAIN)
				fail("allocation %u: %s", n, strerror(err));
			if (err && !nth_hit)
				fail("%s, and nothing was to fail",
				     strerror(err));
			look(&r);
			if (!nth_hit)
				break;
			atomic_fetch_add(&counts->events, 1);
		}
		good &= report(wl.step, "injected", NEED_EVENTS |
			       (op->can_fail ? NEED_FAILED : NEED_NO_FAILED));
		if (nth_hit && op->can_fail) {
			printf("%s: there are more than %lu allocations\n",
			       wl.step, rounds);
			good = false;
		}
		unmake(&r);
	}
	close(nth_fd);
	nth_fd = -1;
	return good;
}

/* A process that does @rounds of what chance says; errors must be of memory. */
static void work(struct region *r, unsigned long rounds, bool may_fail)
{
	while (rounds--) {
		const struct op *op = &ops[draw() % ARRAY_SIZE(ops)];
		int err = operation(op->run(r));

		if (err && (!may_fail || (err != ENOMEM && err != EAGAIN)))
			fail("%s: %s", op->name, strerror(err));
		if (!err && may_fail)
			atomic_fetch_add(&counts->events, 1);
		look(r);
	}
	_exit(0);
}

/* Processes that share @r with this one, and do different things with it. */
static void workers(struct region *r, unsigned long rounds,
		    void (*set_up)(void), bool may_fail)
{
	pid_t pid[WORKERS];

	for (int i = 0; i < WORKERS; i++) {
		draw();
		pid[i] = fork();
		must(pid[i]);
		if (!pid[i]) {
			set_up();
			work(r, rounds, may_fail);
		}
	}
	for (int i = 0; i < WORKERS; i++)
		reap(pid[i], 0);
	look(r);
}

static void fail_by_chance(void)
{
	chance_fd = open("/proc/self/make-it-fail", O_RDWR | O_CLOEXEC);
	must(chance_fd);
	make_it_fail(true);
}

static bool randomly(enum wl_folio folio, unsigned long rounds)
{
	struct region r;

	snprintf(wl.step, sizeof(wl.step), "random-%s", folio_name(folio));
	make(&r, folio, false);
	failures("2");
	workers(&r, rounds, fail_by_chance, true);
	failures("0");
	unmake(&r);
	return report(wl.step, "worked", NEED_EVENTS | NEED_FAILED);
}

static void on_alarm(int sig)
{
	(void)sig;
	atomic_fetch_add(&counts->events, 1);
}

static void set_timer(void)
{
	const struct itimerval often = { { 0, 100 }, { 0, 100 } };
	struct sigaction action = { .sa_handler = on_alarm,
				    .sa_flags = SA_RESTART };

	must(sigaction(SIGALRM, &action, NULL));
	must(setitimer(ITIMER_REAL, &often, NULL));
}

static bool signals(enum wl_folio folio, unsigned long rounds)
{
	struct region r;

	snprintf(wl.step, sizeof(wl.step), "signals-%s", folio_name(folio));
	make(&r, folio, false);
	workers(&r, rounds, set_timer, false);
	unmake(&r);
	return report(wl.step, "signals", NEED_EVENTS | NEED_NO_FAILED);
}

/* What a process does until it is killed; its children die with it. */
__attribute__((noreturn))
static void victim(struct region *r, struct region *shared, unsigned int what,
		   unsigned char mark)
{
	/* No exit handlers, no output: it may be anywhere when it is killed. */
	for (;;) {
		region_write(shared, mark);
		switch (what) {
		case 0:
			if (!fork())
				_exit(0);
			break;
		case 1:
			mprotect(r->base, r->len, RO);
			mprotect(r->base, r->len, RW);
			break;
		case 2:
			munmap(r->base + r->len / 4, r->len / 2);
			mmap(r->base + r->len / 4, r->len / 2, RW, MAP_PRIVATE |
			     MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			/* fallthrough */
		case 3:
			region_write(r, mark);
			break;
		default:
			_exit(0);
		}
	}
}

static void reap_all(pid_t pid)
{
	int status;
	pid_t got;

	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	while ((got = waitpid(-pid, &status, 0)) > 0) {
		if (got != pid)
			continue;
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
			atomic_fetch_add(&counts->events, 1);
		else if (!WIFEXITED(status) || WEXITSTATUS(status))
			fail("victim ended with status %#x", status);
	}
}

static bool kills(enum wl_folio folio, unsigned long rounds)
{
	struct region r, shared;
	unsigned char mark = 0;

	snprintf(wl.step, sizeof(wl.step), "kills-%s", folio_name(folio));
	make(&r, folio, false);
	make(&shared, FOLIO_BASE, true);
	/* Children of a victim come here, to be reaped. */
	must(prctl(PR_SET_CHILD_SUBREAPER, 1));
	for (unsigned long i = 0; i < rounds; i++) {
		struct timespec delay = { .tv_nsec = draw() % 4000000 };
		unsigned char before = mark;
		pid_t pid;

		mark = i % 255 + 1;
		pid = fork();
		must(pid);
		if (!pid) {
			setpgid(0, 0);
			victim(&r, &shared, i % 5, mark);
		}
		setpgid(pid, pid);
		/* One that exits is met only if nobody waits. */
		if (i % 5 == 4)
			delay.tv_nsec %= 400000;
		nanosleep(&delay, NULL);
		reap_all(pid);
		operation(0);
		for (size_t p = 0; p < shared.pages; p++) {
			unsigned char now = *region_mark(&shared, p);

			if (now != before && now != mark)
				fail("page %zu has mark %d, expected %d or %d",
				     p, now, before, mark);
			shared.mark[p] = now;
		}
		region_check(&shared);
		region_write(&shared, mark);
		region_written(&shared, mark);
		look(&r);
	}
	region_free(&shared);
	unmake(&r);
	return report(wl.step, "killed", NEED_EVENTS | NEED_NO_FAILED);
}

/* --- CPUs that come and go --------------------------------------------------- */

static int set_cpu(unsigned int cpu, bool on)
{
	char path[64];
	int fd, ret;

	snprintf(path, sizeof(path),
		 "/sys/devices/system/cpu/cpu%u/online", cpu);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ret = write(fd, on ? "1" : "0", 1) == 1 ? 0 : -1;
	close(fd);
	return ret;
}

static pid_t hotplug_start(void)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	unsigned int cpu = 1;
	pid_t pid = fork();

	must(pid);
	if (pid)
		return pid;
	while (!atomic_load(&counts->stop)) {
		/* CPU 0 stays, one at a time goes. */
		if (!set_cpu(cpu, false)) {
			nanosleep(&pause, NULL);
			while (set_cpu(cpu, true))
				nanosleep(&pause, NULL);
			atomic_fetch_add(&counts->hotplug, 2);
		}
		cpu = cpu % (MAX_CPUS - 1) + 1;
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

static bool hotplug_stop(pid_t pid)
{
	unsigned long changes;

	atomic_store(&counts->stop, true);
	reap(pid, 0);
	changes = atomic_load(&counts->hotplug);
	printf("hotplug: operations %lu, failed 0, changes %lu: %s\n", changes,
	       changes, changes ? "ok" : "FAILED: no CPU came or went");
	return changes;
}

/* --- what is left over -------------------------------------------------------- */

struct left {
	unsigned long anon, tables;
};

static struct left left_now(void)
{
	struct left l;
	int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
	const char *text;

	must(fd);
	settle();
	/* Gathers the counts of all CPUs, and tells the log if one is below 0. */
	file_write("/proc/sys/vm/stat_refresh", "1");
	text = proc_text(fd);
	l.anon = proc_value(text, "nr_anon_pages");
	l.tables = proc_value(text, "nr_page_table_pages");
	close(fd);
	return l;
}

static bool nothing_left(struct left before)
{
	/* The stack and what this program itself has touched since then */
	const unsigned long few = 64;
	struct left now = left_now();
	bool good = now.anon <= before.anon + few &&
		    now.tables <= before.tables + few;

	printf("left: operations 1, anonymous pages %lu > %lu, page tables %lu > %lu: %s\n",
	       before.anon, now.anon, before.tables, now.tables,
	       good ? "ok" : "FAILED: memory is lost");
	return good;
}

__attribute__((noreturn))
static void usage(void)
{
	fprintf(stderr, "usage: faults [--size=MiB] [--rounds=N] [--seed=N] nth|random|signals|kills\n");
	exit(EXIT_USAGE);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		bool (*run)(enum wl_folio folio, unsigned long rounds);
		unsigned long rounds;
		size_t size;
	} parts[] = {
		{ "nth", nth, 4000, 4 * MIB },
		{ "random", randomly, 150, 8 * MIB },
		{ "signals", signals, 60, 8 * MIB },
		{ "kills", kills, 200, 32 * MIB },
	};
	static const struct option options[] = {
		{ "size", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "seed", required_argument, NULL, 'e' },
		{ 0 }
	};
	struct sigaction action = {
		.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO,
	};
	unsigned long rounds = 0;
	struct left before;
	bool good = true;
	size_t i;
	pid_t pid;
	int opt;

	/*
	 * The kernel kills a process whose restartable sequence it can't write to;
	 * the C library's would be on a page that a fork lets be copied.
	 */
	if (!getenv("GLIBC_TUNABLES")) {
		must(setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1));
		must(execv("/proc/self/exe", argv));
	}
	wl.page = getpagesize();
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 's')
			wl.size = number(optarg, argv[0]) * MIB;
		else if (opt == 'r')
			rounds = number(optarg, argv[0]);
		else if (opt == 'e')
			seed = number(optarg, argv[0]);
		else
			usage();
	}
	for (i = 0; i < ARRAY_SIZE(parts); i++)
		if (optind + 1 == argc && !strcmp(argv[optind], parts[i].name))
			break;
	if (i == ARRAY_SIZE(parts))
		usage();
	if (!wl.size)
		wl.size = parts[i].size;
	if (access(DEBUG "failslab", F_OK))
		skip_all("the kernel has no fault injection");
	wl.shared = mmap(NULL, sizeof(*wl.shared), RW,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	counts = mmap(NULL, sizeof(*counts), RW, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (wl.shared == MAP_FAILED || counts == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	must(sigaction(SIGSEGV, &action, NULL));
	must(sigaction(SIGBUS, &action, NULL));
	failures("0");
	before = left_now();
	pid = hotplug_start();
	for (size_t f = 0; f < ARRAY_SIZE(folios); f++) {
		const char *why = folio_missing(folios[f]);

		if (why)
			printf("# no folios of %s: %s\n",
			       folio_name(folios[f]), why);
		else
			good &= parts[i].run(folios[f], rounds ? rounds :
					     parts[i].rounds);
	}
	good &= hotplug_stop(pid);
	good &= nothing_left(before);
	return good ? 0 : EXIT_FAIL;
}
