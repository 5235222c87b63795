// SPDX-License-Identifier: GPL-2.0
/*
 * vmas - random operations on an address space, against a model of it
 *
 * A history is a list of operations on an arena of some pages: mmap, munmap,
 * mprotect, mremap, madvise, fork, reads and writes. A model knows for each page
 * whether it is mapped, what may be done to it and what it holds; a system call
 * that returns something else, an access that works and should not (or the other
 * way round), contents that differ, and a /proc/self/maps that disagrees are
 * failures. Operations are drawn without a look at the state, so a history can be
 * made shorter and run again: that of a failure is, as far as it goes, and is
 * printed.
 *
 * Exit status: 0 all is well, 1 a history failed, 2 usage.
 */
#include "stress.h"

#define PAGES		64
#define MAX_OPS		1000
/* What a contpte block spans, with 4 KiB pages */
#define BLOCK_PAGES	16

enum kind { ANON, SHARED_FILE, PRIVATE_FILE, NR_KINDS };

static const char * const kinds[] = { "anon", "shared", "file" };

static const struct prot {
	const char *name;
	int bits;
} prots[] = {
	{ "none", PROT_NONE },
	{ "r", PROT_READ },
	{ "rw", PROT_READ | PROT_WRITE },
	{ "rx", PROT_READ | PROT_EXEC },
	{ "rwx", PROT_READ | PROT_WRITE | PROT_EXEC },
	/* What there is most of, so that there is something to lose */
	{ "rw", PROT_READ | PROT_WRITE },
	{ "rw", PROT_READ | PROT_WRITE },
	{ "rw", PROT_READ | PROT_WRITE },
};

#define RW	2

/* Advice that must not change what memory holds, nor what may be done to it */
static const struct advice {
	const char *name;
	int value;
} advices[] = {
	{ "cold", MADV_COLD },
	{ "pageout", MADV_PAGEOUT },
	{ "hugepage", MADV_HUGEPAGE },
	{ "nohugepage", MADV_NOHUGEPAGE },
	{ "populate-read", MADV_POPULATE_READ },
	{ "mergeable", MADV_MERGEABLE },
};

enum op_kind {
	OP_WRITE, OP_READ, OP_MMAP, OP_MUNMAP, OP_MPROTECT, OP_MOVE, OP_GROW,
	OP_DONTNEED, OP_POPULATE_WRITE, OP_ADVICE, OP_FORK, OP_HOLD, OP_REAP,
	NR_OPS
};

/* How often each comes, of the sum of all */
static const struct {
	const char *name;
	unsigned int weight;
} op_kinds[] = {
	[OP_WRITE] = { "write", 20 },
	[OP_READ] = { "read", 12 },
	[OP_MMAP] = { "mmap", 10 },
	[OP_MUNMAP] = { "munmap", 2 },
	[OP_MPROTECT] = { "mprotect", 30 },
	[OP_MOVE] = { "mremap-move", 5 },
	[OP_GROW] = { "mremap-grow", 4 },
	[OP_DONTNEED] = { "dontneed", 4 },
	[OP_POPULATE_WRITE] = { "populate-write", 3 },
	[OP_ADVICE] = { "advise", 5 },
	[OP_FORK] = { "fork", 3 },
	[OP_HOLD] = { "fork-and-hold", 3 },
	[OP_REAP] = { "reap", 3 },
};

/**
 * struct op - one operation
 * @kind: what to do
 * @first: first page of the arena
 * @n: number of pages; OP_MOVE: at most
 * @to: OP_MOVE: where to; OP_MMAP: first page of the file
 * @n_more: OP_GROW: by how many pages
 * @what: kind of mapping, or index of the advice
 * @prot: index into prots[]
 * @value: OP_WRITE: of the first page, one more for each that follows
 */
struct op {
	enum op_kind kind;
	unsigned int first, n, to, n_more, what, prot;
	uint64_t value;
};

/**
 * struct page - what the model knows of a page of the arena
 * @mapped: whether it is
 * @kind: how
 * @prot: what may be done to it
 * @index: page of the file
 * @own: it has contents of its own, and these are
 * @value: this
 */
struct page {
	bool mapped;
	enum kind kind;
	int prot;
	unsigned int index;
	bool own;
	uint64_t value;
};

struct model {
	struct page page[PAGES];
	uint64_t file[PAGES];
};

/* What a history's process tells the one that runs histories */
struct report {
	unsigned int step;
	bool failed;
	char what[200];
	unsigned long ops[NR_OPS], skipped, accesses, refused;
};

