// SPDX-License-Identifier: GPL-2.0
// stress:
// stress: --late
// stress: --race
// threads: --spin
/*
 * protect - does memory allow what mprotect() says, and hold what was written?
 *
 *   protect		the matrix: from each protection to each other one, on each
 *			kind of memory, mapped in each way, with entries of each
 *			state; the range as a whole, and all but its two ends.
 *			After each change every access is tried, and contents are
 *			compared.
 *   protect --late	threads access memory as fast as they can while it loses
 *			the permission for that. An access that starts after
 *			mprotect() has returned, and works, is late: a stale
 *			translation has served it.
 *   protect --race	mprotect() at random while threads write, and the memory is
 *			forked, zapped, migrated, write-protected by userfaultfd
 *
 * One line per kind of memory with what was counted; `@@ skip <what>: <why>` for
 * what this machine can't do. Exit status: 0 all is well, 1 a check failed,
 * 2 usage, 4 nothing ran.
 */
#include "stress.h"

#include <linux/userfaultfd.h>

struct kind {
	const char *name;
	enum wl_folio folio;
	bool hugetlb;
};

static const struct kind kinds[] = {
	{ "base", FOLIO_BASE, false },
	{ "64k", FOLIO_64K, false },
	{ "2m", FOLIO_2M, false },
	{ "hugetlb-64k", FOLIO_64K, true },
	{ "hugetlb-2m", FOLIO_2M, true },
};

/* FILE_BACKED is a private mapping of a tmpfs or hugetlbfs file. */
enum mapping { PRIVATE, SHARED, FILE_BACKED, NR_MAPPINGS };

static const char * const mappings[] = { "private", "shared", "file" };

static const struct prot {
	const char *name;
	int bits;
} prots[] = {
	{ "none", PROT_NONE },
	{ "r", PROT_READ },
	{ "rw", PROT_READ | PROT_WRITE },
	{ "rx", PROT_READ | PROT_EXEC },
	{ "rwx", PROT_READ | PROT_WRITE | PROT_EXEC },
};

#define RW	(PROT_READ | PROT_WRITE)
#define RWX	(PROT_READ | PROT_WRITE | PROT_EXEC)

static const struct access {
	const char *name;
	int bit;
} accesses[] = {
	{ "read", PROT_READ },
	{ "write", PROT_WRITE },
	{ "execution", PROT_EXEC },
};

/**
 * struct memory - a region of one kind, mapped in one way
 * @r: the region
 * @kind: what its pages are
 * @mapping: how they are mapped
 * @unit: what mprotect() can change
 * @value: the last mark that was written
 */
struct memory {
	struct region r;
	const struct kind *kind;
	enum mapping mapping;
	size_t unit;
	unsigned char value;
};

static struct {
	const char *glob;
	unsigned long rounds;
	bool spin;
	uint64_t random;
	unsigned int ran;
} opt = { .glob = "*" };

