// SPDX-License-Identifier: GPL-2.0
/*
 * Op counter: a QEMU TCG plugin that counts what the guest kernel executes
 * between two marks, by instruction class and kernel function.
 *
 * Arguments (name=value):
 *   out=FILE      the counts; required
 *   map=FILE      System.map of the guest kernel, booted without KASLR
 *   all_el=on     count at every address, not only at kernel addresses
 *   order=FILE    also log barriers and maintenance one by one, in order
 *   order_all=on  log outside the marks too
 *   stores=A,B    log the stores of these functions too, with their address
 *
 * Marks, in user or kernel mode: arm64 HINT #0x70 starts and HINT #0x71 stops
 * an interval; powerpc andi. 0,0,0x7a40 and andi. 0,0,0x7a41. Marks themselves
 * are not counted. Intervals are numbered from 0.
 *
 * Counts, tab-separated, first line a header:
 *   interval  class  symbol  pc  count
 * Class insn counts every instruction, per function (pc is "-"); the others
 * count per instruction, so that addr2line can tell inlined functions apart.
 * "error<TAB>text" lines report misused marks: such counts are not to be used.
 * The last line is "end<TAB>intervals". Without it QEMU died. It is written on
 * any orderly exit of QEMU, SIGTERM included, so that the number of intervals
 * is for the reader to compare with what the workload should have done.
 *
 * Order log, tab-separated, first line a header:
 *   seq  vcpu  class  opcode  symbol  pc  interval  vaddr
 * The last is "-" except for stores (class store or atomic). The plugin interface
 * cannot read registers, so the address of a TLBI, DC or IC is not known. DC
 * ZVA and failed store-exclusives of LL/SC loops may be missing among the
 * stores, for they need not reach QEMU's memory hook; a failed
 * compare-and-swap may appear, though it changes nothing.
 *
 * What the counts are:
 * - Attempts. Each instruction counts itself just before it executes, so a
 *   fault or an exception in the middle of a translation block adds nothing
 *   for the rest of it, but an instruction that faults and is started anew
 *   counts again.
 * - Exact with one vCPU. The additions in translated code are not atomic, so
 *   with more vCPUs some are lost; marks are global to all of them.
 * - Repeatable if QEMU's time does not depend on the host's: with -icount
 *   shift=1,sleep=off -rtc base=2026-01-01,clock=vm to the last digit on arm64,
 *   to a fraction of a percent on powerpc. Without, each timer interrupt
 *   between the marks adds a few thousand instructions.
 * - Of kernel addresses: arm64 bit 63, powerpc from 0xc000000000000000. On
 *   powerpc, code that the kernel runs in real mode at low addresses cannot be
 *   told from user code and is not counted. Interrupts between the marks are.
 */
#include "decode.h"
#include "qemu_plugin_abi.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SZ_2G		0x80000000ULL
#define HASH_SIZE	(1U << 14)

/*
 * A function of the kernel.
 * @insns: instructions executed in this interval; translated code adds to it
 * @log_stores: named in stores=
 */
struct symbol {
	uint64_t addr;
	char *name;
	uint64_t insns;
	bool log_stores;
};

/*
 * An instruction of interest. It is never freed, since translated code points
 * to it, and is found again if QEMU translates the instruction anew.
 * @count: executions in this interval; translated code adds to it
 */
struct record {
	uint64_t count;
	uint64_t pc;
	uint32_t opcode;
	enum op_class class;
	struct symbol *symbol;
	struct record *hash_next;
};

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static const struct arch *arch;
static bool all_el;
static bool order_all;

static struct symbol *symbols;
static size_t n_symbols;
static uint64_t image_start;
static uint64_t image_end;
static struct symbol module_symbol = { .name = "[module]" };
static struct symbol unknown_symbol = { .name = "[unknown]" };

/* Guards all below: vCPU threads translate, mark and log at the same time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct record *hash[HASH_SIZE];
static struct record **records;
static size_t n_records;
static size_t max_records;
static FILE *out;
static FILE *order;
static uint64_t order_seq;
static bool in_interval;
static unsigned int interval;

/* Ends QEMU at once: without the end line the counts are void. */
static void die(const char *what)
{
	fprintf(stderr, "opcount: %s\n", what);
	_exit(1);
}

