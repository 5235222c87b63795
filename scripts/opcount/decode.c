// SPDX-License-Identifier: GPL-2.0
/*
 * Instruction classes of arm64 and powerpc (Book3S-64).
 *
 * Both are decoded from little-endian bytes in memory order, which is how QEMU
 * hands a little-endian kernel's instructions to a plugin.
 */
#include "decode.h"

#include <stdbool.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static const char *const class_names[] = {
	[OP_NONE] = "none",
	[OP_ATOMIC] = "atomic",
	[OP_TLBI] = "tlbi",
	[OP_TLBI_LOCAL] = "tlbi_local",
	[OP_DSB] = "dsb",
	[OP_DMB] = "dmb",
	[OP_ISB] = "isb",
	[OP_IC] = "ic",
	[OP_DC] = "dc",
	[OP_IPI] = "ipi",
	[OP_MARK_START] = "mark_start",
	[OP_MARK_STOP] = "mark_stop",
};

/* An instruction is of @class if the bits in @mask are those of @value. */
struct pattern {
	uint32_t mask;
	uint32_t value;
	enum op_class class;
};

static enum op_class match(const struct pattern *patterns, size_t n,
			   uint32_t opcode)
{
	size_t i;

	for (i = 0; i < n; i++)
		if ((opcode & patterns[i].mask) == patterns[i].value)
			return patterns[i].class;
	return OP_NONE;
}

/*
 * The first match wins, so that an exception stands above its rule. SSBB and
 * PSSBB are encoded as DSB, but only stop speculation: no completion to wait
 * for, hence no class. RCW and 128-bit atomics (FEAT_THE, FEAT_LSE128) are in
 * no kernel of ours and QEMU does not run them.
 */
static const struct pattern arm64_patterns[] = {
	{ 0xffffffff, 0xd5032e1f, OP_MARK_START },	/* HINT #0x70 */
	{ 0xffffffff, 0xd5032e3f, OP_MARK_STOP },	/* HINT #0x71 */
	{ 0xffffffff, 0xd503309f, OP_NONE },		/* SSBB */
	{ 0xffffffff, 0xd503349f, OP_NONE },		/* PSSBB */
	{ 0xfffff0ff, 0xd503309f, OP_DSB },
	{ 0xfffff3ff, 0xd503323f, OP_DSB },		/* DSB nXS */
	{ 0xfffff0ff, 0xd50330bf, OP_DMB },
	{ 0xfffff0ff, 0xd50330df, OP_ISB },
	{ 0x3f208c00, 0x38200000, OP_ATOMIC },		/* LD<op>, ST<op> */
	{ 0x3f20fc00, 0x38208000, OP_ATOMIC },		/* SWP */
	{ 0x3fa07c00, 0x08a07c00, OP_ATOMIC },		/* CAS */
	{ 0xbfa07c00, 0x08207c00, OP_ATOMIC },		/* CASP */
	{ 0x3fe00000, 0x08000000, OP_ATOMIC },		/* STXR, STLXR */
	{ 0xbfe00000, 0x88200000, OP_ATOMIC },		/* STXP, STLXP */
	{ 0xffffffe0, 0xd518cba0, OP_IPI },		/* ICC_SGI1R_EL1 */
	{ 0xffffffe0, 0xd518cbc0, OP_IPI },		/* ICC_ASGI1R_EL1 */
	{ 0xffffffe0, 0xd518cbe0, OP_IPI },		/* ICC_SGI0R_EL1 */
};

