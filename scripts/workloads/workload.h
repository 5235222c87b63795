/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the workloads share: marks, steps with their counters, memory regions
 * whose every byte is known, and probes that survive the fault they expect.
 *
 * A workload is a table of cases. A case owns its memory and runs one or more
 * steps in order; a step is one measured interval:
 *
 *	step_begin(c, i);
 *	... the operation and nothing else ...
 *	step_end(units);
 *
 * Steps that were not asked for run all the same, unmeasured, because the ones
 * after them build on what they leave behind.
 *
 * Output is one line per interval, read by the harness:
 *
 *	@@ step <name> units <n> ipi <n> fault <n> ctxt <n> ns <n>
 *	   with --event, and of the kernel alone: ev:<name> <n> ...
 *	@@ no-event <name>: <why>
 *	@@ fail <name>: <what>		and exit status 1
 *	@@ skip <name>: <why>		exit status 4 if nothing ran
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <getopt.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define KIB		1024UL
#define MIB		(1024UL * KIB)
/* What one contpte entry spans with 4 KiB pages; the unit of the shapes. */
#define BLOCK		(64 * KIB)
#define THP_DIR		"/sys/kernel/mm/transparent_hugepage"

enum wl_exit { EXIT_FAIL = 1, EXIT_USAGE = 2, EXIT_SKIP = 4 };

/*
 * The two marks the op counter waits for. Both architectures define them as
 * no-operations: a HINT from the unallocated space, and an AND with r0.
 */
static inline void mark_start(void)
{
#if defined(__aarch64__)
	asm volatile("hint #0x70" : : : "memory");
#elif defined(__powerpc64__)
	asm volatile("andi. 0,0,0x7A40" : : : "r0", "cr0", "memory");
#endif
}

static inline void mark_stop(void)
{
#if defined(__aarch64__)
	asm volatile("hint #0x71" : : : "memory");
#elif defined(__powerpc64__)
	asm volatile("andi. 0,0,0x7A41" : : : "r0", "cr0", "memory");
#endif
}

/* A function that returns @value (15 bits), as one 64-bit word of code. */
static inline uint64_t code_word(unsigned int value)
{
#if defined(__aarch64__)
	/* mov w0, #value; ret */
	return 0xd65f03c052800000UL | (uint64_t)value << 5;
#elif defined(__powerpc64__)
	/* li r3, value; blr */
	return 0x4e80002038600000UL | value;
#elif defined(__x86_64__)
	/* mov $value, %eax; ret */
	return 0xc300000000b8UL | (uint64_t)value << 8;
#else
#error "code_word() does not know this architecture"
#endif
}

static inline void code_sync(void *code)
{
	__builtin___clear_cache((char *)code, (char *)code + 8);
}

static inline int code_run(const void *code)
{
	return ((int (*)(void))(uintptr_t)code)();
}

/* --- options, steps, counters ------------------------------------------- */

/*
 * FOLIO_BASE is an order-0 page. FOLIO_64K is a 64 KiB folio of an anonymous
 * mapping with smaller base pages. FOLIO_2M is mapped by one huge PMD, and
 * FOLIO_2M_PTE is the same folio mapped by PTEs.
 */
enum wl_folio {
	FOLIO_NONE, FOLIO_BASE, FOLIO_64K, FOLIO_2M_PTE, FOLIO_2M
};

/**
 * struct wl_case - steps that share their memory
 * @step: step names in the order they run; '%' stands for the folio's name
 * @folio: kind of folio the case needs
 * @run: does the steps, and returns only if all is well
 * @arg: whatever @run wants to know
 */
struct wl_case {
	const char *step[8];
	enum wl_folio folio;
	void (*run)(const struct wl_case *c);
	const void *arg;
};

struct wl_counters {
	unsigned long ipi, fault, ctxt;
	uint64_t ns;
	/* What a PMU event has counted, and for how long it was and could be. */
	struct {
		uint64_t count, enabled, running;
	} event[8];
};

/*
 * Shared, for a step may begin in a child and end in its parent, and so that
 * reading the counters after a fork is not a page fault that they count.
 */
struct wl_shared {
	struct wl_counters before, after;
	char text[4 * MIB];
};

struct thp_setting {
	char path[128], was[16];
};

struct wl_event {
	char name[32];
	int fd;
};

static struct {
	size_t size;
	unsigned int rounds;
	const char *glob;
	bool list;
	/* Nothing in /sys may be changed: do without. */
	bool keep_settings;