static struct {
	unsigned char *base;
	int file;
	struct model m;
	struct report *report;
	sigjmp_buf env;
	int code;
	/* A child that waits, with memory as it was at its birth */
	pid_t held;
	int release;
} s;

/* What the kernel did is not what the model says: this history ends. */
__attribute__((noreturn, format(printf, 1, 2)))
static void disagree(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s.report->what, sizeof(s.report->what), fmt, ap);
	va_end(ap);
	s.report->failed = true;
	_exit(EXIT_FAIL);
}

static void expect(const char *what, long ret, int want)
{
	int err = ret < 0 ? errno : 0;

	if (err != want)
		disagree("%s: %s, expected: %s", what, strerror(err),
			 strerror(want));
}

static unsigned char *page_at(unsigned int page)
{
	return s.base + page * wl.page;
}

/* --- accesses ------------------------------------------------------------- */

static void on_access(int sig, siginfo_t *info, void *context)
{
	(void)context;
	s.code = sig == SIGSEGV ? info->si_code : -sig;
	siglongjmp(s.env, 1);
}

/* A page holds its value in the first word, and a hash of it in the last. */
static uint64_t hash(uint64_t value)
{
	return value * 0x9e3779b97f4a7c15ULL;
}

/* The si_code of the fault that the access took, 0 if it took none */
static int access_page(unsigned int page, bool write, uint64_t *first,
		       uint64_t *last)
{
	volatile uint64_t *word = (uint64_t *)page_at(page);
	size_t end = wl.page / sizeof(*word) - 1;

	if (sigsetjmp(s.env, 0))
		return s.code;
	if (write) {
		word[0] = *first;
		word[end] = *last;
	} else {
		*first = word[0];
		*last = word[end];
	}
	return 0;
}

static uint64_t value_of(const struct model *m, const struct page *p)
{
	if (p->own)
		return p->value;
	return p->kind == ANON ? 0 : m->file[p->index];
}

static void store_value(struct model *m, struct page *p, uint64_t value)
{
	if (p->kind == SHARED_FILE) {
		m->file[p->index] = value;
	} else {
		p->own = true;
		p->value = value;
	}
}

static int want_code(const struct page *p, int bit)
{
	if (!p->mapped)
		return SEGV_MAPERR;
	return p->prot & bit ? 0 : SEGV_ACCERR;
}

static void check_page(unsigned int page)
{
	const struct page *p = &s.m.page[page];
	int want = want_code(p, PROT_READ), code;
	uint64_t first = 0, last = 0, value;

	code = access_page(page, false, &first, &last);
	if (code != want)
		disagree("read of page %u: si_code %d, expected %d", page, code,
			 want);
	s.report->accesses++;
	s.report->refused += code != 0;
	if (code)
		return;
	value = value_of(&s.m, p);
	if (first != value || last != hash(value))
		disagree("page %u holds %#lx and %#lx, expected %#lx and %#lx",
			 page, (unsigned long)first, (unsigned long)last,
			 (unsigned long)value, (unsigned long)hash(value));
}

static void write_page(unsigned int page, uint64_t value)
{
	struct page *p = &s.m.page[page];
	int want = want_code(p, PROT_WRITE), code;
	uint64_t last = hash(value);

	code = access_page(page, true, &value, &last);
	if (code != want)
		disagree("write to page %u: si_code %d, expected %d", page,
			 code, want);
	s.report->accesses++;
	s.report->refused += code != 0;
	if (!code)
		store_value(&s.m, p, value);
}

/* --- /proc/self/maps ------------------------------------------------------ */

struct mapping {
	uintptr_t from, to;
	char perms[5];
};

typedef void (*mapping_fn)(const struct mapping *m, void *arg);

/* Call @fn for each mapping that has to do with the arena. */
static void visit_mappings(mapping_fn fn, void *arg)
{
	uintptr_t start = (uintptr_t)s.base, end = start + PAGES * wl.page;
	FILE *f = fopen("/proc/self/maps", "r");
	char line[256];

	if (!f)
		disagree("/proc/self/maps: %s", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		struct mapping m;
		unsigned long from, to;

		if (sscanf(line, "%lx-%lx %4s", &from, &to, m.perms) != 3)
			continue;
		m.from = from;
		m.to = to;
		if (m.from < end && m.to > start)
			fn(&m, arg);
	}
	fclose(f);
}