__attribute__((format(printf, 2, 3)))
static void skip(const char *what, const char *fmt, ...)
{
	char why[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	printf("@@ skip protect %s: %s\n", what, why);
	fflush(stdout);
}

/* --- memory --------------------------------------------------------------- */

/* Files in memory get folios of this size, if any; fails if there are none. */
static bool shmem_only(size_t size)
{
	char path[sizeof(THP_DIR) + 300];
	DIR *dir = opendir(THP_DIR);
	bool found = size == wl.page;
	struct dirent *d;
	size_t kib;

	while (dir && (d = readdir(dir))) {
		if (sscanf(d->d_name, "hugepages-%zukB", &kib) != 1)
			continue;
		snprintf(path, sizeof(path), THP_DIR "/%s/shmem_enabled",
			 d->d_name);
		if (access(path, F_OK))
			continue;
		file_write(path, kib * KIB == size ? "always" : "never");
		found |= kib * KIB == size;
	}
	if (dir)
		closedir(dir);
	return found;
}

static bool hugetlb_reserve(size_t size, unsigned long pages)
{
	unsigned long got = 0;
	char path[96];
	FILE *f;

	snprintf(path, sizeof(path),
		 "/sys/kernel/mm/hugepages/hugepages-%zukB/nr_hugepages",
		 size / KIB);
	if (access(path, F_OK))
		return false;
	write_number(path, pages);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%lu", &got) != 1 || got < pages)
		fail("%lu of %lu hugetlb pages of %zu KiB", got, pages,
		     size / KIB);
	fclose(f);
	return true;
}

/* Why there can be no such memory here; NULL if it can be. */
static const char *memory_missing(const struct kind *kind, enum mapping mapping)
{
	size_t size = folio_size(kind->folio);

	if (kind->folio != FOLIO_BASE && size <= wl.page)
		return "a base page is as large";
	if (kind->hugetlb)
		return hugetlb_reserve(size, 12) ? NULL :
		       "the kernel has no hugetlb pages of this size";
	if (mapping == PRIVATE)
		return folio_missing(kind->folio);
	return shmem_only(size) ? NULL :
	       "the kernel has no folios of this size for files in memory";
}

static unsigned int size_flag(const struct memory *m)
{
	return (unsigned int)__builtin_ctzl(folio_size(m->kind->folio)) << 26;
}

/* At an address that fits the largest folio */
static void map(struct memory *m, bool shared)
{
	struct region *r = &m->r;
	int flags = MAP_FIXED_NOREPLACE | (shared ? MAP_SHARED : MAP_PRIVATE);

	if (!r->fd)
		flags |= MAP_ANONYMOUS;
	if (m->kind->hugetlb && !r->fd)
		flags |= MAP_HUGETLB | size_flag(m);
	r->base = mmap(reserve(r->len), r->len, RW, flags, r->fd ? r->fd : -1,
		       0);
	if (r->base == MAP_FAILED)
		fail("mmap of %zu bytes: %s", r->len, strerror(errno));
	if (m->mapping == PRIVATE && !m->kind->hugetlb &&
	    madvise(r->base, r->len, m->kind->folio == FOLIO_BASE ?
		    MADV_NOHUGEPAGE : MADV_HUGEPAGE) && errno != EINVAL)
		fail("madvise: %s", strerror(errno));
}

/* Map and fill; the folios behind it are of the kind that was asked for. */
static void memory_make(struct memory *m, const struct kind *kind,
			enum mapping mapping)
{
	struct region *r = &m->r;
	size_t size = folio_size(kind->folio);
	bool thp = !kind->hugetlb && kind->folio != FOLIO_BASE;

	*m = (struct memory){
		.kind = kind, .mapping = mapping,
		.unit = kind->hugetlb ? size : wl.page,
	};
	/* Three blocks; one huge page, but four where pages can't be split. */
	r->len = kind->hugetlb ? 4 * size :
		 kind->folio == FOLIO_2M ? size : 3 * BLOCK;
	if (r->len < 4 * wl.page)
		r->len = 4 * wl.page;
	r->words = 8;
	r->pages = r->len / wl.page;
	r->folio = kind->folio;
	r->shared = mapping == SHARED;
	r->mark = calloc(r->pages, 1);
	if (!r->mark)
		fail("out of memory");
	if (mapping == FILE_BACKED) {
		r->fd = must(memfd_create("protect", MFD_CLOEXEC |
					  (kind->hugetlb ?
					   MFD_HUGETLB | size_flag(m) : 0)));
	}
	if (!kind->hugetlb && mapping != PRIVATE)
		shmem_only(size);
	if (thp && mapping == PRIVATE)
		thp_only(size);
	if (r->fd)
		must(ftruncate(r->fd, r->len));
	map(m, mapping != PRIVATE);
	region_fill(r);
	thp_restore();
	/* The file has its contents and folios; now for the private mapping */
	if (r->fd) {
		must(munmap(r->base, r->len));
		map(m, false);
		region_check(r);
	}
	region_check_folios(r);
}

static void memory_free(struct memory *m)
{
	if (m->r.fd)
		close(m->r.fd);
	region_free(&m->r);
}

static void write_all(struct memory *m)
{
	region_write(&m->r, ++m->value);
	memset(m->r.mark, m->value, m->r.pages);
}

static void read_all(const struct memory *m)
{
	for (size_t p = 0; p < m->r.pages; p++)
		(void)*(volatile unsigned char *)region_mark(&m->r, p);
}

static bool wanted(const char *name)
{
	return !fnmatch(opt.glob, name, 0);
}

/* --- the matrix ----------------------------------------------------------- */

/* TOUCHED is young and dirty, CLEAN young and not dirty, AGED dirty and old. */
enum state { TOUCHED, CLEAN, AGED, NR_STATES };

static const char * const states[] = { "touched", "clean", "aged" };

struct counts {
	unsigned long changes, allowed, refused, pages;
};

/* Why entries of this memory can't be given that state */
static const char *state_missing(const struct memory *m, enum state state)
{
	if (m->kind->hugetlb && state == AGED)
		return "hugetlb entries are not aged";
	if (m->kind->hugetlb && m->mapping == PRIVATE && state == CLEAN)
		return "private hugetlb pages can't be cleaned";
	return NULL;
}

/* The memory is readable and writable. */
static void make_state(struct memory *m, enum state state)
{
	struct region *r = &m->r;

	if (state != CLEAN) {
		write_all(m);
		return;
	}
	if (m->mapping == PRIVATE) {
		must(madvise(r->base, r->len, MADV_FREE));
	} else {
		must(madvise(r->base, r->len, MADV_DONTNEED));
		/* What was written to private pages of the file is gone. */
		if (m->mapping == FILE_BACKED)
			memset(r->mark, 0, r->pages);
	}
	read_all(m);
}

/* The sum of the values of @key in the region's part of smaps, bytes */
static size_t smaps_sum(const struct region *r, const char *key)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	uintptr_t base = (uintptr_t)r->base;
	char *line = NULL;
	bool inside = false;
	size_t cap = 0, sum = 0;

	if (!f)
		fail("/proc/self/smaps: %s", strerror(errno));
	while (getline(&line, &cap, f) > 0) {
		unsigned long from, to, kib;
		char name[32];

		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from >= base && to <= base + r->len;
		else if (inside && sscanf(line, "%31s %lu kB", name, &kib) == 2 &&
			 strstr(name, key))
			sum += kib * KIB;
	}
	free(line);
	fclose(f);
	return sum;
}