	size_t page;
	char step[64];
	bool measured;
	unsigned int ran;
	int interrupts, vmstat, stat;
	struct wl_shared *shared;

	sigjmp_buf env;
	volatile sig_atomic_t armed;
	const volatile void *target;
	int code, value;

	/* What thp_only() has changed, until thp_restore(). */
	struct thp_setting thp[16];
	unsigned int nr_thp;

	struct wl_event event[8];
	unsigned int nr_events;
} wl;

static inline void thp_restore(void);

__attribute__((noreturn, format(printf, 1, 2)))
static inline void fail(const char *fmt, ...)
{
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	dprintf(STDOUT_FILENO, "@@ fail %s: %s\n", wl.step, what);
	thp_restore();
	_exit(EXIT_FAIL);
}

/* For a call that has no reason to go wrong. */
#define must(call)							\
({									\
	__auto_type ret_ = (call);					\
									\
	if (ret_ < 0)							\
		fail("%s: %s", #call, strerror(errno));			\
	ret_;								\
})

static inline const char *folio_name(enum wl_folio folio)
{
	static char base[24];

	switch (folio) {
	case FOLIO_BASE:
		snprintf(base, sizeof(base), "%zuk", wl.page / KIB);
		return base;
	case FOLIO_64K:
		return "64k";
	case FOLIO_2M_PTE:
		return "2m-pte";
	case FOLIO_2M:
		return "2m";
	default:
		return "";
	}
}

static inline size_t folio_size(enum wl_folio folio)
{
	switch (folio) {
	case FOLIO_64K:
		return 64 * KIB;
	case FOLIO_2M_PTE:
	case FOLIO_2M:
		return 2 * MIB;
	default:
		return wl.page;
	}
}

static inline void step_set(const struct wl_case *c, unsigned int i)
{
	const char *name = c->step[i], *mark = strchr(name, '%');

	if (mark)
		snprintf(wl.step, sizeof(wl.step), "%.*s%s%s",
			 (int)(mark - name), name, folio_name(c->folio),
			 mark + 1);
	else
		snprintf(wl.step, sizeof(wl.step), "%s", name);
	wl.measured = !fnmatch(wl.glob, wl.step, 0);
}

/* The whole of a /proc file that stays open. */
static inline const char *proc_text(int fd)
{
	const size_t max = sizeof(wl.shared->text) - 1;
	char *text = wl.shared->text;
	size_t len = 0;
	ssize_t n;

	while ((n = pread(fd, text + len, max - len, len)) > 0)
		len += n;
	if (n < 0 || len == max)
		fail("a file of /proc cannot be read as a whole");
	text[len] = '\0';
	return text;
}

static inline unsigned long proc_value(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (; text; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (!strncmp(text, key, len) && text[len] == ' ')
			return strtoul(text + len, NULL, 10);
	}
	fail("no %s in /proc", key);
}

/*
 * Inter-processor interrupts have lines of their own on arm64 (IPI<n>), x86
 * (RES, CAL, TLB) and for the doorbells of powerpc (DBL). Its XICS and XIVE
 * show a numbered interrupt that is called IPI.
 */
static inline unsigned long ipi_sum(const char *line)
{
	unsigned long sum = 0;

	for (; line && *line; line = strchr(line, '\n')) {
		const char *eol, *colon, *word;
		unsigned long all = 0;
		char *end;

		line += *line == '\n';
		line += strspn(line, " ");
		eol = strchrnul(line, '\n');
		colon = memchr(line, ':', eol - line);
		if (!colon)
			continue;
		for (word = colon + 1; ; word = end) {
			word += strspn(word, " ");
			if (word == eol)
				break;
			all += strtoul(word, &end, 10);
			if (end == word)
				break;
		}
		if (!strncmp(line, "IPI", 3) || !strncmp(line, "DBL", 3) ||
		    !strncmp(line, "RES", 3) || !strncmp(line, "CAL", 3) ||
		    !strncmp(line, "TLB", 3) ||
		    memmem(word, eol - word, "IPI", 3))
			sum += all;
	}
	return sum;
}

static inline void counters_read(struct wl_counters *now)
{
	now->ipi = ipi_sum(proc_text(wl.interrupts));
	now->ctxt = proc_value(proc_text(wl.stat), "ctxt");
	now->fault = proc_value(proc_text(wl.vmstat), "pgfault");
}

/* --- time, and events of the PMU, for real machines ----------------------- */

static inline uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000UL + t.tv_nsec;
}

