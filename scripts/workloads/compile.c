// SPDX-License-Identifier: GPL-2.0
// a build: a make that starts compilers, and a linker that reads what they wrote

#include "workload.h"

#include <sys/stat.h>

/* The compiler is this program: --cc <file> */
#define COMPILER	"--cc"
#define DIRECTORY	"/tmp/compile-workload"
/* A source file, and what a compiler needs for each byte of it */
#define SOURCE		(48 * KIB)
#define NODE		48

static char self[4096];

static unsigned char source_byte(unsigned int file, size_t at)
{
	return (at * 131 + file * 17) >> 3;
}

/* The object: one number for each 64 bytes of source */
static uint32_t object_word(unsigned int file, size_t at)
{
	uint32_t hash = 2166136261U;

	for (size_t i = 0; i < 64; i++)
		hash = (hash ^ source_byte(file, at + i)) * 16777619U;
	return hash;
}

static void path_of(char *path, size_t len, unsigned int file, const char *ext)
{
	snprintf(path, len, DIRECTORY "/%u.%s", file, ext);
}

static void put(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		fail("%s: %s", path, strerror(errno));
	close(fd);
}

static const void *map_file(const char *path, size_t *len)
{
	int fd = open(path, O_RDONLY);
	struct stat st;
	void *data;

	if (fd < 0 || fstat(fd, &st))
		fail("%s: %s", path, strerror(errno));
	*len = st.st_size;
	data = mmap(NULL, *len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		fail("%s: %s", path, strerror(errno));
	close(fd);
	return data;
}

/*
 * Read the source, grow a tree of it on the heap, and write what comes of that.
 * The constants are made read-only when they are done, as a loader would do it.
 */
static int compile(unsigned int file)
{
	size_t len, words, page = getpagesize();
	const unsigned char *source;
	uint32_t *object, *consts;
	char path[64];

	path_of(path, sizeof(path), file, "c");
	source = map_file(path, &len);
	words = len / 64;
	consts = mmap(NULL, 16 * page, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	object = malloc(words * sizeof(*object));
	if (consts == MAP_FAILED || !object)
		return 1;
	consts[0] = 2166136261U;
	consts[15 * page / sizeof(*consts)] = 16777619U;
	must(mprotect(consts, 16 * page, PROT_READ));

	for (size_t w = 0; w < words; w++) {
		unsigned char *nodes = malloc(64 * NODE);
		uint32_t hash = consts[0];

		if (!nodes)
			return 1;
		for (size_t i = 0; i < 64; i++)
			nodes[i * NODE] = source[w * 64 + i];
		for (size_t i = 0; i < 64; i++)
			hash = (hash ^ nodes[i * NODE]) *
			       consts[15 * page / sizeof(*consts)];
		object[w] = hash;
	}
	path_of(path, sizeof(path), file, "o");
	put(path, object, words * sizeof(*object));
	return 0;
}

static pid_t spawn(unsigned int file)
{
	char arg[16];
	char *argv[] = { self, COMPILER, arg, NULL };
	pid_t pid;

	snprintf(arg, sizeof(arg), "%u", file);
	pid = vfork();
	if (!pid) {
		execv(argv[0], argv);
		_exit(127);
	}
	return pid;
}

static void run(const struct wl_case *c)
{
	unsigned int file, good = 0, wrong = 0;
	unsigned char *source = malloc(SOURCE);
	char path[64];

	if (!source)
		fail("out of memory");
	if (mkdir(DIRECTORY, 0700) && errno != EEXIST)
		fail(DIRECTORY ": %s", strerror(errno));
	for (file = 0; file < wl.rounds; file++) {
		for (size_t i = 0; i < SOURCE; i++)
			source[i] = source_byte(file, i);
		path_of(path, sizeof(path), file, "c");
		put(path, source, SOURCE);
	}
	free(source);

	/* The compilers' memory is of folios of that size, if it can be. */
	if (c->folio != FOLIO_BASE)
		thp_only(folio_size(c->folio));
	step_begin(c, 0);
	for (file = 0; file < wl.rounds; file++) {
		pid_t pid = spawn(file);
		int status = 0;

		if (pid > 0)
			waitpid(pid, &status, 0);
		good += pid > 0 && !status;
	}
	step_end(wl.rounds);
	if (c->folio != FOLIO_BASE)
		thp_restore();
	if (good != wl.rounds)
		fail("%u of %u compilers succeeded", good, wl.rounds);

	step_begin(c, 1);
	for (file = 0; file < wl.rounds; file++) {
		const uint32_t *object;
		size_t len;

		path_of(path, sizeof(path), file, "o");
		object = map_file(path, &len);
		wrong += len != SOURCE / 64 * sizeof(*object);
		for (size_t w = 0; w < len / sizeof(*object); w++)
			wrong += object[w] != object_word(file, w * 64);
		munmap((void *)object, len);
	}
	step_end(wl.rounds);
	if (wrong)
		fail("%u words or lengths of objects are wrong", wrong);

	for (file = 0; file < wl.rounds; file++) {
		path_of(path, sizeof(path), file, "c");
		must(unlink(path));
		path_of(path, sizeof(path), file, "o");
		must(unlink(path));
	}
	must(rmdir(DIRECTORY));
}

static const struct wl_case cases[] = {
	{ { "compile/%", "link/%" }, FOLIO_BASE, run, NULL },
	{ { "compile/%", "link/%" }, FOLIO_64K, run, NULL },
};

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], COMPILER))
		_exit(compile(atoi(argv[2])));
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		skip_all("no /proc/self/exe");
	return wl_main(argc, argv, cases, ARRAY_SIZE(cases), 8, 40);
}