static void *grow(void *array, size_t n, size_t size)
{
	array = reallocarray(array, n, size);
	if (!array)
		die("out of memory");
	return array;
}

static void flush(FILE *file)
{
	if (file && (fflush(file) || ferror(file)))
		die("cannot write the output");
}

/* Symbols */

/*
 * Of the names of one address the last is taken: the function's own rather
 * than __aliases and section markers, for "_" sorts before small letters.
 */
static int symbol_cmp(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return strcmp(x->name, y->name);
}

static bool map_load(const char *path)
{
	FILE *map = fopen(path, "r");
	size_t max = 0;
	uint64_t addr;
	char name[512];
	char type;

	if (!map) {
		perror(path);
		return false;
	}
	while (fscanf(map, "%" SCNx64 " %c %511s", &addr, &type, name) == 3) {
		if (!strcmp(name, "_text"))
			image_start = addr;
		if (!strcmp(name, "_end"))
			image_end = addr;
		if (!strchr("tTwW", type))
			continue;
		if (n_symbols == max) {
			max = max ? 2 * max : 4096;
			symbols = grow(symbols, max, sizeof(*symbols));
		}
		symbols[n_symbols] = (struct symbol) {
			.addr = addr,
			.name = strdup(name),
		};
		if (!symbols[n_symbols++].name)
			die("out of memory");
	}
	if (!feof(map) || !n_symbols || !image_start || !image_end) {
		fprintf(stderr, "opcount: %s: not a System.map\n", path);
		fclose(map);
		return false;
	}
	fclose(map);
	qsort(symbols, n_symbols, sizeof(*symbols), symbol_cmp);
	return true;
}

static bool is_module(uint64_t pc)
{
	if (arch->module_start)
		return pc >= arch->module_start && pc < arch->module_end;
	return pc < image_start && image_end - pc <= SZ_2G;
}

static struct symbol *symbol_find(uint64_t pc)
{
	size_t low = 0, high = n_symbols;

	if (pc < image_start || pc >= image_end)
		return is_module(pc) ? &module_symbol : &unknown_symbol;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (symbols[mid].addr <= pc)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? &symbols[low - 1] : &unknown_symbol;
}

static bool stores_parse(const char *list)
{
	while (*list) {
		size_t len = strcspn(list, ",");
		bool found = false;
		size_t i;

		for (i = 0; i < n_symbols; i++)
			if (strlen(symbols[i].name) == len &&
			    !strncmp(symbols[i].name, list, len))
				found = symbols[i].log_stores = true;
		if (!found) {
			fprintf(stderr, "opcount: stores=%.*s: not in the map\n",
				(int)len, list);
			return false;
		}
		list += len + (list[len] == ',');
	}
	return true;
}

/* Records */

static struct record *record_get(uint64_t pc, uint32_t opcode,
				 enum op_class class, struct symbol *symbol)
{
	struct record **head = &hash[(pc >> 2 ^ opcode) % HASH_SIZE];
	struct record *record;

	for (record = *head; record; record = record->hash_next)
		if (record->pc == pc && record->opcode == opcode)
			return record;

	if (n_records == max_records) {
		max_records = max_records ? 2 * max_records : 4096;
		records = grow(records, max_records, sizeof(*records));
	}
	record = grow(NULL, 1, sizeof(*record));
	*record = (struct record) {
		.pc = pc,
		.opcode = opcode,
		.class = class,
		.symbol = symbol,
		.hash_next = *head,
	};
	*head = record;
	records[n_records++] = record;
	return record;
}

static int record_cmp(const void *a, const void *b)
{
	const struct record *x = *(struct record *const *)a;
	const struct record *y = *(struct record *const *)b;

	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	if (x->pc != y->pc)
		return x->pc < y->pc ? -1 : 1;
	return x->opcode < y->opcode ? -1 : x->opcode > y->opcode;
}

/* Intervals */

static void error(const char *what)
{
	fprintf(out, "error\t%s, interval %u\n", what, interval);
	flush(out);
}