/*
 * NAME:TYPE:CONFIG as perf_event_open() wants them. Children inherit the events,
 * and count into them what they do in the kernel.
 */
static inline void event_add(const char *text)
{
	struct wl_event *e = wl.event + wl.nr_events;
	struct perf_event_attr attr = {
		.size = sizeof(attr), .disabled = 1, .inherit = 1,
		.exclude_user = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
			       PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	unsigned long long config;
	unsigned int type;
	char end;

	if (wl.nr_events == ARRAY_SIZE(wl.event) ||
	    sscanf(text, "%31[a-z0-9_-]:%u:%lli%c", e->name, &type,
		   (long long *)&config, &end) != 3)
		fail("--event=%s is not NAME:TYPE:CONFIG, or one too many",
		     text);
	attr.type = type;
	attr.config = config;
	e->fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1,
			PERF_FLAG_FD_CLOEXEC);
	if (e->fd < 0)
		dprintf(STDOUT_FILENO, "@@ no-event %s: %s\n", e->name,
			strerror(errno));
	else
		wl.nr_events++;
}

static inline void events_set(unsigned long request)
{
	for (unsigned int i = 0; i < wl.nr_events; i++)
		must(ioctl(wl.event[i].fd, request, 0));
}

static inline void events_read(struct wl_counters *at)
{
	for (unsigned int i = 0; i < wl.nr_events; i++)
		must(read(wl.event[i].fd, &at->event[i], sizeof(at->event[i])));
}

/* An event that shared its counter with another one is scaled up. */
static inline const char *events_text(const struct wl_counters *before,
				      const struct wl_counters *after)
{
	static char text[512];
	size_t len = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < wl.nr_events; i++) {
		uint64_t count = after->event[i].count - before->event[i].count;
		uint64_t enabled = after->event[i].enabled -
				   before->event[i].enabled;
		uint64_t running = after->event[i].running -
				   before->event[i].running;

		if (!running)
			continue;
		len += snprintf(text + len, sizeof(text) - len, " ev:%s %.0f",
				wl.event[i].name,
				(double)count * enabled / running);
	}
	return text;
}

/* --- steps ---------------------------------------------------------------- */

/*
 * Let the kernel finish what the steps before have left to RCU, and start at the
 * same distance from the timer's next tick: else one kernel frees memory within
 * a step that the other one frees between two.
 */
static inline void settle(void)
{
	const struct timespec pause = { .tv_nsec = 20000000 };

	nanosleep(&pause, NULL);
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	nanosleep(&pause, NULL);
}

static inline void step_start(void)
{
	if (!wl.measured)
		return;
	settle();
	/* Its first call in a process may be a page fault. */
	now();
	counters_read(&wl.shared->before);
	events_read(&wl.shared->before);
	events_set(PERF_EVENT_IOC_ENABLE);
	wl.shared->before.ns = now();
	mark_start();
}

static inline void step_begin(const struct wl_case *c, unsigned int i)
{
	step_set(c, i);
	step_start();
}

static inline void step_end(unsigned long units)
{
	const struct wl_counters *before = &wl.shared->before;
	struct wl_counters *after = &wl.shared->after;

	if (!wl.measured)
		return;
	mark_stop();
	after->ns = now();
	events_set(PERF_EVENT_IOC_DISABLE);
	events_read(after);
	counters_read(after);
	dprintf(STDOUT_FILENO,
		"@@ step %s units %lu ipi %lu fault %lu ctxt %lu ns %lu%s\n",
		wl.step, units, after->ipi - before->ipi,
		after->fault - before->fault, after->ctxt - before->ctxt,
		(unsigned long)(after->ns - before->ns),
		events_text(before, after));
	wl.ran++;
}

static inline void case_skip(const struct wl_case *c, const char *why)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(c->step) && c->step[i]; i++) {
		step_set(c, i);
		if (wl.measured)
			dprintf(STDOUT_FILENO, "@@ skip %s: %s\n", wl.step,
				why);
	}
}

__attribute__((noreturn))
static inline void skip_all(const char *why)
{
	dprintf(STDOUT_FILENO, "@@ skip all: %s\n", why);
	exit(EXIT_SKIP);
}

/* --- probes -------------------------------------------------------------- */