/* The control: the state is what it is called, as far as smaps can tell. */
static void check_state(const struct memory *m, enum state state)
{
	size_t n;

	if (m->kind->hugetlb)
		return;
	n = smaps_sum(&m->r, "Referenced:");
	if (state == AGED ? n : n != m->r.len)
		fail("%zu bytes are young", n);
	/* Pages of a file in memory count as dirty whatever entries say. */
	if (m->mapping != PRIVATE)
		return;
	n = smaps_sum(&m->r, "Private_Dirty:");
	if (state == CLEAN ? n : n != m->r.len)
		fail("%zu bytes are dirty", n);
}

static void try_access(const struct memory *m, size_t page, int prot,
		       struct counts *n)
{
	region_probe(&m->r, page, prot);
	for (size_t i = 0; i < ARRAY_SIZE(accesses); i++) {
		n->allowed += !!(prot & accesses[i].bit);
		n->refused += !(prot & accesses[i].bit);
	}
}

static void cell(struct memory *m, enum state state, bool inner,
		 const struct prot *from, const struct prot *to,
		 struct counts *n)
{
	struct region *r = &m->r;
	size_t edge = inner ? m->unit : 0, first, last;

	snprintf(wl.step, sizeof(wl.step), "%s/%s %s %s>%s%s", m->kind->name,
		 mappings[m->mapping], states[state], from->name, to->name,
		 inner ? " inner" : "");
	make_state(m, state);
	must(mprotect(r->base, r->len, from->bits));
	if (state == AGED)
		file_write("/proc/self/clear_refs", "1");
	check_state(m, state);
	must(mprotect(r->base + edge, r->len - 2 * edge, to->bits));
	n->changes++;

	first = edge / wl.page;
	last = r->pages - edge / wl.page;
	for (size_t p = 0; p < r->pages; p++) {
		bool inside = p >= first && p < last;

		/* Of a large page: its ends, and those of its first blocks */
		if (p > 33 && p < r->pages - 3 && p + 2 != first &&
		    p + 1 != first && p != first && p + 1 != last && p != last)
			continue;
		try_access(m, p, inside ? to->bits : from->bits, n);
	}
	for (size_t p = 0; p < r->pages; p++) {
		if (!((p >= first && p < last ? to : from)->bits & PROT_READ))
			continue;
		region_check_page(r, p);
		n->pages++;
	}
	must(mprotect(r->base, r->len, RW));
	region_check(r);
	write_all(m);
	region_check(r);
	n->pages += 2 * r->pages;
}