static void fill_perms(const struct mapping *m, void *arg)
{
	char (*perms)[5] = arg;

	for (unsigned int i = 0; i < PAGES; i++)
		if ((uintptr_t)page_at(i) >= m->from &&
		    (uintptr_t)page_at(i) < m->to)
			memcpy(perms[i], m->perms, 5);
}

static void check_maps(void)
{
	char perms[PAGES][5];

	memset(perms, 0, sizeof(perms));
	visit_mappings(fill_perms, perms);
	for (unsigned int i = 0; i < PAGES; i++) {
		const struct page *p = &s.m.page[i];
		char want[5] = {
			p->prot & PROT_READ ? 'r' : '-',
			p->prot & PROT_WRITE ? 'w' : '-',
			p->prot & PROT_EXEC ? 'x' : '-',
			p->kind == SHARED_FILE ? 's' : 'p',
		};

		if (!p->mapped)
			want[0] = '\0';
		if (strcmp(perms[i], want))
			disagree("maps has `%s` for page %u, expected `%s`",
				 perms[i], i, want);
	}
}

static void check_all(void)
{
	for (unsigned int i = 0; i < PAGES; i++)
		check_page(i);
	check_maps();
}

/* The mapping that holds @addr */
struct lookup {
	uintptr_t addr;
	struct mapping found;
};

static void look(const struct mapping *m, void *arg)
{
	struct lookup *l = arg;

	if (l->addr >= m->from && l->addr < m->to)
		l->found = *m;
}

/* --- operations ----------------------------------------------------------- */

static bool all_mapped(const struct op *op, int prot)
{
	for (unsigned int i = op->first; i < op->first + op->n; i++)
		if (!s.m.page[i].mapped || (s.m.page[i].prot & prot) != prot)
			return false;
	return true;
}

static void do_mmap(const struct op *op)
{
	int prot = prots[op->prot].bits, flags = MAP_FIXED;
	void *at;

	flags |= op->what == SHARED_FILE ? MAP_SHARED : MAP_PRIVATE;
	if (op->what == ANON)
		flags |= MAP_ANONYMOUS;
	at = mmap(page_at(op->first), op->n * wl.page, prot, flags,
		  op->what == ANON ? -1 : s.file,
		  op->what == ANON ? 0 : op->to * wl.page);
	if (at != page_at(op->first))
		disagree("mmap: %s", strerror(errno));
	for (unsigned int i = 0; i < op->n; i++)
		s.m.page[op->first + i] = (struct page){
			.mapped = true, .kind = op->what, .prot = prot,
			.index = op->to + i,
		};
}

static void do_munmap(const struct op *op)
{
	expect("munmap", munmap(page_at(op->first), op->n * wl.page), 0);
	memset(&s.m.page[op->first], 0, op->n * sizeof(struct page));
}

/* What lies before a hole changes, what lies behind it does not. */
static void do_mprotect(const struct op *op)
{
	int prot = prots[op->prot].bits, want = 0;
	long ret = mprotect(page_at(op->first), op->n * wl.page, prot);

	for (unsigned int i = op->first; i < op->first + op->n; i++) {
		if (!s.m.page[i].mapped) {
			want = ENOMEM;
			break;
		}
		s.m.page[i].prot = prot;
	}
	expect("mprotect", ret, want);
}

/*
 * The pages from @first to the end of the mapping that it is in. Where one
 * mapping ends and another one begins, only the kernel knows.
 */
static unsigned int left_in_mapping(unsigned int first)
{
	struct lookup l = { .addr = (uintptr_t)page_at(first) };

	visit_mappings(look, &l);
	return l.found.to ? (l.found.to - l.addr) / wl.page : 0;
}

/* As much of the range as lies within one mapping */
static bool do_move(const struct op *op)
{
	unsigned int n = left_in_mapping(op->first);
	struct page moved[PAGES];

	if (n > op->n)
		n = op->n;
	if (!n || (op->to < op->first + n && op->first < op->to + n))
		return false;
	if (mremap(page_at(op->first), n * wl.page, n * wl.page,
		   MREMAP_MAYMOVE | MREMAP_FIXED, page_at(op->to)) !=
	    page_at(op->to))
		disagree("mremap: %s", strerror(errno));
	memcpy(moved, &s.m.page[op->first], n * sizeof(struct page));
	memset(&s.m.page[op->first], 0, n * sizeof(struct page));
	memcpy(&s.m.page[op->to], moved, n * sizeof(struct page));
	return true;
}

