// SPDX-License-Identifier: GPL-2.0
// stress: --op=wrprotect
// stress: --op=clear
// stress: --op=young
// stress: --op=clean
// stress: --op=access-flags
// stress: --op=mprotect
// stress: --folio=64k
/*
 * ptes - race stress: hardware makes page table entries dirty while the kernel
 * updates them, and no byte that was written may be lost.
 *
 * A round prepares pages whose entries are writable-clean, so that the first
 * write to each is an update by hardware. For each page (or block of pages) the
 * main thread has the kernel update the entry, and a writer, which is another
 * thread or process, writes at a random point of that update. Then the pages are
 * given to reclaim, which drops what nobody has marked dirty:
 *
 *   anon	private pages after MADV_FREE: without dirty state, reclaim frees
 *		them and they read as zero;
 *   file	holes of a tmpfs file: the same, since a clean page of a hole holds
 *		nothing but zeroes.
 *
 * So a lost dirty state is a lost byte, and the check looks for bytes.
 *
 * Nearly no write would hit the few instructions between the load and the store
 * of an update. A kernel with CONFIG_SETTLED_PTES_TEST waits there, and counts
 * the updates whose entry changed meanwhile: overlaps. A case without overlaps
 * has shown nothing and fails. If plain updates are turned off on the kernel
 * command line, a case with plain updates fails, and overlaps need not be seen:
 * the old ways to clear an entry have no such wait.
 *
 * One line a case: the updates of the kind under test (all, and those that were
 * plain), overlaps, how many of these the kernel lost, and lost words. Exit
 * status: 0 all is well, 1 a case failed, 2 usage, 4 the kernel lacks the hooks.
 */
#include "stress.h"

#include <linux/userfaultfd.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#define PAGES		256
#define SPIN_NS		20000
#define MAX_AHEAD	32

/* The kernel's kinds of updates, as far as cases are about them */
enum { CLEAR, WRPROTECT, YOUNG, CLEAN, ACCESS_FLAGS, PROT, NR_KINDS };

static const char * const kinds[NR_KINDS] = {
	"clear", "wrprotect", "young", "clean", "access_flags", "prot",
};

enum memory { ANON, FILE_HOLES };
enum command { TOUCH, WRITE, QUIT };

/**
 * struct helper - a thread or process that does as it is told
 * @go: number of commands given, by main
 * @ready: number of the WRITE that it is ready for, by the helper
 * @fire: number of the WRITE that may start, by main
 * @over: number of the WRITE whose update has ended, by main
 * @done: number of commands done, by the helper
 * @command: what to do, and the arguments of it:
 * @first: first page
 * @n: number of pages
 * @value: WRITE: what to write to the first page; one more for each that follows
 * @kinds: WRITE: the kinds of updates to expect
 * @span: WRITE: time (ns) within which the update of one page happens
 * @ahead: WRITE: number of updates that come before those of the first page
 * @random: state of its random numbers
 * @cpu: where it runs
 */
struct helper {
	_Atomic unsigned int go, ready, fire, over, done;
	enum command command;
	size_t first, n;
	unsigned int kinds;
	uint64_t value, span, random;
	unsigned long ahead;
	int cpu;
};

/**
 * struct test - one way to update entries while somebody writes
 * @name: option --op, the memory and the writer
 * @kinds: bits of the kinds of updates that it is about
 * @memory: ANON or FILE_HOLES
 * @process: the writer is another process, and it is its entries that are updated
 * @batch: pages that one update covers, 0 for the choice of the user
 * @update: have the kernel update the entries of @n pages from page @first on
 */
struct test {
	const char *name;
	unsigned int kinds;
	enum memory memory;
	bool process;
	size_t batch;
	void (*update)(size_t first, size_t n);
};

static struct {
	size_t len, batch;
	bool blocks;
	unsigned char *base, *spare;
	int file, pidfd, pagemap, idle, uffd, stats;
	struct helper *writer, *reader;
	uint64_t value, span;
	bool off;
	pid_t owner, child;
	pthread_t threads[2];
	unsigned long torn;
} s = { .file = -1, .pidfd = -1, .pagemap = -1, .idle = -1, .uffd = -1 };

/* For loops that wait: an emulator with one thread goes on with another CPU. */
static void relax(void)
{
#ifdef __aarch64__
	asm volatile("yield" : : : "memory");
#endif
}

