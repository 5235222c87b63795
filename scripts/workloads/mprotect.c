// SPDX-License-Identifier: GPL-2.0
// mprotect of populated memory: each change, folio kind, shape and mapping kind
// timeout: 600

#include "workload.h"

#define RO	PROT_READ
#define RW	(PROT_READ | PROT_WRITE)
#define RX	(PROT_READ | PROT_EXEC)

enum shape {
	WHOLE,
	/* From the second page to the last but one. */
	MISALIGNED,
	/* A call for one page of each 64 KiB block. */
	ONE_PER_BLOCK,
};

enum mapping { PRIVATE, SHARED, FILE_BACKED };

/* From read-write to @prot, and back. */
struct change {
	int prot;
	enum shape shape;
	enum mapping mapping;
};

static size_t pages_per_block(void)
{
	return wl.page < BLOCK ? BLOCK / wl.page : 1;
}

/* The page of a block that ONE_PER_BLOCK changes: not one at its edge. */
static size_t page_in_block(void)
{
	return pages_per_block() > 5 ? 5 : 0;
}

static bool selected(const struct region *r, enum shape shape, size_t page)
{
	switch (shape) {
	case MISALIGNED:
		return page > 0 && page < r->pages - 1;
	case ONE_PER_BLOCK:
		return page % pages_per_block() == page_in_block();
	default:
		return true;
	}
}

/* The measured operation. Returns how many calls failed. */
static unsigned int change(const struct region *r, enum shape shape, int prot)
{
	size_t block = pages_per_block() * wl.page;
	unsigned int bad = 0;

	switch (shape) {
	case WHOLE:
		return !!mprotect(r->base, r->len, prot);
	case MISALIGNED:
		return !!mprotect(r->base + wl.page, r->len - 2 * wl.page,
				  prot);
	case ONE_PER_BLOCK:
		for (size_t at = page_in_block() * wl.page; at < r->len;
		     at += block)
			bad += !!mprotect(r->base + at, wl.page, prot);
	}
	return bad;
}

static size_t units(const struct region *r, enum shape shape)
{
	switch (shape) {
	case MISALIGNED:
		return r->pages - 2;
	case ONE_PER_BLOCK:
		return r->pages / pages_per_block();
	default:
		return r->pages;
	}
}

/* Both ends, and in each block the page that changes and its neighbour. */
static void check_access(const struct region *r, enum shape shape, int prot)
{
	size_t step = pages_per_block();

	for (size_t p = 0; p < r->pages; p++) {
		size_t in = p % step;

		if (p > 1 && p < r->pages - 2 && in != page_in_block() &&
		    in != page_in_block() + 1)
			continue;
		region_probe(r, p, selected(r, shape, p) ? prot : RW);
	}
}

static void run(const struct wl_case *c)
{
	const struct change *ch = c->arg;
	struct region r = { .shared = ch->mapping == SHARED };
	unsigned int bad;

	if (ch->mapping == FILE_BACKED) {
		r.fd = memfd_create("workload", MFD_CLOEXEC);
		if (r.fd < 0)
			return case_skip(c, "no memfd_create()");
	}
	region_make(c, &r);

	step_begin(c, 0);
	bad = change(&r, ch->shape, ch->prot);
	step_end(units(&r, ch->shape));
	if (bad)
		fail("%u calls failed", bad);
	/* First of all, while a translation that is not gone can still serve. */
	check_access(&r, ch->shape, ch->prot);
	region_expect(&r, ch->shape == WHOLE ? ch->prot : -1);
	if (ch->prot & PROT_READ)
		region_check(&r);

	step_begin(c, 1);
	bad = change(&r, ch->shape, RW);
	step_end(units(&r, ch->shape));
	if (bad)
		fail("%u calls failed", bad);
	region_expect(&r, RW);
	region_check(&r);
	region_write(&r, 1);
	region_written(&r, 1);
	check_access(&r, ch->shape, RW);
	region_expect(&r, RW);
	if (r.fd) {
		region_check_file(&r);
		close(r.fd);
	}
	region_free(&r);
}