/* In place, at the end of a mapping with nothing behind it */
static bool do_grow(const struct op *op)
{
	unsigned int n = left_in_mapping(op->first), end = op->first + n;
	struct page last;

	if (!n || end + op->n_more > PAGES)
		return false;
	last = s.m.page[end - 1];
	if (last.kind != ANON && last.index + op->n_more >= PAGES)
		return false;
	for (unsigned int i = end; i < end + op->n_more; i++)
		if (s.m.page[i].mapped)
			return false;
	if (mremap(page_at(op->first), n * wl.page,
		   (n + op->n_more) * wl.page, 0) != page_at(op->first))
		disagree("mremap in place: %s", strerror(errno));
	for (unsigned int i = 0; i < op->n_more; i++)
		s.m.page[end + i] = (struct page){
			.mapped = true, .kind = last.kind, .prot = last.prot,
			.index = last.index + i + 1,
		};
	return true;
}

static void do_dontneed(const struct op *op)
{
	long ret = madvise(page_at(op->first), op->n * wl.page, MADV_DONTNEED);

	expect("MADV_DONTNEED", ret, all_mapped(op, 0) ? 0 : ENOMEM);
	for (unsigned int i = op->first; i < op->first + op->n; i++)
		s.m.page[i].own = false;
}

/* Private pages get contents of their own, which are the same. */
static bool do_populate_write(const struct op *op)
{
	if (!all_mapped(op, PROT_WRITE))
		return false;
	expect("MADV_POPULATE_WRITE",
	       madvise(page_at(op->first), op->n * wl.page,
		       MADV_POPULATE_WRITE), 0);
	for (unsigned int i = op->first; i < op->first + op->n; i++) {
		struct page *p = &s.m.page[i];

		store_value(&s.m, p, value_of(&s.m, p));
	}
	return true;
}

static void do_wait(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		disagree("waitpid: %s", strerror(errno));
	/* A child that fails has said why. */
	if (status && s.report->failed)
		_exit(EXIT_FAIL);
	if (status)
		disagree("a child ended with status %#x", status);
}

/*
 * A child has the same memory, and what it writes is seen by the parent only
 * where memory is shared.
 */
static void do_fork(const struct op *op)
{
	uint64_t value = op->value;
	pid_t pid = fork();

	if (pid < 0)
		disagree("fork: %s", strerror(errno));
	if (!pid) {
		check_all();
		for (unsigned int i = op->first; i < op->first + op->n; i++)
			write_page(i, value++);
		check_all();
		_exit(0);
	}
	do_wait(pid);
	for (unsigned int i = op->first; i < op->first + op->n; i++, value++)
		if (s.m.page[i].mapped && s.m.page[i].kind == SHARED_FILE &&
		    s.m.page[i].prot & PROT_WRITE)
			s.m.file[s.m.page[i].index] = value;
}

/* A child that lives on for some operations. Its own pages must not change. */
static bool do_hold(void)
{
	int ends[2];
	char byte;

	if (s.held)
		return false;
	if (pipe(ends))
		disagree("pipe: %s", strerror(errno));
	s.held = fork();
	if (s.held < 0)
		disagree("fork: %s", strerror(errno));
	if (!s.held) {
		close(ends[1]);
		if (read(ends[0], &byte, 1) != 0)
			disagree("a pipe with something in it");
		for (unsigned int i = 0; i < PAGES; i++) {
			const struct page *p = &s.m.page[i];

			/* Files may have changed meanwhile */
			if (!p->mapped || p->kind == ANON || p->own)
				check_page(i);
		}
		check_maps();
		_exit(0);
	}
	close(ends[0]);
	s.release = ends[1];
	return true;
}

static bool do_reap(void)
{
	if (!s.held)
		return false;
	close(s.release);
	do_wait(s.held);
	s.held = 0;
	return true;
}

/* Returns false if there was nothing to do. */
static bool do_op(const struct op *op)
{
	switch (op->kind) {
	case OP_WRITE:
		for (unsigned int i = 0; i < op->n; i++)
			write_page(op->first + i, op->value + i);
		return true;
	case OP_READ:
		for (unsigned int i = 0; i < op->n; i++)
			check_page(op->first + i);
		return true;
	case OP_MMAP:
		do_mmap(op);
		return true;
	case OP_MUNMAP:
		do_munmap(op);
		return true;
	case OP_MPROTECT:
		do_mprotect(op);
		return true;
	case OP_MOVE:
		return do_move(op);
	case OP_GROW:
		return do_grow(op);
	case OP_DONTNEED:
		do_dontneed(op);
		return true;
	case OP_POPULATE_WRITE:
		return do_populate_write(op);
	case OP_ADVICE:
		/* It may be refused, but it must do no harm. */
		return !madvise(page_at(op->first), op->n * wl.page,
				advices[op->what].value);
	case OP_FORK:
		do_fork(op);
		return true;
	case OP_HOLD:
		return do_hold();
	case OP_REAP:
		return do_reap();
	default:
		disagree("no such operation");
	}
}