static void counts_clear(void)
{
	size_t i;

	for (i = 0; i < n_symbols; i++)
		symbols[i].insns = 0;
	module_symbol.insns = 0;
	unknown_symbol.insns = 0;
	for (i = 0; i < n_records; i++)
		records[i]->count = 0;
}

static void insns_print(const struct symbol *symbol)
{
	if (symbol->insns)
		fprintf(out, "%u\tinsn\t%s\t-\t%" PRIu64 "\n", interval,
			symbol->name, symbol->insns);
}

static void counts_print(void)
{
	bool named = false;
	size_t i;

	for (i = 0; i < n_symbols; i++) {
		insns_print(&symbols[i]);
		named |= symbols[i].insns != 0;
	}
	insns_print(&module_symbol);
	insns_print(&unknown_symbol);
	/* The kernel was relocated, or is not the one of the map. */
	if (n_symbols && unknown_symbol.insns && !named)
		error("no instruction in any function of the map");

	qsort(records, n_records, sizeof(*records), record_cmp);
	for (i = 0; i < n_records; i++)
		if (records[i]->count)
			fprintf(out, "%u\t%s\t%s\t0x%" PRIx64 "\t%" PRIu64 "\n",
				interval, op_class_name(records[i]->class),
				records[i]->symbol->name, records[i]->pc,
				records[i]->count);
}

static void mark_start(unsigned int vcpu, void *udata)
{
	(void)vcpu;
	(void)udata;
	pthread_mutex_lock(&lock);
	if (in_interval)
		error("start mark inside an interval");
	else
		counts_clear();
	in_interval = true;
	pthread_mutex_unlock(&lock);
}

static void mark_stop(unsigned int vcpu, void *udata)
{
	(void)vcpu;
	(void)udata;
	pthread_mutex_lock(&lock);
	if (in_interval) {
		counts_print();
		interval++;
		in_interval = false;
		flush(out);
		flush(order);
	} else {
		error("stop mark outside an interval");
	}
	pthread_mutex_unlock(&lock);
}

/* Order log */

static void order_print(unsigned int vcpu, const struct record *record,
			const char *class, const uint64_t *vaddr)
{
	char where[24] = "-", when[24] = "-";

	pthread_mutex_lock(&lock);
	if (in_interval || order_all) {
		if (vaddr)
			snprintf(where, sizeof(where), "0x%" PRIx64, *vaddr);
		if (in_interval)
			snprintf(when, sizeof(when), "%u", interval);
		fprintf(order, "%" PRIu64 "\t%u\t%s\t%08" PRIx32
			"\t%s\t0x%" PRIx64 "\t%s\t%s\n", order_seq++, vcpu,
			class, record->opcode, record->symbol->name, record->pc,
			when, where);
	}
	pthread_mutex_unlock(&lock);
}

static void order_insn(unsigned int vcpu, void *udata)
{
	const struct record *record = udata;

	order_print(vcpu, record, op_class_name(record->class), NULL);
}

static void order_store(unsigned int vcpu, qemu_plugin_meminfo_t info,
			uint64_t vaddr, void *udata)
{
	const struct record *record = udata;

	/* QEMU 7.2 reports the load of an atomic as well, asked or not. */
	if (qemu_plugin_mem_is_store(info))
		order_print(vcpu, record,
			    record->class == OP_ATOMIC ? "atomic" : "store",
			    &vaddr);
}

/* Translation */

