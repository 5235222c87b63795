// SPDX-License-Identifier: GPL-2.0
/*
 * selftest - run one of the kernel's own tests as it wants to be run
 *
 *	selftest N	line N (from 0) of /lib/selftests.list:
 *		SECONDS <tab> [FILE=VALUE ...] <tab> COMMAND [ARGUMENT ...]
 *
 * The values are written to the files before the command is run, and what was
 * there is written back after it. What the command leaves behind is killed.
 * Exit status: the command's, 128 + n for a signal n, 124 if it did not end in
 * time, 125 if a file can't be written.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIST	"/lib/selftests.list"

enum { MAX_FILES = 8, MAX_ARGS = 32, EXIT_TIMEOUT = 124, EXIT_SETUP = 125 };

static struct file {
	const char *path;
	char was[64];
} files[MAX_FILES];
static unsigned int nr_files;

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -1;
	ret = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return ret;
}

/* The value of a file; of `always [madvise] never` what is selected. */
static int read_value(const char *path, char *value, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *from, *to;
	ssize_t len;

	if (fd < 0)
		return -1;
	len = read(fd, value, size - 1);
	close(fd);
	if (len < 0)
		return -1;
	value[len] = '\0';
	value[strcspn(value, "\n")] = '\0';
	from = strchr(value, '[');
	to = strchr(value, ']');
	if (from && to > from) {
		*to = '\0';
		memmove(value, from + 1, to - from);
	}
	return 0;
}

static void restore(void)
{
	while (nr_files) {
		const struct file *f = &files[--nr_files];

		if (write_text(f->path, f->was))
			printf("# %s: %s is not restored: %s\n", f->path,
			       f->was, strerror(errno));
	}
}

static int set_up(char *words)
{
	char *save, *word;

	for (word = strtok_r(words, " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		struct file *f = &files[nr_files];
		char *value = strchr(word, '=');

		if (!value || nr_files == MAX_FILES)
			return -1;
		*value++ = '\0';
		f->path = word;
		if (read_value(word, f->was, sizeof(f->was)) ||
		    write_text(word, value)) {
			printf("# set-up: %s: %s\n", word, strerror(errno));
			return -1;
		}
		nr_files++;
	}
	return 0;
}

static int run(char *command, unsigned int seconds)
{
	const struct timespec limit = { .tv_sec = seconds };
	char path[128], *argv[MAX_ARGS + 1], *save;
	int argc = 0, status = 0;
	siginfo_t info;
	sigset_t set;
	pid_t pid;

	for (char *word = strtok_r(command, " ", &save); word && argc < MAX_ARGS;
	     word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	argv[argc] = NULL;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		setpgid(0, 0);
		snprintf(path, sizeof(path), "/bin/%s", argv[0]);
		execv(path, argv);
		printf("# %s: %s\n", path, strerror(errno));
		fflush(stdout);
		_exit(127);
	}
	if (pid < 0)
		return EXIT_SETUP;
	/* The only child, so the only SIGCHLD; a stopped one ends by the limit. */
	if (sigtimedwait(&set, &info, &limit) < 0 ||
	    waitpid(pid, &status, WNOHANG) != pid) {
		printf("# no end within %u s\n", seconds);
		kill(-pid, SIGKILL);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		return EXIT_TIMEOUT;
	}
	kill(-pid, SIGKILL);
	return WIFEXITED(status) ? WEXITSTATUS(status) :
				   128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	char line[1024], *seconds, *words, *command;
	int wanted = argc > 1 ? atoi(argv[1]) : -1, rc = EXIT_SETUP;
	FILE *list = fopen(LIST, "r");

	if (!list || wanted < 0)
		return EXIT_SETUP;
	do {
		if (!fgets(line, sizeof(line), list))
			return EXIT_SETUP;
	} while (wanted--);
	fclose(list);
	line[strcspn(line, "\n")] = '\0';
	words = strchr(line, '\t');
	command = words ? strchr(words + 1, '\t') : NULL;
	if (!command)
		return EXIT_SETUP;
	seconds = line;
	*words++ = '\0';
	*command++ = '\0';
	if (!set_up(words))
		rc = run(command, atoi(seconds));
	restore();
	fflush(stdout);
	return rc;
}
