// SPDX-License-Identifier: GPL-2.0
/*
 * pteopt - tests of the pteopt module, run in a guest by scripts/module.py
 *
 * Usage: pteopt PART [series]
 *	PART	walk, poke, ops, events, fuzz, load, stress or hotplug
 *	series	the kernel has the series
 *
 * Each is a part, which loads the module, and prints a line per test:
 *	ok NAME / not ok NAME: why / skip NAME: why
 * The exit code is 1 if any was not ok, and 2 for bad usage. Without a part the
 * program exits with 0 at once: that makes it a helper for the exec operation.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MODULE		"/lib/pteopt.ko"
#define DEBUG		"/sys/kernel/debug/"
#define DIR		DEBUG "pteopt/"
#define TRACING		"/sys/kernel/tracing/"
#define THP		"/sys/kernel/mm/transparent_hugepage/"
#define SELF		"helper=/bin/pteopt"
/* Where the address space of a process ends that asks for no more */
#ifdef __aarch64__
#define USER_END	(1UL << 48)
#else
#define USER_END	(1UL << 47)
#endif
#define KIB		1024UL
#define MIB		(1024 * KIB)

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif

static bool failed;
static bool hash_mmu;	/* of POWER: nothing is settled there */
static size_t page;

__attribute__((format(printf, 3, 4)))
static void check(bool good, const char *name, const char *fmt, ...)
{
	va_list ap;

	if (good) {
		printf("ok %s\n", name);
	} else {
		printf("not ok %s: ", name);
		va_start(ap, fmt);
		vprintf(fmt, ap);
		va_end(ap);
		putchar('\n');
		failed = true;
	}
	fflush(stdout);
}

static void skip(const char *name, const char *why)
{
	printf("skip %s: %s\n", name, why);
	fflush(stdout);
}

/* --- the module and its files -------------------------------------------- */

static int load_file(const char *path, const char *args)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = syscall(SYS_finit_module, fd, args, 0) ? -errno : 0;
	close(fd);
	return ret;
}

static int load(const char *args)
{
	return load_file(MODULE, args);
}

static int unload(void)
{
	return syscall(SYS_delete_module, "pteopt", O_NONBLOCK) ? -errno : 0;
}

/* Write a request; its answer comes to @answer. Returns 0 or an errno. */
static int ask_n(const char *file, const char *text, size_t len, char *answer,
		 size_t size)
{
	char path[128];
	ssize_t n;
	int fd, ret = 0;

	snprintf(path, sizeof(path), DIR "%s", file);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (write(fd, text, len) != (ssize_t)len)
		ret = errno;
	if (answer) {
		size_t got = 0;

		while (got < size - 1 &&
		       (n = read(fd, answer + got, size - 1 - got)) > 0)
			got += n;
		answer[got] = '\0';
	}
	close(fd);
	return ret;
}

static int ask(const char *file, const char *text, char *answer, size_t size)
{
	return ask_n(file, text, strlen(text), answer, size);
}

static char answer[4 << 20];

static int walk_pid(pid_t pid, const void *addr, size_t len)
{
	char text[128];

	snprintf(text, sizeof(text), "%d %lx %lx", pid, (unsigned long)addr,
		 (unsigned long)addr + len);
	return ask("walk", text, answer, sizeof(answer));
}

static int read_number(const char *path, long *value)
{
	FILE *f = fopen(path, "r");
	int ok = f && fscanf(f, "%ld", value) == 1;

	if (f)
		fclose(f);
	return ok ? 0 : -1;
}

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -1;
	ret = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
	close(fd);
	return ret;
}

static bool file_has(const char *path, const char *word)
{
	FILE *f = fopen(path, "r");
	bool found = false;
	char line[256];

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, word);
	if (f)
		fclose(f);
	return found;
}

/* --- load ---------------------------------------------------------------- */

