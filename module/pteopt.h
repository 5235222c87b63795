/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pteopt - a look at page tables, and the operations that change them, one by
 * one. What the parts of the module say to each other.
 */
#ifndef PTEOPT_H
#define PTEOPT_H

#include <linux/err.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/types.h>

#include "compat.h"

/* --- session.c ----------------------------------------------------------- */

/**
 * struct pteopt_file - a file in debugfs: write a request, read its answer
 * @name: of the file
 * @request: does what the text says and makes the answer; 0 or an error
 * @show: prints line @n of the answer; false if there is none
 * @release: frees the answer; may be called with NULL
 */
struct pteopt_file {
	const char *name;
	int (*request)(char *text, void **answer);
	bool (*show)(struct seq_file *seq, const void *answer, loff_t n);
	void (*release)(void *answer);
};

struct dentry;
void pteopt_file_create(struct dentry *dir, const struct pteopt_file *file);

/* --- walk.c -------------------------------------------------------------- */

extern const struct pteopt_file pteopt_walk_file, pteopt_poke_file;

/* --- ops.c --------------------------------------------------------------- */

extern const struct pteopt_file pteopt_run_file;
extern char *pteopt_helper;
int pteopt_run_init(void);
void pteopt_run_exit(void);

/* --- resolve.c, events.c ------------------------------------------------- */

#if IS_ENABLED(CONFIG_KPROBES)
void *pteopt_resolve(const char *symbol);
#else
static inline void *pteopt_resolve(const char *symbol)
{
	return ERR_PTR(-EOPNOTSUPP);
}
#endif

/* --- arch/<arch>.c ------------------------------------------------------- */

/**
 * struct pteopt_bits - what an architecture says about a present entry
 * @accessible: user space may use it; false for PROT_NONE
 * @exec: user space may execute it
 * @cont: it says that it is part of a contiguous block
 * @settled: hardware has nothing left to record in it
 */
struct pteopt_bits {
	bool accessible, exec, cont, settled;
};

bool pteopt_arch_can_update(void);
struct pteopt_bits pteopt_arch_bits(pte_t raw);
unsigned int pteopt_arch_block(void);
void pteopt_arch_install(struct mm_struct *mm, unsigned long addr, pte_t *ptep,
			 pte_t pte, unsigned int nr);
void pteopt_arch_plain(struct mm_struct *mm, unsigned long addr, pte_t *ptep);
void pteopt_arch_store(pte_t *ptep, pte_t pte);
int pteopt_arch_fold(struct mm_struct *mm, unsigned long addr, pte_t *ptep);
void pteopt_arch_icache_sync(struct folio *folio, pte_t pte);
long pteopt_arch_mprotect(void *entry, unsigned long addr, size_t len,
			  unsigned long prot);
extern const char * const pteopt_arch_mprotect_symbol;

#endif /* PTEOPT_H */
