/* SPDX-License-Identifier: GPL-2.0 */
/* Which instructions the op counter tells apart, per architecture. */
#ifndef OPCOUNT_DECODE_H
#define OPCOUNT_DECODE_H

#include <stddef.h>
#include <stdint.h>

/**
 * enum op_class - what an instruction counts as
 * @OP_NONE: nothing but an instruction
 * @OP_ATOMIC: atomic read-modify-write, or the store of a load/store-exclusive
 *	(larx/stcx.) pair; the load of the pair is %OP_NONE, so a pair counts one
 * @OP_TLBI: TLB invalidation broadcast to other CPUs
 * @OP_TLBI_LOCAL: TLB invalidation of the executing CPU only
 * @OP_DSB: barrier that waits for completion (DSB, ptesync)
 * @OP_DMB: barrier that only orders (DMB, sync, lwsync, eieio)
 * @OP_ISB: context synchronisation by instruction (ISB, isync)
 * @OP_IC: instruction cache invalidation
 * @OP_DC: data cache clean or invalidation; zeroing is not among them
 * @OP_IPI: interrupt sent to another CPU by instruction
 * @OP_MARK_START: the workload starts an interval
 * @OP_MARK_STOP: the workload ends it
 */
enum op_class {
	OP_NONE,
	OP_ATOMIC,
	OP_TLBI,
	OP_TLBI_LOCAL,
	OP_DSB,
	OP_DMB,
	OP_ISB,
	OP_IC,
	OP_DC,
	OP_IPI,
	OP_MARK_START,
	OP_MARK_STOP,
};

/**
 * struct arch - an architecture the op counter knows
 * @name: the kernel's name of it
 * @qemu_name: QEMU's name of it
 * @kernel_start: first kernel address
 * @module_start: first address where modules are loaded; 0 if they are loaded
 *	within 2 GiB of the end of the kernel image
 * @module_end: end of that range
 * @decode: class of a four-byte instruction
 */
struct arch {
	const char *name;
	const char *qemu_name;
	uint64_t kernel_start;
	uint64_t module_start;
	uint64_t module_end;
	enum op_class (*decode)(uint32_t opcode);
};

extern const struct arch archs[];
extern const size_t n_archs;

const char *op_class_name(enum op_class class);
size_t insn_size(const struct arch *arch, const uint8_t *data);
uint32_t insn_opcode(const uint8_t *data);
enum op_class insn_class(const struct arch *arch, const uint8_t *data,
			 size_t size);

#endif
