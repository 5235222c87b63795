// SPDX-License-Identifier: GPL-2.0
// aging of memory in use: by rmap (idle page tracking) and by page table walk

#include "workload.h"

#include <sched.h>
#include <sys/mount.h>

#define RW		(PROT_READ | PROT_WRITE)
#define IDLE_BITMAP	"/sys/kernel/mm/page_idle/bitmap"
#define LRU_GEN		"/sys/kernel/debug/lru_gen"
#define LRU_GEN_ENABLED	"/sys/kernel/mm/lru_gen/enabled"

/*
 * New folios wait in a list of their CPU before they are on the LRU, which is
 * where both kinds of aging look for them. munmap() empties the list of the
 * CPU it runs on.
 */
static void stay_on_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	must(sched_setaffinity(0, sizeof(set), &set));
}

static void drain_lru_lists(void)
{
	char *page = mmap(NULL, wl.page, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);

	if (page == MAP_FAILED)
		fail("out of memory");
	*page = 1;
	must(munmap(page, wl.page));
}

/*
 * Aging leaves the TLBs alone, so an access right after it may well go unseen.
 * fork() flushes the parent's entries and keeps their age, which mprotect()
 * does not do everywhere: powerpc makes what it changes young.
 */
static void flush_tlb(void)
{
	pid_t pid = fork();

	must(pid);
	if (!pid)
		_exit(0);
	reap(pid, 0);
}

/**
 * struct idle_bits - the part of the idle bitmap that belongs to a region
 * @fd: the bitmap
 * @pfn: page frame number of each page
 * @first: number of the first 64-bit word
 * @words: how many
 * @ours: which bits are the region's
 * @got: what was read
 */
struct idle_bits {
	int fd;
	uint64_t *pfn, first;
	size_t words;
	uint64_t *ours, *got;
};

static void idle_init(struct idle_bits *b, const struct region *r)
{
	uint64_t last = 0;

	b->pfn = calloc(r->pages, sizeof(*b->pfn));
	if (!b->pfn)
		fail("out of memory");
	region_pfns(r, 0, r->pages, b->pfn);
	b->first = UINT64_MAX;
	for (size_t p = 0; p < r->pages; p++) {
		uint64_t word = b->pfn[p] / 64;

		b->first = word < b->first ? word : b->first;
		last = word > last ? word : last;
	}
	b->words = last - b->first + 1;
	b->ours = calloc(b->words, sizeof(*b->ours));
	b->got = calloc(b->words, sizeof(*b->got));
	if (!b->ours || !b->got)
		fail("out of memory");
	for (size_t p = 0; p < r->pages; p++)
		b->ours[b->pfn[p] / 64 - b->first] |= 1UL << b->pfn[p] % 64;
	/* Touch it here and not in the interval. */
	memset(b->got, 0xff, b->words * sizeof(*b->got));
}

/* Every run of words that are ours and nothing else. False on an error. */
static bool idle_io(const struct idle_bits *b, bool set)
{
	for (size_t i = 0, end; i < b->words; i = end) {
		end = i + 1;
		if (!b->ours[i])
			continue;
		while (end < b->words && b->ours[end])
			end++;
		while (i < end) {
			size_t len = (end - i) * 8;
			off_t at = (b->first + i) * 8;
			ssize_t n;

			n = set ? pwrite(b->fd, b->ours + i, len, at) :
				  pread(b->fd, b->got + i, len, at);
			if (n < 8 || n % 8)
				return false;
			i += n / 8;
		}
	}
	return true;
}

/* The first page of a folio stands for all of it. */
static bool is_idle(const struct idle_bits *b, size_t page)
{
	uint64_t pfn = b->pfn[page];

	return b->got[pfn / 64 - b->first] >> pfn % 64 & 1;
}

static void run_rmap(const struct wl_case *c)
{
	size_t per = folio_size(c->folio) / wl.page;
	struct region r = { 0 };
	struct idle_bits b;
	bool ok;

	b.fd = open(IDLE_BITMAP, O_RDWR);
	if (b.fd < 0)
		return case_skip(c, "no " IDLE_BITMAP);
	stay_on_cpu();
	region_make(c, &r);
	idle_init(&b, &r);
	drain_lru_lists();

	/* All young: every entry has its access flag cleared. */
	step_begin(c, 0);
	ok = idle_io(&b, true);
	step_end(r.pages);
	if (!ok)
		fail("the bitmap cannot be written: %s", strerror(errno));

	/* All old: the same walk, and nothing to clear. */
	step_begin(c, 1);
	ok = idle_io(&b, false);
	step_end(r.pages);
	if (!ok)
		fail("the bitmap cannot be read: %s", strerror(errno));
	for (size_t p = 0; p < r.pages; p += per)
		if (!is_idle(&b, p))
			fail("page %zu is not idle, and nobody used it", p);

	/* In every other folio some page is used, never the same. */
	flush_tlb();
	for (size_t p = 0, i = 0; p < r.pages; p += 2 * per, i++)
		(void)*(volatile unsigned char *)region_mark(&r, p + i % per);
	if (!idle_io(&b, false))
		fail("the bitmap cannot be read: %s", strerror(errno));
	for (size_t p = 0; p < r.pages; p += per)
		if (is_idle(&b, p) != p / per % 2)
			fail("page %zu is %s", p,
			     is_idle(&b, p) ? "idle, but it was used" :
					      "not idle, and nobody used it");
	region_check(&r);
	region_expect(&r, RW);
	region_free(&r);
	free(b.pfn);
	free(b.ours);
	free(b.got);
	close(b.fd);
}