static void matrix_of(const struct kind *kind, enum mapping mapping,
		      const char *name)
{
	struct counts n = { 0 };
	struct memory m;

	snprintf(wl.step, sizeof(wl.step), "%s", name);
	memory_make(&m, kind, mapping);
	for (int state = 0; state < NR_STATES; state++) {
		const char *why = state_missing(&m, state);

		if (why) {
			char what[64];

			snprintf(what, sizeof(what), "%s %s", name,
				 states[state]);
			skip(what, "%s", why);
			continue;
		}
		for (size_t i = 0; i < 2 * ARRAY_SIZE(prots) *
		     ARRAY_SIZE(prots); i++) {
			size_t pair = i / 2;

			cell(&m, state, i % 2, &prots[pair / ARRAY_SIZE(prots)],
			     &prots[pair % ARRAY_SIZE(prots)], &n);
			/* Whole again: a huge page, or a contpte block */
			if (i % 2 && !kind->hugetlb) {
				if (m.r.fd)
					region_check_file(&m.r);
				memory_free(&m);
				memory_make(&m, kind, mapping);
			}
		}
	}
	if (m.r.fd)
		region_check_file(&m.r);
	memory_free(&m);
	printf("protect %s: %lu changes, %lu accesses allowed, %lu refused, %lu pages compared: ok\n",
	       name, n.changes, n.allowed, n.refused, n.pages);
	fflush(stdout);
	opt.ran++;
}

static void matrix(void)
{
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		for (int mapping = 0; mapping < NR_MAPPINGS; mapping++) {
			char name[32];
			const char *why;

			snprintf(name, sizeof(name), "%s/%s", kinds[k].name,
				 mappings[mapping]);
			if (!wanted(name))
				continue;
			why = memory_missing(&kinds[k], mapping);
			if (why)
				skip(name, "%s", why);
			else
				matrix_of(&kinds[k], mapping, name);
		}
	}
}

/* --- threads whose accesses may fault ------------------------------------- */

static _Thread_local struct {
	bool armed;
	sigjmp_buf env;
} catcher;

static void on_thread_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (!catcher.armed)
		fail("signal %d at %p", sig, info->si_addr);
	siglongjmp(catcher.env, 1);
}

static void catch_faults(void)
{
	struct sigaction action = {
		.sa_sigaction = on_thread_fault,
		.sa_flags = SA_SIGINFO | SA_NODEFER,
	};

	must(sigaction(SIGSEGV, &action, NULL));
	must(sigaction(SIGBUS, &action, NULL));
}

/* One access of a thread; *@value is written, or what was read or returned. */
static bool attempt(void *addr, int bit, uint64_t *value)
{
	volatile uint64_t *word = addr;

	if (sigsetjmp(catcher.env, 0)) {
		catcher.armed = false;
		return false;
	}
	catcher.armed = true;
	atomic_signal_fence(memory_order_seq_cst);
	if (bit == PROT_WRITE)
		*word = *value;
	else if (bit == PROT_READ)
		*value = *word;
	else
		*value = code_run(addr);
	atomic_signal_fence(memory_order_seq_cst);
	catcher.armed = false;
	return true;
}

/* --- late accesses -------------------------------------------------------- */

#define MAX_SIBLINGS	3
#define QUIT		(~0U)

/**
 * struct sibling - a thread that accesses one page all the time
 * @open: the last phase with the permission in which an access worked
 * @closed: the last phase without it in which one was made
 * @addr: what it accesses
 * @bit: how
 * @cpu: where it runs
 * @late: accesses that were made without the permission, and worked
 */
struct sibling {
	_Atomic unsigned int open, closed;
	void *addr;
	int bit;
	unsigned int cpu;
	unsigned long late;
};

/* Odd while memory lacks the permission, for sure; even while it may have it */
static _Atomic unsigned int phase;

/* Threads wait for @word, and sleep if they may: see await(). */
static void tell(_Atomic unsigned int *word, unsigned int value)
{
	if (opt.spin)
		atomic_store(word, value);
	else
		post(word, value);
}

/*
 * Until @word is @value, or is not. The CPU is for those who are waited for, unless
 * the emulator has a thread of the host for each: then sleep takes most of a round.
 */
static void await(_Atomic unsigned int *word, unsigned int value, bool equal)
{
	unsigned int seen;

	while (((seen = atomic_load(word)) == value) != equal)
		if (!opt.spin)
			futex_wait(word, seen);
}

static void *sibling_main(void *arg)
{
	struct sibling *s = arg;
	unsigned int before;
	uint64_t value = 0;
	bool worked;

	stay_on_cpu(s->cpu);
	while ((before = atomic_load(&phase)) != QUIT) {
		worked = attempt(s->addr, s->bit, &value);
		/* Of an access that was not within one phase nothing is known. */
		if (atomic_load(&phase) != before)
			continue;
		if (before & 1) {
			s->late += worked;
			tell(&s->closed, before);
			await(&phase, before, false);
		} else if (worked && s->open != before) {
			tell(&s->open, before);
		}
	}
	return NULL;
}