static long slab_kib(void)
{
	char line[128];
	long kib = -1;
	FILE *f = fopen("/proc/meminfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "SUnreclaim: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

/* What kmemleak knows: scan twice, for it wants things to have an age */
static void check_leaks(const char *name)
{
	char report[4096];
	ssize_t n;
	int fd;

	if (access(DEBUG "kmemleak", W_OK)) {
		skip(name, "the kernel has no kmemleak");
		return;
	}
	sleep(6);
	write_text(DEBUG "kmemleak", "scan");
	write_text(DEBUG "kmemleak", "scan");
	fd = open(DEBUG "kmemleak", O_RDONLY);
	n = fd < 0 ? -1 : read(fd, report, sizeof(report) - 1);
	if (fd >= 0)
		close(fd);
	report[n < 0 ? 0 : n] = '\0';
	check(n == 0, name, "%s", n < 0 ? strerror(errno) : report);
}

static void part_load(__attribute__((unused)) bool series)
{
	const int cycles = 1000;
	long before = 0, after;
	int i, ret = 0, fd;

	for (i = 0; i < cycles && !ret; i++) {
		if (i == cycles / 10)
			before = slab_kib();
		ret = load(i % 10 ? "" : "poke=1");
		if (!ret)
			ret = unload();
	}
	check(!ret, "load 1000 cycles", "cycle %d: %s", i, strerror(-ret));
	/*
	 * A leak of 1 KiB in each of the last 900 would be 900 KiB; a slab more
	 * or less in each of a few caches is none.
	 */
	after = slab_kib();
	check(before > 0 && after > 0 &&
	      after - before < 200 + 8 * (long)(page / KIB),
	      "load leaves no slab memory", "SUnreclaim %ld KiB, then %ld KiB",
	      before, after);
	printf("# SUnreclaim %ld KiB after 100 cycles, %ld KiB after all\n",
	       before, after);
	check_leaks("load leaves no leak (kmemleak)");

	ret = load("");
	fd = open(DIR "walk", O_RDWR);
	check(!ret && fd >= 0 && unload() == -EWOULDBLOCK,
	      "load unload is refused while a file is open",
	      "load %d, file %d", ret, fd);
	close(fd);
	check(access(DIR "poke", F_OK) && errno == ENOENT,
	      "load no poke without poke=1", "it is there");
	ret = unload();
	check(!ret, "load unload works when the file is closed", "%s",
	      strerror(-ret));
}

/* --- walk ---------------------------------------------------------------- */

/* One line of a walk, taken apart */
struct row {
	unsigned long addr, pages;
	char level[8], kind[16], flags[16];
	unsigned long long raw;
	unsigned int order;
};

static bool row_parse(const char *line, struct row *row)
{
	const char *order = strstr(line, " order=");
	const char *end = strchr(line, '\n');

	memset(row, 0, sizeof(*row));
	if (sscanf(line, "%lx %lu %7s %15s raw=%llx %15s", &row->addr,
		   &row->pages, row->level, row->kind, &row->raw,
		   row->flags) < 4)
		return false;
	row->order = -1U;
	if (order && (!end || order < end))
		row->order = atoi(order + 7);
	return true;
}

/*
 * All addresses of [@addr, @addr + @len) have to be in rows of @level and @kind,
 * of which @flags says, in the order ADWXCSPI: the letter for set, '-' for clear,
 * '?' for either. @order is that of the folio, -1 for any.
 */
static void expect(const char *name, const void *addr, size_t len,
		   const char *level, const char *kind, const char *flags,
		   int order)
{
	unsigned long at = (unsigned long)addr, end = at + len;
	int ret = walk_pid(getpid(), addr, len);
	const char *line = answer;
	struct row row;
	size_t i;

	if (ret) {
		check(false, name, "walk: %s", strerror(ret));
		return;
	}
	while (at < end && row_parse(line, &row)) {
		bool good = row.addr == at && !strcmp(row.level, level) &&
			    !strcmp(row.kind, kind) &&
			    (order < 0 || row.order == (unsigned int)order);

		for (i = 0; flags[i]; i++) {
			char want = flags[i];

			if (want == 'S' && hash_mmu)
				want = '-';
			if (want != '?' && want != row.flags[i])
				good = false;
		}
		if (!good)
			break;
		at += row.pages * page;
		line = strchr(line, '\n') + 1;
	}
	check(at == end, name, "at %lx, wanted %s %s %s order %d: %.120s", at,
	      level, kind, flags, order, line);
}

/* The number in front of a word of the last walk's summary, or -1 */
static int blocks_of(const char *word)
{
	const char *line = strstr(answer, "# blocks:"), *at;

	if (!line)
		return -1;
	at = strstr(line, word);
	while (at && at > line && at[-1] == ' ')
		at--;
	while (at && at > line && at[-1] >= '0' && at[-1] <= '9')
		at--;
	return at ? atoi(at) : -1;
}

/* Whether the last walk came across the page of @addr, and it was there */
static bool has_page(const void *addr)
{
	unsigned long at = (unsigned long)addr & -page;
	const char *line = answer;
	struct row row;

	while (line && row_parse(line, &row)) {
		if (at >= row.addr && at < row.addr + row.pages * page)
			return !strcmp(row.kind, "present");
		line = strchr(line, '\n');
		line += !!line;
	}
	return false;
}

static char *map_at(size_t len, size_t align, int prot, int flags)
{
	char *at = mmap(NULL, len + align, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	at = (char *)(((unsigned long)at + align - 1) & -align);
	at = mmap(at, len, prot, MAP_FIXED | MAP_ANONYMOUS | flags, -1, 0);
	return at == MAP_FAILED ? NULL : at;
}

static void walk_hugetlb(void)
{
	char *at;

	if (write_text("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
		       "4")) {
		skip("walk hugetlb 2M", "the kernel has no 2 MiB hugetlb");
		return;
	}
	at = map_at(2 * MIB, 2 * MIB, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_HUGETLB | (21 << MAP_HUGE_SHIFT));
	if (!at) {
		check(false, "walk hugetlb 2M", "mmap: %s", strerror(errno));
		return;
	}
	memset(at, 1, 2 * MIB);
	expect("walk hugetlb 2M", at, 2 * MIB, "pmd", "present", "ADW-?S-?",
	       __builtin_ctzl(2 * MIB / page));
	munmap(at, 2 * MIB);
}

/* A swap area on a RAM disk: what mkswap writes, version 1, no bad pages */
static int swap_on(const char *device, size_t size)
{
	char *head = calloc(1, page);
	uint32_t *info = (uint32_t *)(head + 1024);
	int fd = open(device, O_RDWR), ret = -1;

	info[0] = 1;
	info[1] = size / page - 1;
	memcpy(head + page - 10, "SWAPSPACE2", 10);
	if (fd >= 0 && write(fd, head, page) == (ssize_t)page && !fsync(fd))
		ret = swapon(device, 0);
	if (fd >= 0)
		close(fd);
	free(head);
	return ret;
}

static void walk_swap(void)
{
	size_t len = 4 * page;
	char *at;
	int i;

	/* A kernel of a distribution has it as a module */
	load_file("/lib/brd.ko", "");
	if (access("/dev/ram0", F_OK)) {
		skip("walk swapped", "the kernel has no RAM disk");
		return;
	}
	if (swap_on("/dev/ram0", 16 * MIB)) {
		check(false, "walk swapped", "swapon: %s", strerror(errno));
		return;
	}
	at = map_at(len, page, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	madvise(at, len, MADV_NOHUGEPAGE);
	memset(at, 1, len);
	/* Pages that are still on their way to the LRU stay where they are */
	for (i = 0; i < 20; i++) {
		madvise(at, len, MADV_PAGEOUT);
		if (!walk_pid(getpid(), at, len) && !strstr(answer, " present"))
			break;
		usleep(100000);
	}
	expect("walk swapped", at, len, "pte", "not-present", "", -1);
	munmap(at, len);
	swapoff("/dev/ram0");
}

static void part_walk(__attribute__((unused)) bool series)
{
	bool have_64k = page == 4 * KIB &&
		!write_text(THP "hugepages-64kB/enabled", "madvise");
	char *at;
	int folded, mixed, plain;

	load("");
	at = map_at(64 * page, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	madvise(at, 64 * page, MADV_NOHUGEPAGE);
	expect("walk nothing mapped", at, 64 * page, "-", "none", "", -1);
	memset(at, 1, 64 * page);
	expect("walk base pages, written", at, 64 * page, "pte", "present",
	       "ADW--S-?", 0);
	mprotect(at, 32 * page, PROT_READ);
	expect("walk base pages, read-only", at, 32 * page, "pte", "present",
	       "AD---S-?", 0);
	mprotect(at, 32 * page, PROT_READ | PROT_EXEC);
	expect("walk base pages, executable", at, 32 * page, "pte", "present",
	       "AD-X-S-?", 0);
	mprotect(at, 32 * page, PROT_NONE);
	expect("walk PROT_NONE", at, 32 * page, "pte", "prot-none", "?????S-?",
	       0);
	munmap(at, 64 * page);

	/* The zero page: no folio of this process */
	at = map_at(page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	madvise(at, page, MADV_NOHUGEPAGE);
	(void)*(volatile char *)at;
	expect("walk zero page", at, page, "pte", "present", "A----?P?", -1);
	munmap(at, page);

	if (have_64k) {
		at = map_at(2 * MIB, 2 * MIB, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE);
		madvise(at, MIB, MADV_HUGEPAGE);
		memset(at, 1, MIB);
		if (walk_pid(getpid(), at, MIB) || blocks_of("folded") < 0) {
			expect("walk 64K folios, no blocks here", at, MIB,
			       "pte", "present", "ADW--S-?", 4);
		} else {
			expect("walk 64K folded", at, MIB, "pte", "present",
			       "ADW-CS-?", 4);
			mprotect(at, 128 * KIB + 32 * KIB, PROT_READ);
			walk_pid(getpid(), at, MIB);
			folded = blocks_of("folded");
			mixed = blocks_of("mixed");
			plain = blocks_of("plain");
			/* Blocks 0 and 1 may be either: that is the series */
			check(folded + plain == 16 && !mixed && plain >= 1 &&
			      plain <= 3, "walk 64K blocks after a partial mprotect",
			      "%d folded, %d mixed, %d plain", folded, mixed,
			      plain);
			expect("walk 64K block cut by mprotect, read-only half",
			       at + 128 * KIB, 32 * KIB, "pte", "present",
			       "AD---S-?", 4);
			expect("walk 64K block cut by mprotect, other half",
			       at + 160 * KIB, 32 * KIB, "pte", "present",
			       "ADW--S-?", 4);
			munmap(at + MIB - 64 * KIB, 8 * page);
			walk_pid(getpid(), at, MIB);
			check(blocks_of("mixed") == 1,
			      "walk 64K block with a hole is mixed", "%d mixed",
			      blocks_of("mixed"));
		}
		munmap(at, 2 * MIB);
	} else {
		skip("walk 64K folded", "no 64 KiB folios of this page size");
	}

	if (!access(THP "hpage_pmd_size", R_OK)) {
		at = map_at(4 * MIB, 2 * MIB, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE);
		madvise(at, 4 * MIB, MADV_HUGEPAGE);
		memset(at, 1, 2 * MIB);
		expect("walk 2M", at, 2 * MIB, "pmd", "present", "ADW--S-?",
		       __builtin_ctzl(2 * MIB / page));
		mprotect(at, 2 * MIB, PROT_NONE);
		expect("walk 2M, PROT_NONE", at, 2 * MIB, "pmd", "prot-none",
		       "?????S-?", -1);
		expect("walk 2M, beyond it", at + 2 * MIB, 2 * MIB, "-", "none",
		       "", -1);
		munmap(at, 4 * MIB);
	} else {
		skip("walk 2M", "no huge pages with this MMU");
	}
	walk_hugetlb();
	walk_swap();
	at = (char *)&at;
	check(!walk_pid(getpid(), NULL, USER_END) && has_page(&page) &&
	      has_page(at), "walk all of a process, from data to stack",
	      "%p or %p is not there: %.200s", &page, at, answer);
	unload();
}

/* --- fuzz ---------------------------------------------------------------- */

static void refuse(const char *file, const char *text, int want)
{
	char name[160];
	int got = ask(file, text, answer, sizeof(answer));

	snprintf(name, sizeof(name), "fuzz %s '%.60s': %s", file, text,
		 want ? strerror(want) : "works");
	check(got == want && (!want || !answer[0]), name, "%s",
	      got ? strerror(got) : "it was accepted");
}

/* Bytes, and pieces of good requests, in any order */
static void fuzz_random(const char *file, unsigned int rounds)
{
	static const char * const piece[] = {
		"1", "2", "-1", "0", " ", " ", " ", "1000", "ffffffffffffffff",
		"fold", "clear", "age", "wrprotect", "rounds=", "order=", "=",
		"cpus=", "cold=", "1", "4", "exec", "\n", "%s%n", "7fffffffffff",
		"9223372036854775808", "mprotect",
	};
	unsigned int i, j, worked = 0;
	bool good = true;
	char name[96];

	srand(1);
	for (i = 0; i < rounds && good; i++) {
		char text[300];
		size_t len = 0;
		int ret;

		if (i % 2) {
			for (j = rand() % 8; j; j--)
				len += snprintf(text + len, 32, "%s",
						piece[rand() % (sizeof(piece) /
							sizeof(piece[0]))]);
		} else {
			len = rand() % sizeof(text);
			for (j = 0; j < len; j++)
				text[j] = rand();
		}
		ret = ask_n(file, text, len, NULL, 0);
		worked += !ret;
		/* The errors that the documentation names */
		good = !ret || ret == EINVAL || ret == ESRCH || ret == EFAULT ||
		       ret == E2BIG || ret == ERANGE || ret == EOPNOTSUPP ||
		       ret == ENOENT || ret == EAGAIN;
		if (!good)
			printf("# %u: %s\n", i, strerror(ret));
	}
	snprintf(name, sizeof(name), "fuzz %s, %u random requests", file,
		 rounds);
	check(good, name, "an error that the documentation does not name");
	printf("# %u of them were good requests\n", worked);
}

static void part_fuzz(__attribute__((unused)) bool series)
{
	char text[128], longer[400];
	pid_t child;
	char *at;

	load("poke=1 " SELF);
	refuse("walk", "", EINVAL);
	refuse("walk", "1", EINVAL);
	refuse("walk", "1 0 1000 x", EINVAL);
	refuse("walk", "x 0 10000", EINVAL);
	refuse("walk", "-1 0 10000", EINVAL);
	refuse("walk", "0 0 10000", EINVAL);
	refuse("walk", "1 10000 10000", EINVAL);
	refuse("walk", "1 20000 10000", EINVAL);
	refuse("walk", "1 1 10000", EINVAL);
	refuse("walk", "1 0 10001", EINVAL);
	refuse("walk", "4000000 0 10000", ESRCH);
	refuse("walk", "2 0 10000", ESRCH);		/* kthreadd */
	refuse("walk", "1 0 ffffffffffff0000", EFAULT);
	refuse("walk", "1 c000000000000000 c000000000010000", EFAULT);
	refuse("walk", "1 ffff800080000000 ffff800080010000", EFAULT);

	child = fork();
	if (!child)
		_exit(0);
	/* Wait for the end, but leave it a zombie */
	waitid(P_PID, child, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	snprintf(text, sizeof(text), "%d 0 10000", child);
	refuse("walk", text, ESRCH);
	waitpid(child, NULL, 0);

	/* More entries than an answer has: only every other page is there */
	at = mmap(NULL, 140000 * page, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	madvise(at, 140000 * page, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < 140000; i += 2)
		(void)*(volatile char *)(at + i * page);
	check(walk_pid(getpid(), at, 140000 * page) == E2BIG,
	      "fuzz walk of too many entries", "not E2BIG");
	check(!walk_pid(getpid(), at, 60000 * page),
	      "fuzz walk of not too many entries", "an error");
	munmap(at, 140000 * page);

	refuse("run", "none", EINVAL);
	refuse("run", "clear rounds", EINVAL);
	refuse("run", "clear rounds=", EINVAL);
	refuse("run", "clear rounds=0", EINVAL);
	refuse("run", "clear rounds=100001", EINVAL);
	refuse("run", "clear rounds=-1", EINVAL);
	refuse("run", "clear rounds=99999999999", ERANGE);
	refuse("run", "clear order=30", EINVAL);
	refuse("run", "clear cpus=0", EINVAL);
	refuse("run", "clear cpus=4096", EINVAL);
	refuse("run", "clear cold=2", EINVAL);
	refuse("run", "clear what=1", EINVAL);
	refuse("run", "exec cpus=2", EINVAL);

	snprintf(text, sizeof(text), "%d ffffffffffff0000 0 0", getpid());
	refuse("poke", text, hash_mmu ? EOPNOTSUPP : EFAULT);
	refuse("poke", "1 10000 0", EINVAL);
	refuse("poke", "1 10001 0 0", EINVAL);
	refuse("poke", "4000000 10000 0 0", hash_mmu ? EOPNOTSUPP : ESRCH);

	memset(longer, ' ', sizeof(longer));
	check(ask_n("walk", longer, sizeof(longer), NULL, 0) == EINVAL,
	      "fuzz walk, a long request", "not EINVAL");
	check(ask_n("walk", "1 0 10000\0x", 11, NULL, 0) == EINVAL,
	      "fuzz walk, a NUL in the middle", "not EINVAL");
	fuzz_random("walk", 20000);
	fuzz_random("poke", 20000);
	fuzz_random("run", 2000);
	unload();
}

/* --- poke ---------------------------------------------------------------- */

static void part_poke(__attribute__((unused)) bool series)
{
	size_t len = 4 * page;
	struct row row = {};
	unsigned long long raw;
	char text[128];
	char *at;
	int ret;

	load("poke=1");
	at = map_at(len, page, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	madvise(at, len, MADV_NOHUGEPAGE);
	memset(at, 5, len);
	walk_pid(getpid(), at, page);
	row_parse(answer, &row);
	raw = row.raw;

	/* An entry that is none, for a moment; nobody looks meanwhile */
	snprintf(text, sizeof(text), "%d %lx %llx 0", getpid(),
		 (unsigned long)at, raw);
	ret = ask("poke", text, NULL, 0);
	if (ret == EOPNOTSUPP) {
		skip("poke", "the hash MMU is not written to");
		unload();
		return;
	}
	check(!ret, "poke an entry away", "%s", strerror(ret));
	expect("poke shows in a walk", at, page, "-", "none", "", -1);
	check(ask("poke", text, NULL, 0) == EAGAIN,
	      "poke refuses if the old value is another", "not EAGAIN");
	snprintf(text, sizeof(text), "%d %lx 0 %llx", getpid(),
		 (unsigned long)at, raw);
	ret = ask("poke", text, NULL, 0);
	check(!ret && *at == 5, "poke it back", "%s", strerror(ret));
	munmap(at, len);
	snprintf(text, sizeof(text), "%d %lx 0 0", getpid(), (unsigned long)at);
	check(ask("poke", text, NULL, 0) == EFAULT, "poke where nothing is mapped",
	      "not EFAULT");
	unload();
}

/* --- ops ----------------------------------------------------------------- */

static void run_op(const char *text, bool blocks)
{
	char name[96];
	double min, median, p90;
	int ret = ask("run", text, answer, sizeof(answer));
	const char *times;

	snprintf(name, sizeof(name), "ops %s", text);
	if (ret == EOPNOTSUPP) {
		skip(name, blocks ? "no contiguous blocks here" :
		     "not with this MMU, or without kernel probes");
		return;
	}
	times = strstr(answer, " min=");
	check(!ret && times &&
	      sscanf(times, " min=%lf median=%lf p90=%lf", &min, &median,
		     &p90) == 3 && min > 0 && min <= median && median <= p90,
	      name, "%s %s", ret ? strerror(ret) : "", answer);
	if (!ret)
		printf("# %s", answer);
}

static void part_ops(__attribute__((unused)) bool series)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	char text[96];
	static const char * const each[] = {
		"wrprotect", "clear", "age", "icache",
	};

	load(SELF " evict_mib=4");
	run_op("fold rounds=20 order=4", true);
	run_op("unfold rounds=20 order=4", true);
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		snprintf(text, sizeof(text), "%s rounds=20", each[i]);
		run_op(text, false);
		snprintf(text, sizeof(text), "%s rounds=20 order=%d", each[i],
			 page == 4 * KIB ? 4 : 2);
		run_op(text, false);
		snprintf(text, sizeof(text), "%s rounds=5 cold=1", each[i]);
		run_op(text, false);
		snprintf(text, sizeof(text), "%s rounds=20 cpus=%ld", each[i],
			 cpus);
		run_op(text, false);
	}
	run_op("mprotect rounds=10", false);
	run_op("exec rounds=5", false);
	check_leaks("ops leave no leak (kmemleak)");
	unload();
}

/* --- events -------------------------------------------------------------- */

static int event_open(const char *name)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr),
		.disabled = 1,
	};
	char path[128];
	long id;
	int fd;

	snprintf(path, sizeof(path), TRACING "events/pteopt/%s/id", name);
	if (read_number(path, &id))
		return -ENODEV;
	attr.config = id;
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	return fd < 0 ? -errno : fd;
}

/* Events of this process between now and event_stop() */
static void event_start(int fd)
{
	ioctl(fd, PERF_EVENT_IOC_RESET, 0);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
}

static void event_stop(int fd, const char *name, uint64_t low, uint64_t high)
{
	uint64_t count = -1ULL;

	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	if (read(fd, &count, sizeof(count)) != sizeof(count))
		count = -1ULL;
	check(count >= low && count <= high, name, "%llu, not %llu to %llu",
	      (unsigned long long)count, (unsigned long long)low,
	      (unsigned long long)high);
	printf("# %s: %llu\n", name, (unsigned long long)count);
}

static bool event_there(int fd, const char *name)
{
	char full[64];

	snprintf(full, sizeof(full), "events %s", name);
	if (fd == -ENODEV)
		skip(full, "a kernel without kernel probes or trace events");
	else if (fd == -ENOENT)
		skip(full, "a kernel without the function behind it");
	else
		check(fd >= 0, full, "perf_event_open: %s", strerror(-fd));
	return fd >= 0;
}

static void part_events(bool series)
{
	const int rounds = 7;
	char text[64], *at;
	int fd;

	load("");
	mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL);

	fd = event_open("contpte_convert");
	if (event_there(fd, "contpte_convert")) {
		/* 512 entries are 32 blocks; a round unfolds and folds each */
		snprintf(text, sizeof(text), "fold rounds=%d order=4", rounds);
		event_start(fd);
		ask("run", text, answer, sizeof(answer));
		/* and the module unfolds them all when it is done */
		event_stop(fd, "events contpte_convert of fold",
			   32 * (2 * rounds + 1), 32 * (2 * rounds + 1));
		snprintf(text, sizeof(text), "unfold rounds=%d order=4",
			 rounds);
		event_start(fd);
		ask("run", text, answer, sizeof(answer));
		event_stop(fd, "events contpte_convert of unfold", 32 * rounds,
			   32 * rounds);

		write_text(THP "hugepages-64kB/enabled", "madvise");
		at = map_at(MIB, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE);
		madvise(at, MIB, MADV_HUGEPAGE);
		memset(at, 1, MIB);
		event_start(fd);
		munmap(at + 32 * KIB, 4 * KIB);
		event_stop(fd, "events contpte_convert of a hole in a block", 1,
			   1);
		event_start(fd);
		event_stop(fd, "events contpte_convert of nothing", 0, 0);
		munmap(at, MIB);
		close(fd);
	}

	fd = event_open("icache_sync");
	if (event_there(fd, "icache_sync")) {
		size_t entries = page == 4 * KIB ? 512 : 2 * MIB / page;

		snprintf(text, sizeof(text), "icache rounds=%d", rounds);
		event_start(fd);
		if (ask("run", text, answer, sizeof(answer)))
			skip("events icache_sync of icache",
			     "not with this MMU");
		else
			event_stop(fd, "events icache_sync of icache",
				   entries * rounds, entries * rounds);
		close(fd);
	}

	fd = event_open("protect");
	if (event_there(fd, "protect")) {
		/* Behind a table's start, so that all are in one table */
		at = map_at(16 * page, 2 * MIB, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE);
		madvise(at, 16 * page, MADV_NOHUGEPAGE);
		memset(at, 1, 16 * page);
		event_start(fd);
		mprotect(at, 16 * page, PROT_READ);
		mprotect(at, 16 * page, PROT_READ | PROT_WRITE);
		/* One for each entry, or with the series one for each run */
		if (series)
			event_stop(fd, "events protect of 16 entries, twice", 2,
				   2);
		else
			event_stop(fd, "events protect of 16 entries, twice",
				   32, 32);
		munmap(at, 16 * page);
		close(fd);
	}
	unload();
}

/* --- stress -------------------------------------------------------------- */

static volatile bool stop, lull;
static volatile pid_t victim;
static unsigned long walks, runs, refused, cycles;

/*
 * The module is hardly ever free of users. When its turn to go has come, the
 * others ask for nothing that takes long, so that opens and unloads meet.
 */
static bool in_lull(void)
{
	if (!lull)
		return false;
	if (ask("run", "none", NULL, 0) == EINVAL)
		refused++;
	usleep(rand() % 3000);
	return true;
}

/* Walk all there is, of processes that come and go */
static void *stress_walk(void *arg)
{
	char text[64];

	(void)arg;
	while (!stop) {
		const pid_t pid[] = { 1, getpid(), victim, victim, victim };

		if (in_lull())
			continue;
		snprintf(text, sizeof(text), "%d 0 7fffffff0000",
			 pid[rand() % 5]);
		if (ask("walk", text, NULL, 0))
			refused++;
		else
			walks++;
	}
	return NULL;
}

static void *stress_run(void *arg)
{
	static const char * const op[] = {
		"fold rounds=3 order=4", "wrprotect rounds=3 cpus=2",
		"clear rounds=3", "age rounds=3 cpus=2", "icache rounds=2",
	};

	(void)arg;
	while (!stop) {
		if (in_lull())
			continue;
		if (ask("run", op[rand() % 5], NULL, 0))
			refused++;
		else
			runs++;
	}
	return NULL;
}

static void *stress_cycle(void *arg)
{
	int i;

	(void)arg;
	while (!stop) {
		usleep(300000);
		lull = true;
		for (i = 0; i < 50 && !stop; i++) {
			if (!unload())
				cycles++;
			load("");
			usleep(rand() % 3000);
		}
		lull = false;
	}
	return NULL;
}

static void part_stress(__attribute__((unused)) bool series)
{
	void *(*const what[])(void *) = {
		stress_walk, stress_walk, stress_run, stress_run, stress_cycle,
	};
	const size_t nr = sizeof(what) / sizeof(what[0]);
	pthread_t thread[sizeof(what) / sizeof(what[0])];
	time_t end = time(NULL) + 30;
	size_t i;

	load("");
	for (i = 0; i < nr; i++)
		pthread_create(&thread[i], NULL, what[i], NULL);
	/* Victims: they map, they exit, they are killed */
	while (time(NULL) < end) {
		/* The child must not: another thread may have had rand()'s lock */
		useconds_t life = rand() % 2000;
		pid_t child = fork();

		if (!child) {
			char *at = map_at(MIB, MIB, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE);

			memset(at, 1, MIB);
			usleep(life);
			_exit(0);
		}
		if (child < 0) {
			check(false, "stress fork", "%s", strerror(errno));
			break;
		}
		victim = child;
		usleep(rand() % 3000);
		if (rand() % 2)
			kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	stop = true;
	for (i = 0; i < nr; i++)
		pthread_join(thread[i], NULL);
	printf("# %lu walks, %lu runs, %lu refused, %lu unloads\n", walks, runs,
	       refused, cycles);
	check(walks && runs && cycles, "stress did all that it is for",
	      "%lu walks, %lu runs, %lu unloads", walks, runs, cycles);
	unload();
	check_leaks("stress leaves no leak (kmemleak)");
}

/* CPU 1 comes and goes while requests want two CPUs */
static void part_hotplug(__attribute__((unused)) bool series)
{
	const char *online = "/sys/devices/system/cpu/cpu1/online";
	unsigned int i, changes = 0;
	pthread_t thread;

	if (access(online, W_OK)) {
		skip("hotplug", "no CPU 1 that can be taken away");
		return;
	}
	load("");
	stop = false;
	runs = 0;
	refused = 0;
	pthread_create(&thread, NULL, stress_run, NULL);
	for (i = 0; i < 20; i++) {
		changes += !write_text(online, i % 2 ? "1" : "0");
		usleep(500000);
	}
	stop = true;
	pthread_join(thread, NULL);
	printf("# %u changes, %lu runs, %lu refused\n", changes, runs, refused);
	check(changes == 20 && runs, "hotplug while operations run",
	      "%u of 20 changes, %lu runs", changes, runs);
	unload();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(bool series);
	} part[] = {
		{ "load", part_load }, { "walk", part_walk },
		{ "fuzz", part_fuzz }, { "poke", part_poke },
		{ "ops", part_ops }, { "events", part_events },
		{ "stress", part_stress },
		{ "hotplug", part_hotplug },
	};
	size_t i;

	if (argc < 2)
		return 0;
	page = sysconf(_SC_PAGESIZE);
	hash_mmu = file_has("/proc/cpuinfo", "Hash");
	for (i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		if (strcmp(argv[1], part[i].name))
			continue;
		part[i].run(argc > 2 && !strcmp(argv[2], "series"));
		return failed;
	}
	return 2;
}
