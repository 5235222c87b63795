/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bare-metal image with a known number of each operation between marks. It is
 * linked at a kernel address, and its RAM is mapped twice: read-only for user
 * and kernel where it lies, and writable for the kernel 0xffffff8000000000
 * higher. -DMISUSE gives the image with misused marks instead.
 */
	.macro	start
	hint	#0x70
	.endm

	.macro	stop
	hint	#0x71
	.endm

	.text
	.global	_text
_text:
	adr	x0, table_low
	msr	ttbr0_el1, x0
	adr	x0, table_high
	msr	ttbr1_el1, x0
	/* 39-bit addresses, 4K granule, write-back, inner shareable */
	ldr	x0, =0xb5193519
	msr	tcr_el1, x0
	mov	x0, #0xff
	msr	mair_el1, x0
	isb
	mrs	x0, sctlr_el1
	ldr	x1, =0x1005			/* I, C, M */
	orr	x0, x0, x1
	msr	sctlr_el1, x0
	isb
	ldr	x0, =main
	br	x0
	.ltorg

main:
	ldr	x0, =vectors
	msr	vbar_el1, x0
	isb
	adr	x19, data
	adr	x20, pte
#ifdef MISUSE
	stop
	start
	start
	bl	ops
	stop
	start
	nop
#else
	start
	bl	ops
	stop

	bl	user

	adr	x21, data
	bl	fault

	start
	bl	sync_and_set
	stop

	bl	rewrite

	adr	x0, alias
	and	x0, x0, #0x7fffffff
	adr	x30, 1f
	ret	x0			/* BTYPE as after BL */
1:	start
	bl	alias
	stop

	start
	stop
#endif
	ldr	x0, =0x84000008			/* PSCI SYSTEM_OFF */
	hvc	#0
	.ltorg

/* Each class, in a loop */
ops:
	mov	x21, #10
1:	ldadd	x1, x2, [x19]
	swpal	x1, x2, [x19]
	casal	x1, x2, [x19]
	casp	x2, x3, x4, x5, [x19]
	ldxr	x1, [x19]
	stxr	w2, x1, [x19]
	ldapr	x1, [x19]
	str	x1, [x19]
	tlbi	vmalle1is
	tlbi	vae1os, xzr
	tlbi	rvae1is, xzr
	tlbi	vmalle1
	dsb	ish
	dsb	nshst
	dmb	ishld
	isb
	ic	ivau, x19
	ic	iallu
	dc	cvau, x19
	dc	civac, x19
	dc	zva, x19
	subs	x21, x21, #1
	b.ne	1b
	ret

/* Marks in user mode: counted is only what the kernel does for it */
user:
	adr	x0, user_code
	and	x0, x0, #0x7fffffff
	msr	elr_el1, x0
	msr	spsr_el1, xzr
	eret

user_code:
	start
	dsb	ish
	dmb	ish
	isb
	svc	#0
	dmb	ish
	stop
	svc	#1

svc_entry:
	mrs	x0, esr_el1
	tbnz	x0, #0, 1f
	dmb	ish
	eret
1:	ret

/* A fault in mid-block: the load counts twice, what follows it once */
fault:
	start
	mov	x0, #0xffffff8000000000
	ldr	x1, [x0]
	nop
	nop
	nop
	stop
	ret

fault_entry:
	mov	x0, x21
	eret

/* What the order log must show */
sync_and_set:
	ldr	x2, [x19]
	str	x1, [x19]
	dc	cvau, x19
	dsb	ish
	ic	ivau, x19
	dsb	ish
	str	x1, [x20]
	swp	x1, x2, [x20]
	isb
	ret

/* Code translated anew, once unchanged, once as another instruction */
rewrite:
	mov	x22, x30
	adr	x0, patched
	ldr	w1, [x0]
	ldr	w2, =0xd5033b9f			/* DSB ISH */
	start
	bl	patched
	str	w1, [x0]
	isb
	bl	patched
	str	w2, [x0]
	isb
	bl	patched
	stop
	ret	x22
	.ltorg

/* Executed first at a user address, then at its kernel address */
alias:
	dmb	ish
	ret

	.balign	4096
patched:
	dmb	ish
	ret

	.balign	2048
vectors:
	.org	vectors + 0x200
	b	fault_entry
	.org	vectors + 0x400
	b	svc_entry

	.balign	4096
data:
	.skip	4096
pte:
	.skip	4096
table_low:
	.quad	0
	.quad	0x400007c1
	.skip	4096 - 16
table_high:
	.quad	0
	.quad	0x40000701
	.skip	4096 - 16
