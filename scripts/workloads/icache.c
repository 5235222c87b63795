// SPDX-License-Identifier: GPL-2.0
// syncs of the instruction cache: what is executed again without having changed
// no_switch: 1

#include "workload.h"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define RW	(PROT_READ | PROT_WRITE)
#define RX	(PROT_READ | PROT_EXEC)

/* What a fault-around maps, with 4 KiB pages */
#define FILE_PAGES	16

/* Older C libraries do not know it */
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE	101
#endif

#define TRACING		"/sys/kernel/debug/tracing/"

/* See modules/: two pages of text, one of them for init, and 1 MiB of data */
#define MODULE		"/lib/icache_load.ko"

static int result(size_t page, unsigned int round)
{
	return (page * 1021 + round * 31 + 1) & 0x7fff;
}

/* Every page that is mapped executable is marked clean: the bookkeeping. */
static void check_clean(void *addr, size_t pages)
{
#ifdef __aarch64__
	enum { ARCH = 38 };
	int map = open("/proc/self/pagemap", O_RDONLY);
	int flags = open("/proc/kpageflags", O_RDONLY);

	if (map < 0 || flags < 0)
		fail("/proc: %s", strerror(errno));
	for (size_t p = 0; p < pages; p++) {
		uint64_t pfn, bits;

		if (pread(map, &pfn, 8, ((uintptr_t)addr / wl.page + p) * 8) !=
		    8 || !(pfn >> 63))
			fail("page %zu is not present in pagemap", p);
		pfn &= (1UL << 55) - 1;
		/* The flag is the folio's, so it is the first page's */
		for (;;) {
			if (pread(flags, &bits, 8, pfn * 8) != 8)
				fail("/proc/kpageflags: %s", strerror(errno));
			if (!(bits & 1 << 16))
				break;
			pfn--;
		}
		if (!(bits & 1UL << ARCH))
			fail("page %zu is executable and not clean", p);
	}
	close(map);
	close(flags);
#else
	(void)addr;
	(void)pages;
#endif
}

static void run_all(void *addr, size_t pages, unsigned int round)
{
	for (size_t p = 0; p < pages; p++) {
		void *code = (char *)addr + p * wl.page;

		if (code_run(code) != result(p, round))
			fail("page %zu runs code that is not its own", p);
	}
}

static int code_file(unsigned int round)
{
	int fd = memfd_create("code", 0);

	must(fd);
	must(ftruncate(fd, FILE_PAGES * wl.page));
	for (size_t p = 0; p < FILE_PAGES; p++) {
		uint64_t word = code_word(result(p, round));

		if (pwrite(fd, &word, 8, p * wl.page) != 8)
			fail("write: %s", strerror(errno));
	}
	return fd;
}