static inline void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (!wl.armed)
		fail("signal %d at %p, outside of a probe", sig,
		     info->si_addr);
	wl.armed = 0;
	if (info->si_addr != (void *)wl.target)
		fail("signal %d at %p, expected at %p", sig, info->si_addr,
		     (void *)wl.target);
	wl.code = sig == SIGSEGV ? info->si_code : -sig;
	siglongjmp(wl.env, 1);
}

/* Signals go to on_fault() from here on. */
static inline void catch_probes(void)
{
	struct sigaction action = {
		.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO,
	};

	must(sigaction(SIGSEGV, &action, NULL));
	must(sigaction(SIGBUS, &action, NULL));
	must(sigaction(SIGILL, &action, NULL));
}

/**
 * probe() - try one access
 * @addr: where; for PROT_EXEC the address of a code_word()
 * @access: one of PROT_READ, PROT_WRITE, PROT_EXEC. A write stores the byte
 *	that wl.value holds.
 *
 * Return: 0 if the access worked (wl.value is what was read or returned), else
 * the si_code of the SIGSEGV, or the negative number of another signal.
 */
static inline int probe(void *addr, int access)
{
	volatile unsigned char *byte = addr;

	wl.target = addr;
	if (sigsetjmp(wl.env, 1))
		return wl.code;
	wl.armed = 1;
	if (access == PROT_WRITE)
		*byte = wl.value;
	else if (access == PROT_EXEC)
		wl.value = code_run(addr);
	else
		wl.value = *byte;
	wl.armed = 0;
	return 0;
}

static inline bool expect_fault(void *addr, bool write)
{
	return probe(addr, write ? PROT_WRITE : PROT_READ) == SEGV_ACCERR;
}

/* --- transparent huge page settings --------------------------------------- */

static inline void file_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail("%s: %s", path, strerror(errno));
	close(fd);
}

/*
 * Allow one size only, and remember what was set. A page fault picks the
 * largest size that is allowed, so the others have to be off.
 */
static inline void thp_only(size_t size)
{
	DIR *dir = opendir(THP_DIR);
	struct dirent *d;

	if (!dir)
		fail("%s: %s", THP_DIR, strerror(errno));
	while ((d = readdir(dir))) {
		struct thp_setting *s = wl.thp + wl.nr_thp;
		char text[128] = "", *on;
		size_t kib;
		int fd;

		if (sscanf(d->d_name, "hugepages-%zukB", &kib) != 1)
			continue;
		if (wl.nr_thp == ARRAY_SIZE(wl.thp))
			fail("more folio sizes than expected");
		snprintf(s->path, sizeof(s->path), THP_DIR "/%.40s/enabled",
			 d->d_name);
		/* Some sizes are there for files only. */
		fd = open(s->path, O_RDONLY);
		if (fd < 0)
			continue;
		must(read(fd, text, sizeof(text) - 1));
		close(fd);
		on = strchr(text, '[');
		if (!on || sscanf(on, "[%15[^]]", s->was) != 1)
			fail("%s: no value is selected", s->path);
		wl.nr_thp++;
		file_write(s->path, kib * KIB == size ? "always" : "never");
	}
	closedir(dir);
}

static inline void thp_restore(void)
{
	while (wl.nr_thp) {
		const struct thp_setting *s = &wl.thp[--wl.nr_thp];

		file_write(s->path, s->was);
	}
}

/* Why this machine cannot give folios of that kind; NULL if it can. */
static inline const char *folio_missing(enum wl_folio folio)
{
	char path[128];

	if (folio == FOLIO_NONE || folio == FOLIO_BASE)
		return NULL;
	if (wl.keep_settings)
		return "needs other huge page settings, which was not allowed";
	snprintf(path, sizeof(path), THP_DIR "/hugepages-%zukB/enabled",
		 folio_size(folio) / KIB);
	if (access(path, F_OK))
		return "the kernel has no anonymous folios of this size";
	if (folio != FOLIO_64K) {
		int fd = open(THP_DIR "/hpage_pmd_size", O_RDONLY);
		char text[32] = "";

		if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
			return "the size of a huge PMD is not known";
		close(fd);
		if (strtoul(text, NULL, 10) != 2 * MIB)
			return "a huge PMD does not span 2 MiB";
	}
	return NULL;
}

/* --- regions -------------------------------------------------------------- */