static unsigned char *page_at(size_t page)
{
	return s.base + page * wl.page;
}

/* Where in a page a value goes: any word of it, the value tells which. */
static size_t word_of(uint64_t value)
{
	uint64_t hash = value * 0x9e3779b97f4a7c15ULL >> 32;

	return hash % (wl.page / sizeof(value)) * sizeof(value);
}

/* --- what the kernel counts ---------------------------------------------- */

/* Add up the kinds of @mask; the bits of delay_ops for them. */
static unsigned int read_counts(unsigned int mask, struct update_counts *sum)
{
	struct update_counts c[16];
	unsigned int n = stats_read(s.stats, c, ARRAY_SIZE(c));
	unsigned int ops = 0, found = 0;

	memset(sum, 0, sizeof(*sum));
	for (unsigned int op = 0; op < n; op++) {
		for (int kind = 0; kind < NR_KINDS; kind++) {
			if (!(mask & 1U << kind) ||
			    strcmp(c[op].name, kinds[kind]))
				continue;
			sum->plain += c[op].plain;
			sum->atomic += c[op].atomic;
			sum->raced += c[op].raced;
			sum->lost += c[op].lost;
			ops |= 1U << op;
			found |= 1U << kind;
		}
	}
	if (found != mask)
		fail("the kernel does not count all of the kinds %#x", mask);
	return ops;
}

/* Are plain updates turned off, as far as the user is concerned? */
static bool turned_off(void)
{
	char line[4096];
	int fd = must(open("/proc/cmdline", O_RDONLY));
	ssize_t len = must(read(fd, line, sizeof(line) - 1));

	close(fd);
	line[len] = '\0';
	return strstr(line, "arm64.noplainpte") ||
	       strstr(line, "disable_plain_pte");
}

static unsigned long updates_of(unsigned int mask)
{
	struct update_counts c;

	read_counts(mask, &c);
	return c.plain + c.atomic;
}

/* --- helpers ------------------------------------------------------------- */

/* Spin for a while, but do not take the CPU from the one we are waiting for. */
static void await(_Atomic unsigned int *word, unsigned int value)
{
	uint64_t end = now() + SPIN_NS;
	unsigned int seen;

	while ((seen = atomic_load(word)) != value) {
		if (now() > end)
			futex_wait(word, seen);
		relax();
	}
}

/*
 * Read all pages, so that they are mapped and young. Reclaim and aging leave a
 * page alone that waits for the LRU lists in a batch of this CPU; any madvise()
 * of this kind empties those.
 */
static void touch(size_t first, size_t n)
{
	for (size_t i = first; i < first + n; i++)
		*(volatile unsigned char *)page_at(i);
	must(madvise(s.spare, wl.page, MADV_COLD));
}

static void write_page(struct helper *h, size_t i)
{
	uint64_t value = h->value + i;

	*(volatile uint64_t *)(page_at(h->first + i) + word_of(value)) = value;
}

/*
 * One page: at a random time of the update. Many pages: each when the kernel's
 * count says that it is there. Updates of other pages may come before the first
 * one; how many, race() finds out.
 */
static void write_pages(struct helper *h)
{
	unsigned long from = 0;
	uint64_t at;

	if (h->n > 1)
		from = updates_of(h->kinds);
	post(&h->ready, h->go);
	while (atomic_load(&h->fire) != h->go)
		relax();
	if (h->n == 1) {
		at = now() + draw(&h->random) % (h->span + 1);
		while (now() < at)
			relax();
		return write_page(h, 0);
	}
	for (size_t i = 0; i < h->n; i++) {
		while (atomic_load(&h->over) != h->go &&
		       updates_of(h->kinds) - from < i + h->ahead)
			relax();
		write_page(h, i);
	}
}

static void *helper_main(void *arg)
{
	struct helper *h = arg;
	unsigned int number = h->done;
	enum command command;

	stay_on_cpu(h->cpu);
	do {
		await(&h->go, ++number);
		command = h->command;
		if (command == TOUCH)
			touch(h->first, h->n);
		else if (command == WRITE)
			write_pages(h);
		post(&h->done, number);
	} while (command != QUIT);
	return NULL;
}

