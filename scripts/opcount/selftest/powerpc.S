/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bare-metal image with a known number of each operation between marks. In
 * real mode the upper bits of an address are ignored, so the same code runs at
 * user addresses and at kernel addresses. pseries starts it big-endian, maybe
 * in 32-bit mode. -DMISUSE gives the image with misused marks instead.
 */
	.macro	start
	andi.	0, 0, 0x7a40
	.endm

	.macro	stop
	andi.	0, 0, 0x7a41
	.endm

	.text
	.global	_text
_text:
	/* Big-endian; continue below in 64-bit little-endian */
	.long	0xa600607d			/* mfmsr	11 */
	.long	0x01006b61			/* ori		11,11,1 */
	.long	0x01008039			/* li		12,1 */
	.long	0x06f88c79			/* rldicr	12,12,63,0 */
	.long	0x78636b7d			/* or		11,11,12 */
	.long	0x05009f42			/* bcl		20,31,.+4 */
	.long	0xa602487d			/* mflr		10 */
	.long	0x14004a39			/* addi		10,10,20 */
	.long	0xa6035a7d			/* mtsrr0	10 */
	.long	0xa6037b7d			/* mtsrr1	11 */
	.long	0x2400004c			/* rfid */

	/* r29: real address of here; r28: start of the kernel's addresses */
	bcl	20, 31, here
here:
	mflr	29
	lis	28, 0xc000
	sldi	28, 28, 32
	addi	3, 29, main - here
	or	3, 3, 28
	mtctr	3
	bctr

main:
	addis	26, 29, (data - here)@ha
	addi	26, 26, (data - here)@l
	/* H_REGISTER_PROC_TBL: radix; GTSE permits tlbie and tlbsync */
	li	3, 0x37c
	li	4, 0x1d
	mr	5, 26
	li	6, 0
	li	7, 0
	sc	1
	or	26, 26, 28
	addi	27, 26, pte - data
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

	/* At user addresses: counted is only the branch */
	addi	3, 29, ops - here
	mtctr	3
	start
	bctrl
	stop

	start
	bl	sync_and_set
	stop

	bl	rewrite

	start
	stop
#endif
	/* RTAS power-off */
	addi	4, 29, rtas_args - here
	lis	3, 0
	ori	3, 3, 0xf000
	sc	1
	b	.

rtas_args:
	.long	0x03200000, 0x02000000, 0x01000000, 0, 0, 0

/* Each class, in a loop; aligned to need no padding before the prefixed ones */
	.balign	64
ops:
	li	10, 10
	mtctr	10
1:	paddi	4, 26, 0x12345678, 0
	pld	4, 8(26), 0
	lbarx	4, 0, 26
	stbcx.	4, 0, 26
	lharx	4, 0, 26
	sthcx.	4, 0, 26
	lwarx	4, 0, 26
	stwcx.	4, 0, 26
	ldarx	4, 0, 26
	stdcx.	4, 0, 26
	lqarx	4, 0, 26
	stqcx.	4, 0, 26
	std	4, 0(26)
	tlbie	10, 4, 0, 1, 1
	tlbiel	10, 4, 0, 1, 1
	tlbsync
	ptesync
	sync
	lwsync
	eieio
	isync
	icbi	0, 26
	dcbst	0, 26
	dcbf	0, 26
	dcbz	0, 26
	bdnz	1b
	blr

/* What the order log must show */
sync_and_set:
	ld	4, 0(26)
	std	4, 0(26)
	dcbst	0, 26
	sync
	icbi	0, 26
	sync
	isync
	std	4, 0(27)
	ldarx	4, 0, 27
	stdcx.	4, 0, 27
	ptesync
	blr

/* Code translated anew, once unchanged, once as another instruction */
rewrite:
	mflr	25
	addis	3, 29, (patched - here)@ha
	addi	3, 3, (patched - here)@l
	or	3, 3, 28
	lwz	4, 0(3)
	lis	5, 0x7c00
	ori	5, 5, 0x04ac			/* sync */
	start
	bl	patched
	stw	4, 0(3)
	isync
	bl	patched
	stw	5, 0(3)
	isync
	bl	patched
	stop
	mtlr	25
	blr

	.balign	4096
patched:
	ptesync
	blr

	.balign	4096
data:
	.skip	4096
pte:
	.skip	4096