/* --- histories ------------------------------------------------------------ */

static void draw_range(uint64_t *random, unsigned int *first, unsigned int *n)
{
	*first = draw(random) % PAGES;
	*n = 1 + draw(random) % (PAGES / 2);
	/* Whole blocks, each second time */
	if (draw(random) % 2) {
		*first -= *first % BLOCK_PAGES;
		*n += -*n % BLOCK_PAGES;
	}
	if (*n > PAGES - *first)
		*n = PAGES - *first;
}

static struct op draw_op(uint64_t *random)
{
	unsigned int sum = 0, at;
	struct op op = { 0 };

	for (int i = 0; i < NR_OPS; i++)
		sum += op_kinds[i].weight;
	at = draw(random) % sum;
	while (at >= op_kinds[op.kind].weight)
		at -= op_kinds[op.kind++].weight;
	draw_range(random, &op.first, &op.n);
	op.to = draw(random) % (PAGES - op.n + 1);
	/* Blocks stay blocks, each second time */
	if (draw(random) % 2)
		op.to -= op.to % BLOCK_PAGES;
	op.n_more = 1 + draw(random) % 8;
	op.what = draw(random) % (op.kind == OP_MMAP ? NR_KINDS :
				  ARRAY_SIZE(advices));
	op.prot = draw(random) % ARRAY_SIZE(prots);
	op.value = draw(random);
	return op;
}

static void print_op(const struct op *op)
{
	printf("  %s", op_kinds[op->kind].name);
	if (op->kind == OP_GROW)
		printf(" what begins at page %u, to its end,", op->first);
	else if (op->kind != OP_HOLD && op->kind != OP_REAP)
		printf(" pages %u-%u", op->first, op->first + op->n - 1);
	if (op->kind == OP_MMAP)
		printf(" %s", kinds[op->what]);
	if (op->kind == OP_MMAP && op->what != ANON)
		printf(" from page %u of the file", op->to);
	if (op->kind == OP_MMAP || op->kind == OP_MPROTECT)
		printf(" %s", prots[op->prot].name);
	if (op->kind == OP_MOVE)
		printf(" (what is one mapping) to page %u", op->to);
	if (op->kind == OP_GROW)
		printf(" by %u pages", op->n_more);
	if (op->kind == OP_ADVICE)
		printf(" %s", advices[op->what].name);
	printf("\n");
}

/* In a process of its own; the arena is private memory that nobody has touched. */
static void run_ops(const struct op *ops, unsigned int n)
{
	const struct op all = { .n = PAGES, .what = ANON, .prot = RW };
	struct sigaction action = {
		.sa_sigaction = on_access,
		.sa_flags = SA_SIGINFO | SA_NODEFER,
	};

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	alarm(120);
	s.file = memfd_create("vmas", 0);
	if (s.file < 0 || ftruncate(s.file, PAGES * wl.page))
		disagree("no file in memory: %s", strerror(errno));
	do_mmap(&all);
	for (unsigned int i = 0; i < n; i++) {
		s.report->step = i;
		if (do_op(&ops[i]))
			s.report->ops[ops[i].kind]++;
		else
			s.report->skipped++;
	}
	s.report->step = n;
	check_all();
	do_reap();
	_exit(0);
}

/* Whether the model and the kernel agreed; *s.report has the rest. */
static bool history_is_good(const struct op *ops, unsigned int n)
{
	int status;
	pid_t pid;

	s.report->failed = false;
	pid = must(fork());
	if (!pid)
		run_ops(ops, n);
	must(waitpid(pid, &status, 0));
	if (status && !s.report->failed) {
		snprintf(s.report->what, sizeof(s.report->what),
			 "the process ended with status %#x", status);
		s.report->failed = true;
	}
	return !s.report->failed;
}