static void give(struct helper *h, enum command command, size_t first, size_t n)
{
	h->command = command;
	h->first = first;
	h->n = n;
	post(&h->go, h->go + 1);
}

static void await_done(struct helper *h)
{
	await(&h->done, h->go);
}

static void order(struct helper *h, enum command command, size_t first,
		  size_t n)
{
	give(h, command, first, n);
	await_done(h);
}

static pid_t start_process(struct helper *h)
{
	pid_t pid = must(fork());

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		helper_main(h);
		_exit(0);
	}
	return pid;
}

/* --- updates ------------------------------------------------------------- */

static void advise(size_t first, size_t n, int advice)
{
	struct iovec iov = { page_at(first), n * wl.page };

	if (must(syscall(SYS_process_madvise, s.pidfd, &iov, 1, advice, 0)) !=
	    (long)iov.iov_len)
		fail("process_madvise: not all of it");
}

static void update_reclaim(size_t first, size_t n)
{
	advise(first, n, MADV_PAGEOUT);
}

static void update_cold(size_t first, size_t n)
{
	advise(first, n, MADV_COLD);
}

static void update_zap(size_t first, size_t n)
{
	must(madvise(page_at(first), n * wl.page, MADV_DONTNEED));
}

/* A writer that comes while it is read-only has to try again: on_segv(). */
static void update_mprotect(size_t first, size_t n)
{
	must(mprotect(page_at(first), n * wl.page, PROT_READ));
	must(mprotect(page_at(first), n * wl.page, PROT_READ | PROT_WRITE));
}

/* Mark the pages idle, which clears AF in all entries that map them. */
static void update_idle(size_t first, size_t n)
{
	uint64_t pfn, bit;

	for (size_t i = first; i < first + n; i++) {
		pagemap_read(s.pagemap, page_at(i), 1, &pfn);
		if (!pfn)
			continue;
		bit = 1ULL << pfn % 64;
		must(pwrite(s.idle, &bit, sizeof(bit), pfn / 64 * 8));
	}
}

/*
 * What the child sees must not change any more, whoever writes in the parent:
 * it looks twice.
 */
static void update_fork(size_t first, size_t n)
{
	s.child = must(fork());
	if (!s.child) {
		uint64_t old[PAGES], end = now() + 100000;
		bool torn = false;

		for (size_t i = 0; i < n; i++)
			memcpy(&old[i], page_at(first + i) +
			       word_of(s.value + i), sizeof(old[i]));
		while (now() < end)
			relax();
		for (size_t i = 0; i < n; i++)
			torn |= memcmp(&old[i], page_at(first + i) +
				       word_of(s.value + i), sizeof(old[i]));
		_exit(torn);
	}
}

static void reap_child(void)
{
	int status;

	if (!s.child)
		return;
	must(waitpid(s.child, &status, 0));
	s.torn += status != 0;
	s.child = 0;
}

/*
 * CPUs that set AF by themselves have no faults on present entries that lack it,
 * but for this: a fault that waits for userfaultfd is handled again when it is
 * woken up, without another try of the access. Until then there is a page, and
 * its entry is clean and old.
 */
static void before_access_flags(size_t page)
{
	struct uffdio_copy copy = {
		.dst = (uintptr_t)page_at(page), .src = (uintptr_t)s.spare,
		.len = wl.page, .mode = UFFDIO_COPY_MODE_DONTWAKE,
	};
	struct uffd_msg msg;

	must(madvise(page_at(page), wl.page, MADV_DONTNEED));
	give(s.reader, TOUCH, page, 1);
	must(read(s.uffd, &msg, sizeof(msg)));
	must(ioctl(s.uffd, UFFDIO_COPY, &copy));
	must(madvise(page_at(page), wl.page, MADV_FREE));
}

static void update_access_flags(size_t first, size_t n)
{
	struct uffdio_range range = { (uintptr_t)page_at(first), n * wl.page };

	must(ioctl(s.uffd, UFFDIO_WAKE, &range));
	await_done(s.reader);
}