static unsigned long late_of(const struct memory *m, const struct prot *from,
			     const struct prot *to, const struct access *access,
			     unsigned int threads)
{
	struct sibling siblings[MAX_SIBLINGS] = { 0 };
	pthread_t id[MAX_SIBLINGS];
	unsigned long late = 0;

	must(mprotect(m->r.base, m->r.len, RWX));
	atomic_store(&phase, 2);
	for (unsigned int i = 0; i < threads; i++) {
		struct sibling *s = &siblings[i];

		/*
		 * Code in the first page of a huge page, see struct region; else
		 * all over the first block. A write is to where no code is.
		 */
		s->addr = region_page(&m->r, access->bit == PROT_EXEC ? 0 :
				      i * 5 % m->r.pages);
		if (access->bit == PROT_EXEC)
			code_sync(s->addr);
		else
			s->addr = (uint64_t *)s->addr + 1;
		s->bit = access->bit;
		s->cpu = i + 1;
		start_thread(&id[i], sibling_main, s);
	}
	for (unsigned long round = 1; round <= opt.rounds; round++) {
		tell(&phase, 2 * round);
		must(mprotect(m->r.base, m->r.len, from->bits));
		for (unsigned int i = 0; i < threads; i++)
			await(&siblings[i].open, 2 * round, true);
		must(mprotect(m->r.base, m->r.len, to->bits));
		tell(&phase, 2 * round + 1);
		for (unsigned int i = 0; i < threads; i++)
			await(&siblings[i].closed, 2 * round + 1, true);
	}
	tell(&phase, QUIT);
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(id[i], NULL);
		late += siblings[i].late;
	}
	return late;
}

static void late_on(const struct kind *kind)
{
	unsigned int threads = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	unsigned long downgrades = 0, late = 0;
	struct memory m;

	if (threads > MAX_SIBLINGS)
		threads = MAX_SIBLINGS;
	snprintf(wl.step, sizeof(wl.step), "late %s", kind->name);
	memory_make(&m, kind, PRIVATE);
	for (size_t i = 0; i < ARRAY_SIZE(prots) * ARRAY_SIZE(prots) *
	     ARRAY_SIZE(accesses); i++) {
		const struct access *a = &accesses[i % ARRAY_SIZE(accesses)];
		size_t pair = i / ARRAY_SIZE(accesses);
		const struct prot *from = &prots[pair / ARRAY_SIZE(prots)];
		const struct prot *to = &prots[pair % ARRAY_SIZE(prots)];
		unsigned long n;

		if (!(from->bits & a->bit) || to->bits & a->bit)
			continue;
		n = late_of(&m, from, to, a, threads);
		if (n)
			printf("protect late %s: %s>%s: %s worked %lu times after mprotect() had returned\n",
			       kind->name, from->name, to->name, a->name, n);
		downgrades++;
		late += n;
	}
	printf("protect late %s: %lu downgrades, %lu rounds each, %u threads, %lu attempts, %lu late: %s\n",
	       kind->name, downgrades, opt.rounds, threads,
	       downgrades * opt.rounds * threads, late,
	       late ? "FAILED" : "ok");
	fflush(stdout);
	opt.ran++;
	if (late)
		exit(EXIT_FAIL);
	memory_free(&m);
}

static void late(void)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return skip("late", "there is one CPU only");
	catch_faults();
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		const char *why = memory_missing(&kinds[k], PRIVATE);

		if (!wanted(kinds[k].name))
			continue;
		if (why)
			skip(kinds[k].name, "%s", why);
		else
			late_on(&kinds[k]);
	}
}

/* --- races ---------------------------------------------------------------- */

#define WRITERS		2
#define BATCHES		4

/**
 * struct race - what happens to memory while it is written and mprotect()ed
 * @name: for the report
 * @mapping: of the memory
 * @zeroes: a page may turn into zeroes
 * @start: prepare for it, or NULL; returns why it can't be done here
 * @step: do it once; returns how often it happened
 * @stop: check and undo, or NULL
 */
struct race {
	const char *name;
	enum mapping mapping;
	bool zeroes;
	const char *(*start)(void);
	unsigned long (*step)(uint64_t *random);
	void (*stop)(void);
};