/* Leave out what the failure does not need, large pieces first. */
static unsigned int shorten(struct op *ops, unsigned int n)
{
	static struct op fewer[MAX_OPS];

	/* What comes after the operation that failed has no part in it. */
	if (s.report->step < n)
		n = s.report->step + 1;
	for (unsigned int piece = n / 2; piece; piece /= 2) {
		for (unsigned int at = 0; at + piece <= n; ) {
			memcpy(fewer, ops, at * sizeof(*ops));
			memcpy(fewer + at, ops + at + piece,
			       (n - at - piece) * sizeof(*ops));
			if (history_is_good(fewer, n - piece)) {
				at += piece;
				continue;
			}
			n -= piece;
			memcpy(ops, fewer, n * sizeof(*ops));
		}
	}
	return n;
}

static void report_failure(struct op *ops, unsigned int n, uint64_t seed,
			   unsigned long history)
{
	char first[sizeof(s.report->what)];

	memcpy(first, s.report->what, sizeof(first));
	printf("vmas: FAILED: seed %lu, history %lu, operation %u: %s\n",
	       (unsigned long)seed, history, s.report->step, first);
	fflush(stdout);
	n = shorten(ops, n);
	if (history_is_good(ops, n)) {
		printf("vmas: it does not fail each time; the last that did:\n");
		memcpy(s.report->what, first, sizeof(first));
	}
	printf("vmas: %u operations are enough for: %s\n", n, s.report->what);
	for (unsigned int i = 0; i < n; i++)
		print_op(&ops[i]);
}

/* Folios of 64 KiB for what does not say otherwise, where the kernel has them */
static void allow_blocks(void)
{
	static const char * const files[] = { "enabled", "shmem_enabled" };
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		int fd;

		snprintf(path, sizeof(path), THP_64K "%s", files[i]);
		fd = open(path, O_WRONLY);
		if (fd < 0 || write(fd, "always", 6) != 6)
			printf("vmas: no %s: pages stay small there\n", path);
		if (fd >= 0)
			close(fd);
	}
}

static void reserve_arena(void)
{
	size_t len = PAGES * wl.page;

	/* Aligned to its size, with nothing else on either side */
	s.base = mmap(NULL, 4 * len, PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s.base == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	must(munmap(s.base, 4 * len));
	s.base += len + (-(uintptr_t)s.base & (len - 1));
}

__attribute__((noreturn))
static void usage(void)
{
	fprintf(stderr,
		"usage: vmas [--seed=N] [--rounds=N] [--history=N] [--ops=N]\n"
		"  --rounds     how many histories to run (300)\n"
		"  --history    only that one, counted from 0\n"
		"  --ops        operations in each (80, at most %d)\n",
		MAX_OPS);
	exit(EXIT_USAGE);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'n' },
		{ "history", required_argument, NULL, 'h' },
		{ "ops", required_argument, NULL, 'o' },
		{ 0 }
	};
	unsigned long histories = 300, only = ~0UL, ran = 0, n = 80;
	static struct op ops[MAX_OPS];
	uint64_t seed = 1;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		unsigned long value = optarg ? strtoul(optarg, NULL, 0) : 0;

		if (c == 's')
			seed = value;
		else if (c == 'n')
			histories = value;
		else if (c == 'h')
			only = value;
		else if (c == 'o')
			n = value;
		else
			usage();
	}
	if (optind != argc || !seed || !histories || !n || n > MAX_OPS)
		usage();
	stress_init("vmas");
	s.report = mmap(NULL, sizeof(*s.report), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s.report == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	allow_blocks();
	reserve_arena();
	printf("vmas: %d pages of %zu, seed %lu, %lu histories of %lu operations\n",
	       PAGES, wl.page, (unsigned long)seed, histories, n);
	fflush(stdout);
	for (unsigned long h = 0; h < histories; h++) {
		uint64_t random = seeded(seed + h * 0x10001);

		if (only != ~0UL && h != only)
			continue;
		for (unsigned long i = 0; i < n; i++)
			ops[i] = draw_op(&random);
		if (!history_is_good(ops, n)) {
			report_failure(ops, n, seed, h);
			return EXIT_FAIL;
		}
		ran++;
	}
	if (!ran)
		usage();
	for (int i = 0; i < NR_OPS; i++)
		printf("%s%s %lu", i ? ", " : "vmas: ", op_kinds[i].name,
		       s.report->ops[i]);
	printf(", nothing to do %lu\nvmas: %lu histories, %lu accesses, %lu of them refused: ok\n",
	       s.report->skipped, ran, s.report->accesses,
	       s.report->refused);
	return 0;
}