/* Cache maintenance, SYS with CRn = 7: bit n of @op2 stands for op2 = n. */
static const struct {
	uint8_t op1;
	uint8_t crm;
	uint8_t op2;
	enum op_class class;
} arm64_cache_ops[] = {
	{ 0, 1, 0x01, OP_IC },	/* IALLUIS */
	{ 0, 5, 0x01, OP_IC },	/* IALLU */
	{ 3, 5, 0x02, OP_IC },	/* IVAU */
	{ 0, 6, 0x7e, OP_DC },	/* I[G][D]VAC, I[G][D]SW */
	{ 0, 10, 0x54, OP_DC },	/* C[G][D]SW */
	{ 0, 14, 0x54, OP_DC },	/* CI[G][D]SW */
	{ 3, 10, 0x2a, OP_DC },	/* C[G][D]VAC */
	{ 3, 11, 0x02, OP_DC },	/* CVAU */
	{ 3, 12, 0x2a, OP_DC },	/* C[G][D]VAP */
	{ 3, 13, 0x2a, OP_DC },	/* C[G][D]VADP */
	{ 3, 14, 0x2a, OP_DC },	/* CI[G][D]VAC */
};

static enum op_class arm64_cache(unsigned int op1, unsigned int crm,
				 unsigned int op2)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(arm64_cache_ops); i++)
		if (arm64_cache_ops[i].op1 == op1 &&
		    arm64_cache_ops[i].crm == crm)
			return arm64_cache_ops[i].op2 & (1U << op2) ?
			       arm64_cache_ops[i].class : OP_NONE;
	return OP_NONE;
}

/*
 * CRm says who is told: 0, 1, 2, 3 and 5 inner or outer shareable, 6 and 7 the
 * executing CPU. 4 holds the stage 2 operations by address, where op2 tells.
 */
static enum op_class arm64_tlbi(unsigned int op1, unsigned int crm,
				unsigned int op2)
{
	if ((op1 != 0 && op1 != 4 && op1 != 6) || crm > 7)
		return OP_NONE;
	if (crm == 4)
		return (0x99U >> op2) & 1 ? OP_TLBI : OP_TLBI_LOCAL;
	return crm < 6 ? OP_TLBI : OP_TLBI_LOCAL;
}

static enum op_class arm64_decode(uint32_t opcode)
{
	unsigned int op1 = opcode >> 16 & 7;
	unsigned int crn = opcode >> 12 & 15;
	unsigned int crm = opcode >> 8 & 15;
	unsigned int op2 = opcode >> 5 & 7;

	if ((opcode & 0xfff80000) != 0xd5080000)	/* SYS */
		return match(arm64_patterns, ARRAY_SIZE(arm64_patterns),
			     opcode);
	switch (crn) {
	case 7:
		return arm64_cache(op1, crm, op2);
	case 8:
	case 9:						/* nXS */
		return arm64_tlbi(op1, crm, op2);
	default:
		return OP_NONE;
	}
}

#define PPC_X(op, xo, rc)	((uint32_t)(op) << 26 | (xo) << 1 | (rc))
#define PPC_X_MASK		PPC_X(63, 1023, 1)
/* SYNC with its L field; the mask includes L, and so excludes reserved ones */
#define PPC_SYNC(l)		(PPC_X(31, 598, 0) | (l) << 21)
#define PPC_SYNC_MASK		(PPC_X_MASK | 7U << 21)

/*
 * tlbsync has no class: it goes with each series of tlbie, and is followed by
 * the ptesync that does count. msgsync likewise: it orders msgsnd, not memory.
 */