static void *map_file(int fd, void *addr, int prot)
{
	void *p = mmap(addr, FILE_PAGES * wl.page, prot,
		       MAP_SHARED | (addr ? MAP_FIXED : 0), fd, 0);

	if (p == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	return p;
}

/* Map it again and fault, where there is a page table already. */
static void remap_run(int fd, void *addr, unsigned int round)
{
	run_all(map_file(fd, addr, RX), FILE_PAGES, round);
}

static void case_file(const struct wl_case *c)
{
	char *area = reserve(2 * MIB), byte;
	uint64_t word;
	int fd = code_file(1), mem = open("/proc/self/mem", O_RDWR);
	void *data;

	must(mem);
	if (mmap(area, 2 * MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0) == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	area[0] = 1;
	area += MIB;
	data = map_file(fd, NULL, RW);
	if (probe(data, PROT_READ))
		fail("a writable mapping of the file cannot be read");

	/* 16 folios that were never executed */
	map_file(fd, area, RX);
	step_begin(c, 0);
	code_run(area);
	step_end(FILE_PAGES);
	run_all(area, FILE_PAGES, 1);
	check_clean(area, FILE_PAGES);

	/* The same once more: nothing has changed */
	step_begin(c, 1);
	remap_run(fd, area, 1);
	step_end(FILE_PAGES);

	/* A read of a file that is mapped writable */
	step_begin(c, 2);
	for (size_t p = 0; p < FILE_PAGES; p++)
		must(pread(fd, &byte, 1, p * wl.page));
	remap_run(fd, area, 1);
	step_end(FILE_PAGES);

	/* Peeks, which is what a debugger does */
	step_begin(c, 3);
	for (size_t p = 0; p < FILE_PAGES; p++)
		must(pread(mem, &byte, 1, (uintptr_t)area + p * wl.page));
	remap_run(fd, area, 1);
	step_end(FILE_PAGES);
	check_clean(area, FILE_PAGES);

	/* A write changes one page, and its code is run */
	word = code_word(result(3, 2));
	step_begin(c, 4);
	must(pwrite(fd, &word, 8, 3 * wl.page));
	map_file(fd, area, RX);
	if (code_run(area + 3 * wl.page) != result(3, 2))
		fail("old code runs after write()");
	step_end(1);
	check_clean(area, FILE_PAGES);
	close(mem);
	close(fd);
	must(munmap(area - MIB, 2 * MIB));
	must(munmap(data, FILE_PAGES * wl.page));
}

/*
 * A huge page becomes executable, and then it is split: its parts are mapped again
 * by the kernel.
 */
static void case_split(const struct wl_case *c)
{
	int fd = open("/sys/kernel/debug/split_huge_pages", O_WRONLY);
	struct region r = { .len = 2 * MIB };
	char text[96];
	int len;

	if (fd < 0)
		return case_skip(c, "no split_huge_pages in debugfs");
	region_make(c, &r);
	for (size_t p = 0; p < r.pages; p++) {
		*region_page(&r, p) = code_word(result(p, 1));
		code_sync(region_page(&r, p));
	}
	step_begin(c, 0);
	must(mprotect(r.base, r.len, RX));
	step_end(r.pages);
	run_all(r.base, r.pages, 1);
	check_clean(r.base, r.pages);
	len = snprintf(text, sizeof(text), "%d,%#lx,%#lx", getpid(),
		       (unsigned long)r.base, (unsigned long)r.base + r.len);
	step_begin(c, 1);
	len = write(fd, text, len);
	step_end(r.pages);
	must(len);
	close(fd);

	r.folio = FOLIO_BASE;
	region_check_folios(&r);
	run_all(r.base, r.pages, 1);
	check_clean(r.base, r.pages);
	must(mprotect(r.base, r.len, RW));
	region_free(&r);

	/* Another huge page, perhaps the same memory; it is not clean for that. */
	r = (struct region){ .len = 2 * MIB };
	region_make(c, &r);
	for (size_t p = 0; p < r.pages; p++) {
		*region_page(&r, p) = code_word(result(p, 2));
		code_sync(region_page(&r, p));
	}
	must(mprotect(r.base, r.len, RX));
	run_all(r.base, r.pages, 2);
	check_clean(r.base, r.pages);
	must(mprotect(r.base, r.len, RW));
	region_free(&r);
}

/* A debugger's poke: a private page is copied, and the copy is synced. */
static void route_ptrace(int fd)
{
	char *code = mmap(NULL, wl.page, RX, MAP_PRIVATE, fd, 0);
	uint64_t word = code_word(result(0, 6));
	pid_t pid;
	int status;

	if (code == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	pid = fork();
	must(pid);
	if (!pid) {
		if (code_run(code) == result(0, 6) ||
		    ptrace(PTRACE_TRACEME, 0, NULL, NULL) || raise(SIGSTOP))
			_exit(1);
		_exit(code_run(code) != result(0, 6));
	}
	must(waitpid(pid, &status, 0));
	if (!WIFSTOPPED(status) ||
	    ptrace(PTRACE_POKETEXT, pid, code, (void *)(uintptr_t)word) ||
	    ptrace(PTRACE_CONT, pid, NULL, NULL))
		fail("ptrace: %s", strerror(errno));
	must(waitpid(pid, &status, 0));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail("old code runs after PTRACE_POKETEXT");
	must(munmap(code, wl.page));
}

/* What a JIT does. From the second time on, the program has to sync. */
static void route_mprotect(void)
{
	uint64_t *code = mmap(NULL, wl.page, RW, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);

	if (code == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	for (unsigned int i = 7; i < 10; i++) {
		*code = code_word(result(0, i));
		if (i > 7)
			code_sync(code);
		must(mprotect(code, wl.page, RX));
		check_clean(code, 1);
		if (code_run(code) != result(0, i))
			fail("old code runs after mprotect()");
		must(mprotect(code, wl.page, RW));
	}
	must(munmap(code, wl.page));
}

/* A page that is replaced by a copy of it, where the kernel has that */
static unsigned int route_migration(void)
{
	uint64_t *code = mmap(NULL, wl.page, RW, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
	unsigned int done;

	if (code == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	*code = code_word(result(0, 10));
	must(mprotect(code, wl.page, RX));
	if (code_run(code) != result(0, 10))
		fail("other code runs after mprotect()");
	done = !madvise(code, wl.page, MADV_SOFT_OFFLINE);
	if (!done && errno != EINVAL)
		fail("MADV_SOFT_OFFLINE: %s", strerror(errno));
	if (code_run(code) != result(0, 10))
		fail("other code runs after migration");
	check_clean(code, 1);
	must(munmap(code, wl.page));
	return done;
}

/* Hits of the only uprobe there is */
static unsigned long uprobe_hits(void)
{
	char text[256];
	int fd = open(TRACING "uprobe_profile", O_RDONLY);
	ssize_t len = read(fd, text, sizeof(text) - 1);

	must(len);
	close(fd);
	text[len] = '\0';
	/* <file> <event> <hits> */
	return strtoul(strrchr(text, ' '), NULL, 10);
}

/* A breakpoint in place of code: hit while it is there, and only then */
static unsigned int route_uprobe(void)
{
	static const char path[] = "/tmp/uprobe-code";
	uint64_t word = code_word(result(0, 11));
	unsigned long hits;
	char *code;
	int fd;

	if (access(TRACING "uprobe_events", W_OK))
		return 0;
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0700);
	must(fd);
	must(ftruncate(fd, wl.page));
	if (pwrite(fd, &word, 8, 0) != 8)
		fail("%s: %s", path, strerror(errno));
	code = mmap(NULL, wl.page, RX, MAP_PRIVATE, fd, 0);
	if (code == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	if (code_run(code) != result(0, 11))
		fail("a file's code is not what runs");
	file_write(TRACING "uprobe_events", "p:pteopt/code /tmp/uprobe-code:0");
	for (unsigned int i = 0; i < 3; i++) {
		file_write(TRACING "events/pteopt/code/enable", "1");
		hits = uprobe_hits();
		if (code_run(code) != result(0, 11) ||
		    uprobe_hits() != hits + 1)
			fail("a breakpoint is not what runs");
		check_clean(code, 1);
		file_write(TRACING "events/pteopt/code/enable", "0");
		if (code_run(code) != result(0, 11) ||
		    uprobe_hits() != hits + 1)
			fail("a breakpoint runs that is no more");
		check_clean(code, 1);
	}
	file_write(TRACING "uprobe_events", "-:pteopt/code");
	must(munmap(code, wl.page));
	close(fd);
	must(unlink(path));
	return 1;
}

/* New code by every way there is to write it; the new code is what runs. */
static void case_routes(const struct wl_case *c)
{
	uint64_t word[5];
	int fd = code_file(1), mem = open("/proc/self/mem", O_RDWR);
	char *code = map_file(fd, NULL, RX), *copy, *spot = reserve(wl.page);
	uint64_t *data = map_file(fd, NULL, RW);
	struct iovec from = { &word[0], 8 }, to = { data, 8 };
	unsigned int more;

	must(mem);
	for (unsigned int i = 0; i < ARRAY_SIZE(word); i++)
		word[i] = code_word(result(0, i + 2));
	run_all(code, FILE_PAGES, 1);

	step_begin(c, 0);
	if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != 8)
		fail("process_vm_writev: %s", strerror(errno));
	code_sync(code);
	if (code_run(code) != result(0, 2))
		fail("old code runs after process_vm_writev()");

	*data = word[1];
	code_sync(code);
	if (code_run(code) != result(0, 3))
		fail("old code runs after a store to the other mapping");

	must(pwrite(fd, &word[2], 8, 0));
	code_sync(code);
	if (code_run(code) != result(0, 4))
		fail("old code runs after write()");

	/* A poke into a private mapping makes a copy, and syncs it */
	copy = mmap(NULL, wl.page, RX, MAP_PRIVATE, fd, 0);
	if (copy == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	if (code_run(copy) != result(0, 4))
		fail("a private mapping has other code");
	if (pwrite(mem, &word[3], 8, (uintptr_t)copy) != 8)
		fail("/proc/self/mem: %s", strerror(errno));
	if (code_run(copy) != result(0, 5))
		fail("old code runs after a poke");
	if (code_run(code) != result(0, 4))
		fail("a poke has changed the file");

	copy = mremap(copy, wl.page, wl.page, MREMAP_MAYMOVE | MREMAP_FIXED,
		      spot);
	if (copy == MAP_FAILED)
		fail("mremap: %s", strerror(errno));
	if (code_run(copy) != result(0, 5))
		fail("other code runs after mremap()");
	step_end(5);

	step_begin(c, 1);
	route_ptrace(fd);
	route_mprotect();
	step_end(2);
	more = route_migration() + 2 * route_uprobe();
	printf("# migration %s, uprobe %s\n", more & 1 ? "done" : "not there",
	       more & 2 ? "done" : "not there");

	must(munmap(copy, wl.page));
	must(munmap(code, FILE_PAGES * wl.page));
	must(munmap(data, FILE_PAGES * wl.page));
	close(mem);
	close(fd);
}

/* Load a module, and again: the first time is not like the others. */
static void case_module(const struct wl_case *c)
{
	int fd = open(MODULE, O_RDONLY);

	if (fd < 0)
		fail("%s: %s", MODULE, strerror(errno));
	for (unsigned int warm = 0; warm < 2; warm++) {
		long bad;

		if (warm)
			step_begin(c, 0);
		bad = syscall(SYS_finit_module, fd, "", 0);
		if (warm)
			step_end(1);
		if (bad)
			fail("finit_module: %s", strerror(errno));
		must(syscall(SYS_delete_module, "icache_load", O_NONBLOCK));
	}
	close(fd);
}

static const struct wl_case cases[] = {
	{ { "icache/first", "icache/again", "icache/read", "icache/peek",
	    "icache/write" }, FOLIO_NONE, case_file, NULL },
	{ { "icache/first-2m", "icache/split-2m" }, FOLIO_2M, case_split, NULL },
	{ { "icache/routes", "icache/pokes" }, FOLIO_NONE, case_routes, NULL },
	{ { "icache/module" }, FOLIO_NONE, case_module, NULL },
};

int main(int argc, char **argv)
{
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 64, 1);
}