static void insn_trans(struct qemu_plugin_insn *insn)
{
	const uint8_t *data = qemu_plugin_insn_data(insn);
	uint64_t pc = qemu_plugin_insn_vaddr(insn);
	enum op_class class = insn_class(arch, data,
					 qemu_plugin_insn_size(insn));
	struct record *record;
	struct symbol *symbol;

	if (class == OP_MARK_START || class == OP_MARK_STOP) {
		qemu_plugin_register_vcpu_insn_exec_cb(insn,
				class == OP_MARK_START ? mark_start : mark_stop,
				QEMU_PLUGIN_CB_NO_REGS, NULL);
		return;
	}
	if (pc < arch->kernel_start && !all_el)
		return;

	symbol = symbol_find(pc);
	qemu_plugin_register_vcpu_insn_exec_inline(insn,
			QEMU_PLUGIN_INLINE_ADD_U64, &symbol->insns, 1);
	if (class == OP_NONE && !symbol->log_stores)
		return;

	record = record_get(pc, insn_opcode(data), class, symbol);
	if (class != OP_NONE && class != OP_IPI)
		qemu_plugin_register_vcpu_insn_exec_inline(insn,
				QEMU_PLUGIN_INLINE_ADD_U64, &record->count, 1);
	if (!order)
		return;
	if (class != OP_NONE && class != OP_ATOMIC)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, order_insn,
				QEMU_PLUGIN_CB_NO_REGS, record);
	if (symbol->log_stores)
		qemu_plugin_register_vcpu_mem_cb(insn, order_store,
				QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W,
				record);
}

static void tb_trans(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	size_t i;

	(void)id;
	pthread_mutex_lock(&lock);
	for (i = 0; i < n; i++)
		insn_trans(qemu_plugin_tb_get_insn(tb, i));
	pthread_mutex_unlock(&lock);
}

static void at_exit(qemu_plugin_id_t id, void *udata)
{
	(void)id;
	(void)udata;
	pthread_mutex_lock(&lock);
	if (in_interval)
		error("QEMU ended inside an interval");
	fprintf(out, "end\t%u\n", interval);
	flush(out);
	flush(order);
	pthread_mutex_unlock(&lock);
}

/* Arguments */

static FILE *file_open(const char *path, const char *header)
{
	FILE *file = fopen(path, "w");

	if (file)
		fputs(header, file);
	else
		perror(path);
	return file;
}

static bool bool_parse(const char *value, bool *result)
{
	*result = !strcmp(value, "on");
	return *result || !strcmp(value, "off");
}

static bool arg_parse(const char *arg, const char **stores)
{
	const char *value = strchr(arg, '=');
	size_t len = value ? (size_t)(value++ - arg) : 0;

#define IS(name) (len == strlen(name) && !strncmp(arg, name, len))
	if (IS("map"))
		return map_load(value);
	if (IS("out"))
		return (out = file_open(value,
				"interval\tclass\tsymbol\tpc\tcount\n"));
	if (IS("order"))
		return (order = file_open(value,
				"seq\tvcpu\tclass\topcode\tsymbol\tpc\tinterval\tvaddr\n"));
	if (IS("stores")) {
		*stores = value;
		return true;
	}
	if (IS("all_el"))
		return bool_parse(value, &all_el);
	if (IS("order_all"))
		return bool_parse(value, &order_all);
#undef IS
	return false;
}

/**
 * qemu_plugin_install() - entry point, called when QEMU loads the plugin
 * @id: of this plugin
 * @info: of the guest
 * @argc: number of arguments
 * @argv: arguments, each name=value
 *
 * Context: QEMU's main thread, before any vCPU runs.
 * Return: 0, or -1 to make QEMU give up.
 */
QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id,
					   const qemu_info_t *info,
					   int argc, char **argv)
{
	const char *stores = "";
	size_t i;

	for (i = 0; i < n_archs; i++)
		if (!strcmp(archs[i].qemu_name, info->target_name))
			arch = &archs[i];
	if (!arch) {
		fprintf(stderr, "opcount: guest %s: not supported\n",
			info->target_name);
		return -1;
	}
	for (i = 0; i < (size_t)argc; i++)
		if (!arg_parse(argv[i], &stores)) {
			fprintf(stderr, "opcount: %s: bad argument\n", argv[i]);
			return -1;
		}
	/* The functions can be looked up only once the map is loaded. */
	if (!stores_parse(stores))
		return -1;
	if (!out || (!order && (order_all || *stores))) {
		fputs("opcount: out=FILE is required, and order=FILE for order_all and stores\n",
		      stderr);
		return -1;
	}
	flush(out);
	flush(order);
	qemu_plugin_register_vcpu_tb_trans_cb(id, tb_trans);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