/**
 * struct region - memory with known contents
 * @base: start, aligned to 2 MiB, with unmapped space on both sides
 * @len: bytes; 0 before region_make() means --size
 * @words: 64-bit words of each page that are filled and checked; 0 before
 *	region_make() means all
 * @shared: MAP_SHARED instead of MAP_PRIVATE
 * @fd: tmpfs file to map, with @shared false, or 0
 * @folio: kind of folio
 * @pages: number of base pages
 * @mark: the byte that each page holds at region_mark()
 *
 * Word 0 of a page is a function that returns the page's number modulo 32768,
 * and so is word 2. Word 1 holds the mark (in its first byte, and all machines
 * are little-endian here), the rest is a pattern that differs in every word.
 *
 * Word 0 is for when it should run, word 2 for when it should fault. QEMU 7.2
 * may run code at an address where it ran before without a look at the TLB:
 * an invalidation by address makes it forget the one page's code, not that of
 * the other pages under the same huge PMD.
 */
struct region {
	unsigned char *base;
	size_t len, words;
	bool shared;
	int fd;
	enum wl_folio folio;
	size_t pages;
	unsigned char *mark;
};

static inline uint64_t *region_page(const struct region *r, size_t page)
{
	return (uint64_t *)(r->base + page * wl.page);
}

static inline unsigned char *region_mark(const struct region *r, size_t page)
{
	return (unsigned char *)(region_page(r, page) + 1);
}

static inline unsigned int region_code(size_t page)
{
	return page & 0x7fff;
}

/* What a word holds, but for the mark. */
static inline uint64_t region_word(size_t page, size_t word)
{
	switch (word) {
	case 0:
	case 2:
		return code_word(region_code(page));
	case 1:
		return 0;
	default:
		return (page + 1) * 0x9e3779b97f4a7c15UL +
		       word * 0xd1b54a32d192ed03UL;
	}
}

static inline void region_fill(const struct region *r)
{
	for (size_t p = 0; p < r->pages; p++) {
		uint64_t *w = region_page(r, p);

		for (size_t i = 0; i < r->words; i++)
			w[i] = region_word(p, i);
	}
}

static inline void region_check_page(const struct region *r, size_t page)
{
	const uint64_t *w = region_page(r, page);

	for (size_t i = 0; i < r->words; i++) {
		uint64_t want = region_word(page, i);

		if (i == 1)
			want = r->mark[page];
		if (w[i] != want)
			fail("page %zu word %zu is %#lx, expected %#lx", page,
			     i, (unsigned long)w[i], (unsigned long)want);
	}
}

static inline void region_check(const struct region *r)
{
	for (size_t p = 0; p < r->pages; p++)
		region_check_page(r, p);
}

/* Write one byte a page; the caller says when, so nothing else is done. */
static inline void region_write(const struct region *r, unsigned char mark)
{
	for (size_t p = 0; p < r->pages; p++)
		*(volatile unsigned char *)region_mark(r, p) = mark;
}

/* What region_write() is expected to have left. */
static inline void region_written(const struct region *r, unsigned char mark)
{
	memset(r->mark, mark, r->pages);
	region_check(r);
}

/* Every access to @page that @prot allows works, every other one faults. */
static inline void region_probe(const struct region *r, size_t page, int prot)
{
	static const int access[] = { PROT_READ, PROT_WRITE, PROT_EXEC };
	static const char *const name[] = { "read", "write", "execution" };

	for (size_t i = 0; i < ARRAY_SIZE(access); i++) {
		int want = prot & access[i] ? 0 : SEGV_ACCERR, code;
		int value = r->mark[page];
		void *at = region_mark(r, page);

		wl.value = value;
		if (access[i] == PROT_EXEC) {
			value = region_code(page);
			at = region_page(r, page) + (want ? 2 : 0);
			if (!want)
				code_sync(at);
		}
		code = probe(at, access[i]);
		if (code != want)
			fail("%s of page %zu: si_code %d, expected %d",
			     name[i], page, code, want);
		if (!code && wl.value != value)
			fail("%s of page %zu gave %d, expected %d", name[i],
			     page, wl.value, value);
	}
	if (prot & PROT_READ)
		region_check_page(r, page);
}

/* Both ends and one page in 1,021, which is prime to every power of two. */
static inline void region_probe_some(const struct region *r, int prot)
{
	for (size_t p = 0; p < r->pages; p += 1021)
		region_probe(r, p, prot);
	region_probe(r, r->pages - 1, prot);
}