static const struct pattern powerpc_patterns[] = {
	{ 0xffffffff, 0x70007a40, OP_MARK_START },	/* andi. 0,0,0x7a40 */
	{ 0xffffffff, 0x70007a41, OP_MARK_STOP },	/* andi. 0,0,0x7a41 */
	{ PPC_X_MASK, PPC_X(31, 694, 1), OP_ATOMIC },	/* stbcx. */
	{ PPC_X_MASK, PPC_X(31, 726, 1), OP_ATOMIC },	/* sthcx. */
	{ PPC_X_MASK, PPC_X(31, 150, 1), OP_ATOMIC },	/* stwcx. */
	{ PPC_X_MASK, PPC_X(31, 214, 1), OP_ATOMIC },	/* stdcx. */
	{ PPC_X_MASK, PPC_X(31, 182, 1), OP_ATOMIC },	/* stqcx. */
	{ PPC_X_MASK, PPC_X(31, 306, 0), OP_TLBI },	/* tlbie */
	{ PPC_X_MASK, PPC_X(31, 274, 0), OP_TLBI_LOCAL }, /* tlbiel */
	{ PPC_SYNC_MASK, PPC_SYNC(0U), OP_DMB },	/* sync, hwsync */
	{ PPC_SYNC_MASK, PPC_SYNC(1U), OP_DMB },	/* lwsync, stncisync */
	{ PPC_SYNC_MASK, PPC_SYNC(2U), OP_DSB },	/* ptesync */
	{ PPC_SYNC_MASK, PPC_SYNC(4U), OP_DMB },	/* phwsync */
	{ PPC_SYNC_MASK, PPC_SYNC(5U), OP_DMB },	/* plwsync */
	{ PPC_X_MASK, PPC_X(31, 854, 0), OP_DMB },	/* eieio */
	{ PPC_X_MASK, PPC_X(19, 150, 0), OP_ISB },	/* isync */
	{ PPC_X_MASK, PPC_X(31, 982, 0), OP_IC },	/* icbi */
	{ PPC_X_MASK, PPC_X(31, 54, 0), OP_DC },	/* dcbst */
	{ PPC_X_MASK, PPC_X(31, 86, 0), OP_DC },	/* dcbf, any L */
	{ PPC_X_MASK, PPC_X(31, 206, 0), OP_IPI },	/* msgsnd */
	{ PPC_X_MASK, PPC_X(31, 142, 0), OP_IPI },	/* msgsndp */
};

static enum op_class powerpc_decode(uint32_t opcode)
{
	return match(powerpc_patterns, ARRAY_SIZE(powerpc_patterns), opcode);
}

const struct arch archs[] = {
	{
		.name = "arm64",
		.qemu_name = "aarch64",
		.kernel_start = 1ULL << 63,
		.decode = arm64_decode,
	},
	{
		.name = "powerpc",
		.qemu_name = "ppc64",
		.kernel_start = 0xc000000000000000,
		/* VMALLOC_START and _END of radix, and of hash with 64K pages */
		.module_start = 0xc008000000000000,
		.module_end = 0xc00a000000000000,
		.decode = powerpc_decode,
	},
};

const size_t n_archs = ARRAY_SIZE(archs);

/**
 * op_class_name() - name of a class as it is written to files
 * @class: the class
 *
 * Context: Any.
 * Return: A constant string.
 */
const char *op_class_name(enum op_class class)
{
	return class_names[class];
}

/**
 * insn_opcode() - first four bytes of an instruction as a number
 * @data: the instruction in memory order, at least four bytes
 *
 * Context: Any.
 * Return: The opcode; of a prefixed instruction, the prefix.
 */
uint32_t insn_opcode(const uint8_t *data)
{
	return data[0] | data[1] << 8 | data[2] << 16 |
	       (uint32_t)data[3] << 24;
}

/**
 * insn_size() - length of the instruction that starts here
 * @arch: its architecture
 * @data: the instruction in memory order, at least four bytes
 *
 * For readers of plain code; QEMU tells a plugin the length itself.
 *
 * Context: Any.
 * Return: 4, or 8 for a prefixed instruction of POWER10.
 */
size_t insn_size(const struct arch *arch, const uint8_t *data)
{
	bool prefixed = arch->decode == powerpc_decode &&
			insn_opcode(data) >> 26 == 1;

	return prefixed ? 8 : 4;
}

/**
 * insn_class() - class of an instruction
 * @arch: its architecture
 * @data: the instruction in memory order
 * @size: its length; other than 4 it is prefixed (POWER10) or T32, and no
 *	such instruction has a class, whatever its halves look like
 *
 * Context: Any.
 * Return: The class.
 */
enum op_class insn_class(const struct arch *arch, const uint8_t *data,
			 size_t size)
{
	return size == 4 ? arch->decode(insn_opcode(data)) : OP_NONE;
}
