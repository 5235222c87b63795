/* SPDX-License-Identifier: GPL-2.0 */
/* The trace events. Each is fired by a kernel probe that events.c registers. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM pteopt

#if !defined(PTEOPT_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define PTEOPT_TRACE_H

#include <linux/tracepoint.h>

int pteopt_convert_reg(void);
void pteopt_convert_unreg(void);
int pteopt_icache_reg(void);
void pteopt_icache_unreg(void);
int pteopt_protect_reg(void);
void pteopt_protect_unreg(void);

TRACE_EVENT_FN(contpte_convert,
	TP_PROTO(unsigned long addr, bool fold),
	TP_ARGS(addr, fold),
	TP_STRUCT__entry(
		__field(unsigned long, addr)
		__field(bool, fold)
	),
	TP_fast_assign(
		__entry->addr = addr;
		__entry->fold = fold;
	),
	TP_printk("addr=%lx %s", __entry->addr,
		  __entry->fold ? "fold" : "unfold"),
	pteopt_convert_reg, pteopt_convert_unreg
);

TRACE_EVENT_FN(icache_sync,
	TP_PROTO(unsigned long pfn, unsigned int order),
	TP_ARGS(pfn, order),
	TP_STRUCT__entry(
		__field(unsigned long, pfn)
		__field(unsigned int, order)
	),
	TP_fast_assign(
		__entry->pfn = pfn;
		__entry->order = order;
	),
	TP_printk("pfn=%lx order=%u", __entry->pfn, __entry->order),
	pteopt_icache_reg, pteopt_icache_unreg
);

TRACE_EVENT_FN(protect,
	TP_PROTO(unsigned long addr, unsigned int nr),
	TP_ARGS(addr, nr),
	TP_STRUCT__entry(
		__field(unsigned long, addr)
		__field(unsigned int, nr)
	),
	TP_fast_assign(
		__entry->addr = addr;
		__entry->nr = nr;
	),
	TP_printk("addr=%lx nr=%u", __entry->addr, __entry->nr),
	pteopt_protect_reg, pteopt_protect_unreg
);

#endif /* PTEOPT_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