/* A private mapping must never let a write through to its file. */
static inline void region_check_file(const struct region *r)
{
	struct region file = *r;

	file.mark = calloc(r->pages, 1);
	file.base = mmap(NULL, r->len, PROT_READ, MAP_SHARED, r->fd, 0);
	if (!file.mark || file.base == MAP_FAILED)
		fail("the file cannot be mapped: %s", strerror(errno));
	region_check(&file);
	must(munmap(file.base, r->len));
	free(file.mark);
}

struct smaps {
	size_t mapped, rss, anon_huge, referenced;
};

/* Sum over the region's mappings; @prot, unless -1, is what each must have. */
static inline struct smaps region_smaps(const struct region *r, int prot)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	uintptr_t base = (uintptr_t)r->base;
	struct smaps sum = { 0 };
	bool inside = false;
	char *line = NULL;
	size_t cap = 0;

	if (!f)
		fail("/proc/self/smaps: %s", strerror(errno));
	while (getline(&line, &cap, f) > 0) {
		unsigned long from, to, kib;
		char perms[5], key[32];

		if (sscanf(line, "%lx-%lx %4s", &from, &to, perms) == 3) {
			char want[5] = { prot & PROT_READ ? 'r' : '-',
					 prot & PROT_WRITE ? 'w' : '-',
					 prot & PROT_EXEC ? 'x' : '-',
					 r->shared ? 's' : 'p' };

			inside = from >= base && to <= base + r->len;
			if (!inside)
				continue;
			sum.mapped += to - from;
			if (prot != -1 && strcmp(perms, want))
				fail("smaps has %s, expected %s", perms, want);
			continue;
		}
		if (!inside || sscanf(line, "%31s %lu kB", key, &kib) != 2)
			continue;
		if (!strcmp(key, "Rss:"))
			sum.rss += kib * KIB;
		else if (!strcmp(key, "AnonHugePages:"))
			sum.anon_huge += kib * KIB;
		else if (!strcmp(key, "Referenced:"))
			sum.referenced += kib * KIB;
	}
	free(line);
	fclose(f);
	return sum;
}

/* All there, with these permissions, and mapped the way the folio kind says. */
static inline void region_expect(const struct region *r, int prot)
{
	struct smaps s = region_smaps(r, prot);
	size_t huge = r->folio == FOLIO_2M ? r->len : 0;

	if (s.mapped != r->len || s.rss != r->len || s.anon_huge != huge)
		fail("smaps: mapped %zu Rss %zu AnonHugePages %zu, expected %zu %zu %zu",
		     s.mapped, s.rss, s.anon_huge, r->len, r->len, huge);
}

/* Page frame numbers by a pagemap; that of a page that is not present is 0. */
static inline void pagemap_read(int pagemap, const void *addr, size_t n,
				uint64_t *pfn)
{
	off_t at = (uintptr_t)addr / wl.page * sizeof(*pfn);

	if (pread(pagemap, pfn, n * sizeof(*pfn), at) !=
	    (ssize_t)(n * sizeof(*pfn)))
		fail("pagemap: %s", strerror(errno));
	for (size_t i = 0; i < n; i++)
		pfn[i] = pfn[i] >> 63 ? pfn[i] & ((1UL << 55) - 1) : 0;
}

/**
 * region_pfns() - page frame numbers of a run of pages
 * @r: the region
 * @page: first page
 * @n: how many, all of them present
 * @pfn: takes the numbers
 */
static inline void region_pfns(const struct region *r, size_t page, size_t n,
			       uint64_t *pfn)
{
	int fd = must(open("/proc/self/pagemap", O_RDONLY));

	pagemap_read(fd, region_page(r, page), n, pfn);
	close(fd);
	for (size_t i = 0; i < n; i++)
		if (!pfn[i])
			fail("page %zu is not present in pagemap", page + i);
}