static struct {
	struct memory m;
	const struct race *race;
	/* What each page's word holds, by the thread that writes it */
	uint64_t *word;
	_Atomic bool stop, writers_gone;
	_Atomic unsigned long written, refused, compared, disturbed, events;
	int uffd, pagemap;
} race;

static void *word_of(size_t page)
{
	return (uint64_t *)region_page(&race.m.r, page) + 8;
}

static void compare(size_t page, uint64_t found)
{
	if (found != race.word[page] && (found || !race.race->zeroes))
		fail("page %zu holds %#lx, written was %#lx", page,
		     (unsigned long)found, (unsigned long)race.word[page]);
	race.word[page] = found;
	race.compared++;
}

static void *writer_main(void *arg)
{
	unsigned int id = (uintptr_t)arg;
	uint64_t random = opt.random ^ (id + 1UL) << 32, next = 0;

	stay_on_cpu(id + 1);
	while (!race.stop) {
		size_t pages = race.m.r.pages / WRITERS * WRITERS;
		size_t page = draw(&random) % pages / WRITERS * WRITERS + id;
		uint64_t value = ++next;

		if (attempt(word_of(page), PROT_WRITE, &value)) {
			race.word[page] = value;
			race.written++;
		} else {
			race.refused++;
		}
		page = draw(&random) % pages / WRITERS * WRITERS + id;
		if (attempt(word_of(page), PROT_READ, &value))
			compare(page, value);
	}
	return NULL;
}

static void *disturber_main(void *arg)
{
	uint64_t random = opt.random ^ 0x5a5a;

	(void)arg;
	stay_on_cpu(WRITERS + 1);
	/* Writers may wait for what this does. */
	while (!race.writers_gone)
		race.disturbed += race.race->step(&random);
	return NULL;
}

/* Some pages of the memory, of whole units */
static void *part(uint64_t *random, size_t *len)
{
	size_t units = race.m.r.len / race.m.unit;
	size_t first = draw(random) % units;

	*len = (1 + draw(random) % (units - first)) * race.m.unit;
	return race.m.r.base + first * race.m.unit;
}

/* A child's memory does not change with the parent's, nor the other way round. */
static unsigned long step_fork(uint64_t *random)
{
	const struct region *r = &race.m.r;
	pid_t pid = must(fork());

	(void)random;
	if (!pid) {
		uint64_t *seen = calloc(r->pages, sizeof(*seen));

		if (!seen || mprotect(r->base, r->len, RW))
			_exit(2);
		for (size_t p = 0; p < r->pages; p++)
			seen[p] = *(volatile uint64_t *)word_of(p);
		usleep(200);
		for (size_t p = 0; p < r->pages; p++) {
			if (*(volatile uint64_t *)word_of(p) != seen[p])
				_exit(3);
			*(volatile uint64_t *)word_of(p) = ~0UL;
		}
		_exit(0);
	}
	reap(pid, 0);
	return 1;
}

static unsigned long step_zap(uint64_t *random)
{
	size_t len;
	void *at = part(random, &len);

	must(madvise(at, len, MADV_DONTNEED));
	return 1;
}

static const char *start_migrate(void)
{
	race.pagemap = open("/proc/self/pagemap", O_RDONLY);
	if (race.pagemap < 0)
		return "no /proc/self/pagemap";
	return access("/proc/sys/vm/compact_memory", W_OK) ?
	       "the kernel can't compact memory" : NULL;
}

/*
 * Compaction moves pages to the end of memory. It has a reason if free memory is
 * in single pages, and room: this makes both. Returns how many of the pages that
 * are being written have moved.
 */
static unsigned long step_migrate(uint64_t *random)
{
	const size_t len = 64 * MIB;
	const struct region *r = &race.m.r;
	size_t pages = r->pages;
	uint64_t *before = calloc(2 * pages, sizeof(*before));
	uint64_t *after = before + pages;
	unsigned long moved = 0;
	unsigned char *filler;

	(void)random;
	filler = mmap(NULL, len, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!before || filler == MAP_FAILED)
		fail("out of memory");
	must(madvise(filler, len, MADV_NOHUGEPAGE));
	for (size_t at = 0; at < len; at += wl.page)
		filler[at] = 1;
	for (size_t at = 0; at < len; at += 2 * wl.page)
		must(madvise(filler + at, wl.page, MADV_DONTNEED));
	pagemap_read(race.pagemap, r->base, pages, before);
	file_write("/proc/sys/vm/compact_memory", "1");
	pagemap_read(race.pagemap, r->base, pages, after);
	for (size_t p = 0; p < pages; p++)
		moved += before[p] && after[p] && before[p] != after[p];
	must(munmap(filler, len));
	free(before);
	return moved;
}