/* The control group that this process is in; "/" if there are none. */
static void own_cgroup(char *path, size_t size)
{
	FILE *f = fopen("/proc/self/cgroup", "r");
	char line[4096];

	snprintf(path, size, "/");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "0::", 3))
			snprintf(path, size, "%s", strtok(line + 3, "\n"));
	if (f)
		fclose(f);
}

/*
 * One aging command for each node of the memory control group that has this
 * process: the deepest one that its path runs through. The fields are group,
 * node, youngest generation, swappiness (anonymous memory, too), and force
 * (whole page tables, whatever earlier walks found in them).
 */
static bool aging_command(char *command, size_t size)
{
	char line[4096], path[4096], own[4096];
	unsigned int id = 0, node = 0;
	size_t best = 0, len = 0;
	unsigned long seq;
	bool ours = false;
	FILE *f = fopen(LRU_GEN, "r");

	if (!f)
		return false;
	own_cgroup(own, sizeof(own));
	command[0] = '\0';
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "memcg", 5)) {
			size_t n;

			snprintf(path, sizeof(path), "/");
			if (sscanf(line, "memcg %u %4095s", &id, path) < 1)
				fail(LRU_GEN ": %s", line);
			n = strlen(path);
			ours = !strcmp(path, "/") ||
			       (!strncmp(path, own, n) &&
				strchr("/", own[n]));
			ours = ours && n > best;
			if (ours) {
				best = n;
				len = 0;
			}
		} else if (sscanf(line, " node %u", &node) == 1) {
			if (ours)
				len += strlen(command + len);
		} else if (ours && sscanf(line, "%lu", &seq) == 1) {
			/* The last line of a node is the youngest one. */
			snprintf(command + len, size - len, "+ %u %u %lu 100 1;",
				 id, node, seq);
		}
	}
	fclose(f);
	return command[0];
}

static unsigned long lru_gen_caps(void)
{
	unsigned long caps = 0;
	FILE *f = fopen(LRU_GEN_ENABLED, "r");

	if (f && fscanf(f, "%lx", &caps) != 1)
		caps = 0;
	if (f)
		fclose(f);
	return caps;
}

static void lru_gen_set(unsigned long caps)
{
	FILE *f = fopen(LRU_GEN_ENABLED, "w");

	if (f) {
		fprintf(f, "%#lx", caps);
		fclose(f);
	}
}

/*
 * Turn the multi-gen LRU on, with page table walks. False if it is not there,
 * or does not walk here: it needs hardware that sets AF.
 */
static bool lru_gen_enable(unsigned long *before)
{
	*before = lru_gen_caps();
	if (!wl.keep_settings)
		lru_gen_set(3);
	if ((lru_gen_caps() & 3) == 3)
		return true;
	if (!wl.keep_settings)
		lru_gen_set(*before);
	return false;
}

static void run_walk(const struct wl_case *c)
{
	struct region r = { 0 };
	char command[1024];
	unsigned long before;
	ssize_t done;
	size_t seen;
	int fd;

	if (!lru_gen_enable(&before))
		return case_skip(c, "no multi-gen LRU that walks page tables");
	if (access(LRU_GEN, F_OK))
		mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	fd = open(LRU_GEN, O_WRONLY);
	if (fd < 0) {
		lru_gen_set(before);
		return case_skip(c, "no " LRU_GEN);
	}
	stay_on_cpu();
	region_make(c, &r);
	drain_lru_lists();
	seen = region_smaps(&r, RW).referenced;
	if (seen != r.len)
		fail("smaps: Referenced %zu, expected %zu", seen, r.len);
	if (!aging_command(command, sizeof(command)))
		fail("no command for " LRU_GEN);

	step_begin(c, 0);
	done = write(fd, command, strlen(command));
	step_end(r.pages);
	if (done != (ssize_t)strlen(command))
		fail("%s gave %zd: %s", command, done, strerror(errno));
	seen = region_smaps(&r, RW).referenced;
	if (seen)
		fail("smaps: Referenced %zu, expected 0", seen);

	flush_tlb();
	region_check(&r);
	seen = region_smaps(&r, RW).referenced;
	if (seen != r.len)
		fail("smaps: Referenced %zu after use, expected %zu", seen,
		     r.len);
	region_expect(&r, RW);
	region_free(&r);
	close(fd);
	lru_gen_set(before);
}

static const struct wl_case cases[] = {
	{ { "aging/%", "aging-old/%" }, FOLIO_BASE, run_rmap, NULL },
	{ { "aging/%", "aging-old/%" }, FOLIO_64K, run_rmap, NULL },
	{ { "aging-mglru/%" }, FOLIO_BASE, run_walk, NULL },
	{ { "aging-mglru/%" }, FOLIO_64K, run_walk, NULL },
};

int main(int argc, char **argv)
{
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 64, 1);
}