/* The folios are of the kind that was asked for: look at the pages behind. */
static inline void region_check_folios(const struct region *r)
{
	enum { CHUNK = 512, HEAD = 1 << 15, TAIL = 1 << 16 };
	size_t per = folio_size(r->folio) / wl.page;
	int fd = open("/proc/kpageflags", O_RDONLY);
	uint64_t pfn[CHUNK], flags[CHUNK];

	if (fd < 0)
		fail("/proc/kpageflags: %s", strerror(errno));
	for (size_t page = 0; page < r->pages; page += CHUNK) {
		size_t n = r->pages - page < CHUNK ? r->pages - page : CHUNK;
		size_t run;

		region_pfns(r, page, n, pfn);
		for (size_t i = 0; i < n; i += run) {
			run = 1;
			while (i + run < n && pfn[i + run] == pfn[i] + run)
				run++;
			if (pread(fd, flags + i, run * 8, pfn[i] * 8) !=
			    (ssize_t)(run * 8))
				fail("/proc/kpageflags: %s", strerror(errno));
		}
		for (size_t i = 0; i < n; i++) {
			uint64_t want = (page + i) % per ? TAIL : HEAD;

			if (per == 1)
				want = 0;
			if ((flags[i] & (HEAD | TAIL)) != want)
				fail("page %zu is not part of a folio of %zu KiB",
				     page + i, folio_size(r->folio) / KIB);
		}
	}
	close(fd);
}

/* Address space of @len bytes, aligned to 2 MiB, nothing mapped next to it. */
static inline void *reserve(size_t len)
{
	size_t room = len + 4 * MIB;
	unsigned char *raw, *base;

	raw = mmap(NULL, room, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (raw == MAP_FAILED)
		fail("mmap of %zu bytes: %s", room, strerror(errno));
	base = (void *)(((uintptr_t)raw + 2 * MIB) & ~(2 * MIB - 1));
	must(munmap(raw, room));
	return base;
}

static inline void region_map(struct region *r)
{
	int flags = MAP_FIXED_NOREPLACE | (r->shared ? MAP_SHARED : MAP_PRIVATE);

	if (!r->fd)
		flags |= MAP_ANONYMOUS;
	r->base = mmap(reserve(r->len), r->len, PROT_READ | PROT_WRITE, flags,
		       r->fd ? r->fd : -1, 0);
	if (r->base == MAP_FAILED)
		fail("mmap of %zu bytes: %s", r->len, strerror(errno));
	/* EINVAL is a kernel without huge pages, which is as good. */
	if (madvise(r->base, r->len, MADV_NOHUGEPAGE) && errno != EINVAL)
		fail("madvise: %s", strerror(errno));
}

/* The file gets the contents; the region maps it and has only read it. */
static inline void region_fill_file(const struct region *r)
{
	struct region file = *r;

	must(ftruncate(r->fd, r->len));
	file.base = mmap(NULL, r->len, PROT_READ | PROT_WRITE, MAP_SHARED,
			 r->fd, 0);
	if (file.base == MAP_FAILED)
		fail("mmap of a file: %s", strerror(errno));
	region_fill(&file);
	must(munmap(file.base, r->len));
	region_check(r);
}

/* As region_fill(), with page faults that allocate large folios. */
static inline void region_fill_large(const struct region *r)
{
	thp_only(folio_size(r->folio));
	must(madvise(r->base, r->len, MADV_HUGEPAGE));
	region_fill(r);
	/* What is there stays, and khugepaged will not collapse it later. */
	must(madvise(r->base, r->len, MADV_NOHUGEPAGE));
	thp_restore();
}

/*
 * A change to a part of what a huge PMD maps leaves PTEs behind. The last page
 * is the one, for arm64 looks whether a block can be contiguous again when the
 * last entry of the block is set.
 */
static inline void region_split_pmds(const struct region *r)
{
	for (size_t at = 2 * MIB - wl.page; at < r->len; at += 2 * MIB) {
		must(mprotect(r->base + at, wl.page, PROT_READ));
		must(mprotect(r->base + at, wl.page, PROT_READ | PROT_WRITE));
	}
	region_write(r, 0);
}

/**
 * region_make() - map, fill and check a region
 * @c: the case; tells the folio kind
 * @r: the region, with @len, @words, @shared and @fd set or zero
 */
static inline void region_make(const struct wl_case *c, struct region *r)
{
	r->folio = c->folio;
	r->len = r->len ? r->len : wl.size;
	r->words = r->words ? r->words : wl.page / 8;
	r->pages = r->len / wl.page;
	r->mark = calloc(r->pages, 1);
	if (!r->mark)
		fail("out of memory");
	region_map(r);
	if (r->fd)
		region_fill_file(r);
	else if (r->folio == FOLIO_BASE)
		region_fill(r);
	else
		region_fill_large(r);
	if (r->folio == FOLIO_2M_PTE)
		region_split_pmds(r);
	region_check_folios(r);
	region_expect(r, PROT_READ | PROT_WRITE);
}

static inline void region_free(struct region *r)
{
	must(munmap(r->base, r->len));
	free(r->mark);
}

/* --- processes ------------------------------------------------------------ */

/* Reap @pid, which must exit with @want. A child that failed said so itself. */
static inline void reap(pid_t pid, int want)
{
	int status;

	must(waitpid(pid, &status, 0));
	if (WIFEXITED(status) && WEXITSTATUS(status) == want)
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAIL)
		_exit(EXIT_FAIL);
	fail("child ended with status %#x", status);
}