/*
 * A hole ends the call with ENOMEM: what lies before it has changed, what lies
 * behind it has not.
 */
static void run_hole(const struct wl_case *c)
{
	struct region r = { 0 };
	size_t hole;
	int err;

	region_make(c, &r);
	hole = r.pages / 2 + 1;
	must(munmap(region_page(&r, hole), wl.page));

	step_begin(c, 0);
	err = mprotect(r.base, r.len, RO) ? errno : 0;
	step_end(hole);
	if (err != ENOMEM)
		fail("errno %d, expected %d", err, ENOMEM);
	for (size_t p = 0; p < r.pages; p++)
		if (p != hole)
			region_probe(&r, p, p < hole ? RO : RW);
	if (probe(region_page(&r, hole), PROT_READ) != SEGV_MAPERR)
		fail("the hole is mapped");
	region_free(&r);
}

#define CHANGE(p, s, m)	\
	(&(const struct change){ .prot = p, .shape = s, .mapping = m })
#define PAIR(f, p, there, back, tail, s, m)				\
	{ .step = { there "/%" tail, back "/%" tail }, .folio = f,	\
	  .run = run, .arg = CHANGE(p, s, m) }
#define READ_ONLY(f, tail, s, m)	\
	PAIR(f, RO, "rw-ro", "ro-rw", tail, s, m)
#define NO_ACCESS(f, tail, s, m)	\
	PAIR(f, PROT_NONE, "rw-none", "none-rw", tail, s, m)
#define EXECUTABLE(f, tail, s, m)	\
	PAIR(f, RX, "rw-rx", "rx-rw", tail, s, m)

static const struct wl_case cases[] = {
	READ_ONLY(FOLIO_BASE, "", WHOLE, PRIVATE),
	NO_ACCESS(FOLIO_BASE, "", WHOLE, PRIVATE),
	EXECUTABLE(FOLIO_BASE, "", WHOLE, PRIVATE),
	READ_ONLY(FOLIO_64K, "", WHOLE, PRIVATE),
	NO_ACCESS(FOLIO_64K, "", WHOLE, PRIVATE),
	EXECUTABLE(FOLIO_64K, "", WHOLE, PRIVATE),
	READ_ONLY(FOLIO_2M_PTE, "", WHOLE, PRIVATE),
	NO_ACCESS(FOLIO_2M_PTE, "", WHOLE, PRIVATE),
	EXECUTABLE(FOLIO_2M_PTE, "", WHOLE, PRIVATE),
	READ_ONLY(FOLIO_2M, "", WHOLE, PRIVATE),
	NO_ACCESS(FOLIO_2M, "", WHOLE, PRIVATE),
	EXECUTABLE(FOLIO_2M, "", WHOLE, PRIVATE),
	READ_ONLY(FOLIO_BASE, "/misaligned", MISALIGNED, PRIVATE),
	READ_ONLY(FOLIO_64K, "/misaligned", MISALIGNED, PRIVATE),
	READ_ONLY(FOLIO_BASE, "/one-per-block", ONE_PER_BLOCK, PRIVATE),
	READ_ONLY(FOLIO_64K, "/one-per-block", ONE_PER_BLOCK, PRIVATE),
	READ_ONLY(FOLIO_BASE, "/shared", WHOLE, SHARED),
	NO_ACCESS(FOLIO_BASE, "/shared", WHOLE, SHARED),
	READ_ONLY(FOLIO_BASE, "/file", WHOLE, FILE_BACKED),
	NO_ACCESS(FOLIO_BASE, "/file", WHOLE, FILE_BACKED),
	{ .step = { "rw-ro/%/hole" }, .folio = FOLIO_BASE, .run = run_hole },
	{ .step = { "rw-ro/%/hole" }, .folio = FOLIO_64K, .run = run_hole },
};

int main(int argc, char **argv)
{
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 64, 1);
}