static void uffd_register(bool on)
{
	struct uffdio_register reg = {
		.range = { (uintptr_t)s.base, s.len },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (on)
		must(ioctl(s.uffd, UFFDIO_REGISTER, &reg));
	else
		must(ioctl(s.uffd, UFFDIO_UNREGISTER, &reg.range));
}

static const struct test tests[] = {
	{ "wrprotect/anon/thread", 1 << WRPROTECT, ANON, false, PAGES,
	  update_fork },
	{ "clear/anon/thread", 1 << CLEAR, ANON, false, 0, update_reclaim },
	{ "clear/file/thread", 1 << CLEAR, FILE_HOLES, false, 0,
	  update_zap },
	{ "clear/file/process", 1 << CLEAR, FILE_HOLES, true, 0,
	  update_reclaim },
	{ "young/anon/thread", 1 << YOUNG, ANON, false, 0, update_idle },
	{ "young/file/process", 1 << YOUNG, FILE_HOLES, true, 0,
	  update_idle },
	{ "clean/anon/thread", 1 << CLEAN, ANON, false, 0, update_cold },
	{ "clean/file/process", 1 << CLEAN, FILE_HOLES, true, 0,
	  update_cold },
	{ "access-flags/anon/thread", 1 << ACCESS_FLAGS, ANON, false, 1,
	  update_access_flags },
	/* Which of the two kinds it is depends on how the kernel does it. */
	{ "mprotect/anon/thread", 1 << CLEAR | 1 << PROT, ANON, false, 0,
	  update_mprotect },
	{ "mprotect/file/thread", 1 << CLEAR | 1 << PROT, FILE_HOLES, false, 0,
	  update_mprotect },
};

/* --- rounds -------------------------------------------------------------- */

/* Leave pages that are present, young, writable, clean. */
static void prepare(const struct test *t)
{
	if (t->memory == ANON) {
		/* What an update has split up is to be one block again */
		if (s.blocks)
			must(madvise(s.base, s.len, MADV_DONTNEED));
		for (size_t i = 0; i < PAGES; i++)
			*(volatile unsigned char *)page_at(i) = 1;
		must(madvise(s.base, s.len, MADV_FREE));
	} else {
		must(ftruncate(s.file, 0));
		must(ftruncate(s.file, s.len));
	}
	order(s.writer, TOUCH, 0, PAGES);
}

static void race(const struct test *t)
{
	size_t n = t->batch ? t->batch : s.batch;

	for (size_t first = 0; first < PAGES; first += n) {
		struct update_counts before, after;
		uint64_t began, took;

		if (t->update == update_access_flags)
			before_access_flags(first);
		s.writer->value = s.value + first;
		s.writer->kinds = t->kinds;
		s.writer->span = s.span;
		read_counts(t->kinds, &before);
		give(s.writer, WRITE, first, n);
		await(&s.writer->ready, s.writer->go);
		began = now();
		atomic_store(&s.writer->fire, s.writer->go);
		t->update(first, n);
		atomic_store(&s.writer->over, s.writer->go);
		took = now() - began;
		/*
		 * How long the next one will take: a running median, since an
		 * emulator that has to wait for its CPU takes for ever.
		 */
		if (s.span)
			s.span += took > s.span ? s.span / 8 : -(s.span / 8);
		else
			s.span = took;
		await_done(s.writer);
		reap_child();
		read_counts(t->kinds, &after);
		if (after.raced + after.lost == before.raced + before.lost)
			s.writer->ahead = (s.writer->ahead + 1) % MAX_AHEAD;
	}
}

static unsigned long missing(const struct test *t, const char *when)
{
	static unsigned int told;
	unsigned long count = 0;

	for (size_t i = 0; i < PAGES; i++) {
		size_t at = word_of(s.value + i);
		uint64_t found;

		if (t->memory == FILE_HOLES)
			must(pread(s.file, &found, sizeof(found),
				   i * wl.page + at));
		else
			memcpy(&found, page_at(i) + at, sizeof(found));
		if (found == s.value + i)
			continue;
		count++;
		if (told++ < 5)
			printf("%s: page %zu holds %#lx %s, %#lx was written\n",
			       t->name, i, (unsigned long)found, when,
			       (unsigned long)(s.value + i));
	}
	return count;
}

/* Returns the number of words that were written and are not there. */
static unsigned long one_round(const struct test *t)
{
	unsigned long lost;

	if (t->update == update_access_flags) {
		uffd_register(true);
		race(t);
		uffd_register(false);
	} else {
		prepare(t);
		race(t);
	}
	lost = missing(t, "after the race");
	if (!lost) {
		order(s.writer, TOUCH, 0, PAGES);
		advise(0, PAGES, MADV_PAGEOUT);
		lost = missing(t, "after reclaim");
	}
	s.value += PAGES;
	return lost;
}

/* The control: reclaim has to drop what is clean, else no loss would show. */
static void check_reclaim(const struct test *t)
{
	unsigned long kept = 0;
	uint64_t pfn[PAGES];

	prepare(t);
	advise(0, PAGES, MADV_PAGEOUT);
	pagemap_read(s.pagemap, s.base, PAGES, pfn);
	for (size_t i = 0; i < PAGES; i++)
		kept += pfn[i] != 0;
	if (kept > PAGES / 4)
		fail("%s: reclaim keeps %lu of %d clean pages", t->name, kept,
		     PAGES);
}

static void on_segv(int sig)
{
	/* Return, and so repeat the write */
	(void)sig;
}

static void set_up(const struct test *t)
{
	char path[64];
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;

	if (t->memory == FILE_HOLES) {
		flags = MAP_SHARED;
		s.file = must(memfd_create("ptes", 0));
		must(ftruncate(s.file, s.len));
	}
	/* A whole block before it, to be aligned to one */
	s.base = mmap(NULL, s.len + BLOCK, PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s.base == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	s.base += -(uintptr_t)s.base % BLOCK;
	if (mmap(s.base, s.len, PROT_READ | PROT_WRITE, flags | MAP_FIXED,
		 s.file, 0) == MAP_FAILED)
		fail("mmap: %s", strerror(errno));

	signal(SIGSEGV, t->update == update_mprotect ? on_segv : SIG_DFL);
	s.owner = t->process ? start_process(s.writer) : getpid();
	if (!t->process)
		start_thread(&s.threads[0], helper_main, s.writer);
	if (t->update == update_access_flags) {
		struct uffdio_api api = { .api = UFFD_API };

		s.uffd = must(syscall(SYS_userfaultfd, O_CLOEXEC));
		must(ioctl(s.uffd, UFFDIO_API, &api));
		start_thread(&s.threads[1], helper_main, s.reader);
	}
	s.pidfd = must(syscall(SYS_pidfd_open, s.owner, 0));
	snprintf(path, sizeof(path), "/proc/%d/pagemap", s.owner);
	s.pagemap = must(open(path, O_RDONLY));
	s.span = 0;
}

static void tear_down(const struct test *t)
{
	order(s.writer, QUIT, 0, 0);
	if (t->process)
		must(waitpid(s.owner, NULL, 0));
	else
		pthread_join(s.threads[0], NULL);
	if (t->update == update_access_flags) {
		order(s.reader, QUIT, 0, 0);
		pthread_join(s.threads[1], NULL);
		close(s.uffd);
	}
	close(s.pidfd);
	close(s.pagemap);
	if (s.file >= 0)
		close(s.file);
	s.file = -1;
	munmap(s.base, s.len);
}

static bool run(const struct test *t, unsigned long rounds, uint64_t delay)
{
	const unsigned int all_kinds = (1U << NR_KINDS) - 1;
	struct update_counts before, after, all_before, all_after;
	unsigned long lost = 0, overlaps, updates;
	const char *verdict;
	uint64_t took;

	s.torn = 0;
	s.writer->ahead = 0;
	set_up(t);
	check_reclaim(t);
	write_number(HOOKS "/delay_ops", read_counts(t->kinds, &before));
	write_number(HOOKS "/delay_ns", delay);
	read_counts(all_kinds, &all_before);
	took = now();
	for (unsigned long i = 0; i < rounds; i++)
		lost += one_round(t);
	took = now() - took;
	write_number(HOOKS "/delay_ns", 0);
	read_counts(t->kinds, &after);
	read_counts(all_kinds, &all_after);
	tear_down(t);

	updates = after.plain + after.atomic - before.plain - before.atomic;
	overlaps = after.raced + after.lost - before.raced - before.lost;
	if (lost)
		verdict = "FAILED: written bytes are lost";
	else if (all_after.lost != all_before.lost)
		verdict = "FAILED: the kernel lost updates";
	else if (s.torn)
		verdict = "FAILED: a child saw the parent's writes";
	else if (s.off && all_after.plain != all_before.plain)
		verdict = "FAILED: plain updates, but they are turned off";
	else if (!s.off && !overlaps)
		verdict = "FAILED: no overlap, nothing is shown";
	else
		verdict = "ok";
	printf("%s: races %lu updates %lu plain %ld overlaps %lu kernel-lost %ld words-lost %lu torn %lu seconds %.1f: %s\n",
	       t->name, rounds * PAGES, updates, after.plain - before.plain,
	       overlaps, all_after.lost - all_before.lost, lost, s.torn,
	       took / 1e9, verdict);
	fflush(stdout);
	return !strcmp(verdict, "ok");
}

static bool wanted(const struct test *t, const char *op)
{
	size_t len = op ? strlen(op) : 0;

	if (s.blocks && (t->memory != ANON ||
			    t->update == update_access_flags))
		return false;
	return !op || (!strncmp(t->name, op, len) &&
		       (t->name[len] == '/' || !t->name[len]));
}

__attribute__((noreturn))
static void usage(void)
{
	fprintf(stderr,
		"ptes [--op=NAME] [--rounds=N] [--delay=NS] [--seed=N] [--batch=N] [--folio=64k]\n"
		"  --op     a name as it is printed, or its beginning up to a slash\n"
		"  --rounds of %d pages each, per case (200)\n"
		"  --delay  in each update of the kind under test (20000)\n"
		"  --batch  pages per update, a divisor of %d (1): few give more overlaps if\n"
		"           the machine is idle, many more updates if it is busy\n"
		"  --folio  anonymous memory in contpte blocks, updated as a whole\n",
		PAGES, PAGES);
	exit(EXIT_USAGE);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "op", required_argument, NULL, 'o' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "delay", required_argument, NULL, 'd' },
		{ "seed", required_argument, NULL, 's' },
		{ "batch", required_argument, NULL, 'b' },
		{ "folio", required_argument, NULL, 'f' },
		{ }
	};
	unsigned long rounds = 200, delay = 20000, seed = 1;
	unsigned int ran = 0, failed = 0;
	const char *op = NULL;
	int c;

	stress_init("ptes");
	s.batch = 1;
	s.len = PAGES * wl.page;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'o')
			op = optarg;
		else if (c == 'r')
			rounds = strtoul(optarg, NULL, 0);
		else if (c == 'd')
			delay = strtoul(optarg, NULL, 0);
		else if (c == 's')
			seed = strtoul(optarg, NULL, 0);
		else if (c == 'b')
			s.batch = strtoul(optarg, NULL, 0);
		else if (c == 'f' && !strcmp(optarg, "64k"))
			s.blocks = true;
		else
			usage();
	}
	if (s.blocks && s.batch < BLOCK / wl.page)
		s.batch = BLOCK / wl.page;
	if (optind != argc || !rounds || !seed || !s.batch || PAGES % s.batch)
		usage();
	if (access(HOOKS, F_OK))
		skip_all("the kernel lacks CONFIG_SETTLED_PTES_TEST");
	if (s.blocks)
		file_write(THP_64K "enabled", "always");

	stay_on_cpu(0);
	s.off = turned_off();
	s.value = 1;
	s.stats = must(open(HOOKS "/stats", O_RDONLY));
	s.idle = must(open("/sys/kernel/mm/page_idle/bitmap", O_RDWR));
	s.spare = mmap(NULL, wl.page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	s.writer = mmap(NULL, 2 * sizeof(*s.writer), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s.spare == MAP_FAILED || s.writer == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	*s.spare = 1;
	s.reader = s.writer + 1;
	s.writer->cpu = 1;
	s.reader->cpu = 2;
	s.writer->random = seeded(seed);
	printf("ptes: %ld CPUs, page %zu, batch %zu%s, rounds %lu, delay %lu ns, seed %lu\n",
	       sysconf(_SC_NPROCESSORS_ONLN), wl.page, s.batch,
	       s.blocks ? ", 64k folios" : "", rounds, delay, seed);

	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		if (!wanted(&tests[i], op))
			continue;
		ran++;
		failed += !run(&tests[i], rounds, delay);
	}
	if (!ran)
		usage();
	printf("ptes: %u cases, %u failed\n", ran, failed);
	return failed ? EXIT_FAIL : 0;
}