/* --- entry ---------------------------------------------------------------- */

__attribute__((noreturn))
static inline void wl_usage(const char *name)
{
	fprintf(stderr,
		"usage: %s [--size=MiB] [--rounds=N] [--step=GLOB] [--list]\n"
		"	[--keep-settings] [--event=NAME:TYPE:CONFIG]...\n",
		name);
	exit(EXIT_USAGE);
}

static inline unsigned long number(const char *text, const char *name)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (!n || *end)
		wl_usage(name);
	return n;
}

static inline int proc_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		skip_all(path);
	return fd;
}

/*
 * What happens once in a process happens here: first touches, the first fork,
 * the first signal, the first read of each counter.
 */
static inline void warm_up(void)
{
	unsigned char *page;
	pid_t pid;

	page = mmap(NULL, wl.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (page == MAP_FAILED || !expect_fault(page, false) ||
	    !expect_fault(page, true))
		fail("a PROT_NONE page did not fault");
	must(mprotect(page, wl.page, PROT_READ | PROT_WRITE));
	*page = 1;
	pid = fork();
	must(pid);
	if (!pid)
		_exit(0);
	reap(pid, 0);
	must(munmap(page, wl.page));
	now();
	counters_read(&wl.shared->before);
	counters_read(&wl.shared->after);
}

/**
 * wl_main() - parse options, run the cases that were asked for
 * @argc: of main()
 * @argv: of main()
 * @cases: the cases
 * @n: how many
 * @size: default of --size, MiB
 * @rounds: default of --rounds
 *
 * Return: exit status.
 */
static inline int wl_main(int argc, char **argv, const struct wl_case *cases,
			  size_t n, size_t size, unsigned int rounds)
{
	static const struct option options[] = {
		{ "size", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "step", required_argument, NULL, 'g' },
		{ "list", no_argument, NULL, 'l' },
		{ "keep-settings", no_argument, NULL, 'k' },
		{ "event", required_argument, NULL, 'e' },
		{ 0 }
	};
	int opt;

	wl.size = size * MIB;
	wl.rounds = rounds;
	wl.glob = "*";
	wl.page = getpagesize();
	snprintf(wl.step, sizeof(wl.step), "all");
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 's')
			wl.size = number(optarg, argv[0]) * MIB;
		else if (opt == 'r')
			wl.rounds = number(optarg, argv[0]);
		else if (opt == 'g')
			wl.glob = optarg;
		else if (opt == 'l')
			wl.list = true;
		else if (opt == 'k')
			wl.keep_settings = true;
		else if (opt == 'e')
			event_add(optarg);
		else
			wl_usage(argv[0]);
	}
	/* Whole huge PMDs, and room for every shape. */
	if (optind != argc || wl.size % (2 * MIB))
		wl_usage(argv[0]);

	if (!wl.list) {
		if (geteuid())
			skip_all("needs root, for page frame numbers and folio sizes");
		wl.interrupts = proc_open("/proc/interrupts");
		wl.vmstat = proc_open("/proc/vmstat");
		wl.stat = proc_open("/proc/stat");
		wl.shared = mmap(NULL, sizeof(*wl.shared),
				 PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (wl.shared == MAP_FAILED)
			fail("out of memory");
		catch_probes();
		warm_up();
	}

	for (const struct wl_case *c = cases; c < cases + n; c++) {
		const char *why = folio_missing(c->folio);
		bool wanted = false;

		/* With 64 KiB base pages this is the base page's case. */
		if (c->folio == FOLIO_64K && wl.page >= 64 * KIB)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(c->step) && c->step[i]; i++) {
			step_set(c, i);
			wanted |= wl.measured;
			if (wl.list && wl.measured)
				printf("%s\n", wl.step);
		}
		if (!wanted || wl.list)
			continue;
		step_set(c, 0);
		if (why)
			case_skip(c, why);
		else
			c->run(c);
	}
	return wl.list || wl.ran ? EXIT_SUCCESS : EXIT_SKIP;
}

#endif /* WORKLOAD_H */