static void stop_migrate(void)
{
	close(race.pagemap);
}

static const char *start_uffd(void)
{
	struct uffdio_api api = {
		.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};
	struct uffdio_register reg = {
		.range = { (uintptr_t)race.m.r.base, race.m.r.len },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	race.uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (race.uffd < 0)
		return "the kernel has no userfaultfd";
	if (ioctl(race.uffd, UFFDIO_API, &api)) {
		close(race.uffd);
		return "no userfaultfd write protection on this architecture";
	}
	must(ioctl(race.uffd, UFFDIO_REGISTER, &reg));
	race.events = 0;
	return NULL;
}

static void uffd_protect(void *at, size_t len, bool on)
{
	struct uffdio_writeprotect wp = {
		.range = { (uintptr_t)at, len },
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	must(ioctl(race.uffd, UFFDIO_WRITEPROTECT, &wp));
}

/* Let all writers go on that wait; returns how many there were. */
static unsigned long uffd_resolve(void)
{
	unsigned long n = 0;
	struct uffd_msg msg;

	while (read(race.uffd, &msg, sizeof(msg)) == sizeof(msg)) {
		uintptr_t at = msg.arg.pagefault.address;

		uffd_protect((void *)(at & -wl.page), wl.page, false);
		n++;
	}
	race.events += n;
	return n;
}

static unsigned long step_uffd(uint64_t *random)
{
	size_t len;
	void *at = part(random, &len);

	if (!race.stop)
		uffd_protect(at, len, true);
	sched_yield();
	return uffd_resolve();
}

static _Atomic bool uffd_done;

static void *uffd_main(void *arg)
{
	(void)arg;
	while (!uffd_done) {
		uffd_resolve();
		sched_yield();
	}
	return NULL;
}

/* mprotect() does not undo it: the first write to each page is an event. */
static void stop_uffd(void)
{
	const struct region *r = &race.m.r;
	pthread_t thread;

	must(mprotect(r->base, r->len, RW));
	uffd_protect(r->base, r->len, true);
	must(mprotect(r->base, r->len, PROT_READ));
	must(mprotect(r->base, r->len, PROT_NONE));
	must(mprotect(r->base, r->len, RW));
	race.events = 0;
	uffd_done = false;
	start_thread(&thread, uffd_main, NULL);
	for (size_t p = 0; p < r->pages; p++)
		*(volatile uint64_t *)word_of(p) = race.word[p];
	uffd_done = true;
	pthread_join(thread, NULL);
	close(race.uffd);
	if (race.events != r->pages)
		fail("writes to %zu write-protected pages were %lu events",
		     r->pages, race.events);
}

static const struct race races[] = {
	{ "fork", PRIVATE, false, NULL, step_fork, NULL },
	{ "zap", PRIVATE, true, NULL, step_zap, NULL },
	{ "zap", SHARED, false, NULL, step_zap, NULL },
	{ "migrate", PRIVATE, false, start_migrate, step_migrate,
	  stop_migrate },
	{ "migrate", SHARED, false, start_migrate, step_migrate,
	  stop_migrate },
	{ "uffd-wp", PRIVATE, false, start_uffd, step_uffd, stop_uffd },
};

/* Writers have to get on, or there is nothing to lose. */
static void await_accesses(unsigned long n)
{
	unsigned long end = race.written + race.refused + n;

	while (race.written + race.refused < end)
		sched_yield();
}

static void batch(void)
{
	pthread_t writers[WRITERS], disturber;
	const struct region *r = &race.m.r;
	uint64_t value;

	race.stop = race.writers_gone = false;
	for (uintptr_t i = 0; i < WRITERS; i++)
		start_thread(&writers[i], writer_main, (void *)i);
	start_thread(&disturber, disturber_main, NULL);
	for (unsigned long i = 0; i < opt.rounds / BATCHES; i++) {
		/* Each second time, something can be written again. */
		int bits = i % 2 ? RW :
			   prots[draw(&opt.random) % ARRAY_SIZE(prots)].bits;
		size_t len;
		void *at = part(&opt.random, &len);

		must(mprotect(at, len, bits));
		await_accesses(32);
	}
	must(mprotect(r->base, r->len, RW));
	race.stop = true;
	for (unsigned int i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	race.writers_gone = true;
	pthread_join(disturber, NULL);
	for (size_t p = 0; p < r->pages; p++) {
		memcpy(&value, word_of(p), sizeof(value));
		compare(p, value);
	}
}

/* Returns why it can't be done here. */
static const char *race_on(const struct kind *kind, const char *name)
{
	const char *why = memory_missing(kind, race.race->mapping);

	for (int i = 0; !why && i < BATCHES; i++) {
		memory_make(&race.m, kind, race.race->mapping);
		race.word = calloc(race.m.r.pages, sizeof(*race.word));
		if (!race.word)
			fail("out of memory");
		if (race.race->start)
			why = race.race->start();
		if (!why) {
			batch();
			if (race.race->stop)
				race.race->stop();
			/* What nobody wrote to is what it was. */
			if (!race.race->zeroes)
				region_check(&race.m.r);
		}
		free(race.word);
		memory_free(&race.m);
	}
	if (why)
		return why;
	printf("protect %s: %lu changes, %lu writes, %lu refused, %lu words compared, disturbed %lu times: %s\n",
	       name, opt.rounds / BATCHES * BATCHES, race.written, race.refused,
	       race.compared, race.disturbed,
	       race.written && race.refused && race.disturbed ? "ok" :
	       "FAILED: nothing is shown");
	fflush(stdout);
	if (!race.written || !race.refused || !race.disturbed)
		exit(EXIT_FAIL);
	opt.ran++;
	return NULL;
}

static void race_all(void)
{
	catch_faults();
	for (size_t i = 0; i < ARRAY_SIZE(races) * ARRAY_SIZE(kinds); i++) {
		const struct kind *kind = &kinds[i % ARRAY_SIZE(kinds)];
		const char *why;

		race.race = &races[i / ARRAY_SIZE(kinds)];
		/* Pages of hugetlb are neither zapped nor migrated like that. */
		if (kind->hugetlb)
			continue;
		snprintf(wl.step, sizeof(wl.step), "race %s %s/%s",
			 race.race->name, kind->name,
			 mappings[race.race->mapping]);
		if (!wanted(wl.step + strlen("race ")))
			continue;
		race.written = race.refused = race.compared = 0;
		race.disturbed = 0;
		why = race_on(kind, wl.step);
		if (why)
			skip(wl.step, "%s", why);
	}
}

/* --- entry ---------------------------------------------------------------- */

__attribute__((noreturn))
static void usage(void)
{
	fprintf(stderr,
		"usage: protect [--late | --race] [--only=GLOB] [--rounds=N] [--seed=N] [--spin]\n"
		"  --only    kinds of memory: base, 64k, 2m, hugetlb-64k, hugetlb-2m, with\n"
		"            /private, /shared, /file in the matrix, and as they are\n"
		"            printed for --race\n"
		"  --rounds  per downgrade (--late, 100), or changes (--race, 2000)\n"
		"  --spin    threads that wait do not sleep (--late)\n");
	exit(EXIT_USAGE);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "late", no_argument, NULL, 'l' },
		{ "race", no_argument, NULL, 'r' },
		{ "only", required_argument, NULL, 'o' },
		{ "rounds", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "spin", no_argument, NULL, 'w' },
		{ 0 }
	};
	uint64_t seed = 1;
	int c, mode = 0;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'l' || c == 'r')
			mode = c;
		else if (c == 'o')
			opt.glob = optarg;
		else if (c == 'n')
			opt.rounds = strtoul(optarg, NULL, 0);
		else if (c == 's')
			seed = strtoul(optarg, NULL, 0);
		else if (c == 'w')
			opt.spin = true;
		else
			usage();
	}
	if (optind != argc || !seed)
		usage();
	if (!opt.rounds)
		opt.rounds = mode == 'l' ? 100 : 2000;
	opt.random = seeded(seed);
	stress_init("protect");
	if (geteuid())
		skip_all("needs root, for folio sizes and page frame numbers");
	catch_probes();
	stay_on_cpu(0);
	printf("protect: %ld CPUs, page %zu, seed %lu\n",
	       sysconf(_SC_NPROCESSORS_ONLN), wl.page, (unsigned long)seed);
	if (mode == 'l')
		late();
	else if (mode == 'r')
		race_all();
	else
		matrix();
	printf("protect: %u kinds of memory ok\n", opt.ran);
	return opt.ran ? EXIT_SUCCESS : EXIT_SKIP;
}
