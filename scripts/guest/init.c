// SPDX-License-Identifier: GPL-2.0
/*
 * init - the guest's only process: runs the commands it is given, sends what
 * they print and the kernel log to the result port, and powers off.
 *
 * Commands come on the kernel command line, separated by `+`. Not behind `--`, of
 * which the kernel passes 32 words and panics at more:
 *	pteopt.run="fork --size=64 + kunit"
 * A command is a program of /bin, or
 *	kunit	load KUnit and every suite of /lib/kunit, print all results
 *	sh	a shell on the console (busybox, if the archive has it)
 *
 * On the port:
 *	@@ begin <command>	and what it prints, and then
 *	K| <line>		the kernel log since the last time
 *	@@ rc <code> <command>	128 + n for a signal n, 127 if it can't be run
 *	@@ end			the last line: without it the guest was lost
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MAX_WORDS 256

#define KUNIT_RESULTS "/sys/kernel/debug/kunit"

static int port = STDOUT_FILENO;

static void say(const char *fmt, ...)
{
	char line[512];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (len > (int)sizeof(line) - 1)
		len = sizeof(line) - 1;
	if (write(port, line, len) != len)
		perror("result port");
}

static void mount_all(void)
{
	static const struct {
		const char *type, *where;
	} table[] = {
		{ "proc", "/proc" },
		{ "sysfs", "/sys" },
		{ "devtmpfs", "/dev" },
		{ "debugfs", "/sys/kernel/debug" },
		{ "tmpfs", "/tmp" },
		{ "tmpfs", "/dev/shm" },
	};
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mkdir(table[i].where, 0755);
		if (mount(table[i].type, table[i].where, table[i].type, 0, ""))
			fprintf(stderr, "init: mount %s: %s\n", table[i].where,
				strerror(errno));
	}
}

/*
 * A parameter of the kernel command line, in quotes or not; "" if it is not there.
 * It is written to, and never freed.
 */
static char *parameter(const char *name)
{
	char line[4096] = "", *value = NULL;
	FILE *f = fopen("/proc/cmdline", "r");
	const char *end = "\n ";

	if (f) {
		if (fgets(line, sizeof(line), f))
			value = strstr(line, name);
		fclose(f);
	}
	if (!value)
		return strdup("");
	value += strlen(name);
	if (*value == '"') {
		end = "\"\n";
		value++;
	}
	value[strcspn(value, end)] = '\0';
	return strdup(value);
}

/* No name, no port. */
static void open_port(void)
{
	const char *name = parameter("pteopt.port=");
	struct termios tio;
	int fd;

	if (!*name)
		return;
	fd = open(name, O_WRONLY | O_NOCTTY);
	if (fd < 0) {
		fprintf(stderr, "init: %s: %s\n", name, strerror(errno));
		return;
	}
	if (!tcgetattr(fd, &tio)) {
		cfmakeraw(&tio);
		tcsetattr(fd, TCSANOW, &tio);
	}
	port = fd;
}

/* Copy the kernel log since the last call; `quiet` hides it on the console. */
static void drain_klog(void)
{
	static char buf[1 << 20];
	char *line, *next;
	int len;

	/* A person at the console has dmesg */
	if (port == STDOUT_FILENO)
		return;
	len = klogctl(4 /* SYSLOG_ACTION_READ_CLEAR */, buf, sizeof(buf) - 1);
	if (len <= 0)
		return;
	buf[len] = '\0';
	for (line = buf; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		say("K| %s\n", line);
	}
}

static int load(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	rc = syscall(SYS_finit_module, fd, "", 0) ? -errno : 0;
	close(fd);
	return rc;
}

static int is_module(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return dot && !strcmp(dot, ".ko");
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void copy_to_port(const char *path)
{
	char buf[4096];
	ssize_t len;
	int fd = open(path, O_RDONLY);

	while (fd >= 0 && (len = read(fd, buf, sizeof(buf))) > 0)
		if (write(port, buf, len) != len)
			break;
	if (fd >= 0)
		close(fd);
}

/*
 * Load all suites, then print each suite's results behind a line
 * `@@ suite <name>`; the host knows how many modules there should be.
 */
static int kunit(void)
{
	char path[PATH_MAX];
	struct dirent **list;
	int n, i, rc, failed = 0;

	rc = load("/lib/kunit.ko");
	if (rc && rc != -EEXIST)
		say("@@ load kunit.ko failed: %s\n", strerror(-rc));
	n = scandir("/lib/kunit", &list, is_module, alphasort);
	for (i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "/lib/kunit/%s", list[i]->d_name);
		rc = load(path);
		if (rc)
			failed = 1;
		say("@@ load %s %s\n", list[i]->d_name,
		    rc ? strerror(-rc) : "ok");
	}
	n = scandir(KUNIT_RESULTS, &list, is_visible, alphasort);
	for (i = 0; i < n; i++) {
		say("@@ suite %s\n", list[i]->d_name);
		snprintf(path, sizeof(path), KUNIT_RESULTS "/%s/results",
			 list[i]->d_name);
		copy_to_port(path);
	}
	return failed;
}

static int run(char **argv)
{
	char path[PATH_MAX];
	int status, to = port;
	pid_t pid = fork();

	if (!pid) {
		if (!strcmp(argv[0], "sh")) {
			/* The shell talks on the console. */
			static char *sh[] = { "sh", "-l", NULL };

			setsid();
			execve("/bin/busybox", sh,
			       (char *[]){ "PATH=/bin", "TERM=vt100", "PS1=# ",
					   NULL });
			_exit(127);
		}
		if (!strcmp(argv[0], "kunit"))
			_exit(kunit());
		dup2(to, STDOUT_FILENO);
		dup2(to, STDERR_FILENO);
		snprintf(path, sizeof(path), "/bin/%s", argv[0]);
		execv(path, argv);
		say("@@ fail %s: %s\n", path, strerror(errno));
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 127;
	return WIFEXITED(status) ? WEXITSTATUS(status) :
				   128 + WTERMSIG(status);
}

int main(void)
{
	char *words[MAX_WORDS + 1], *word;
	int count = 0, first = 0, i, rc;

	mount_all();
	open_port();
	drain_klog();
	for (word = strtok(parameter("pteopt.run="), " ");
	     word && count < MAX_WORDS; word = strtok(NULL, " "))
		words[count++] = word;
	for (i = 0; i <= count && !word; i++) {
		if (i < count && strcmp(words[i], "+"))
			continue;
		words[i] = NULL;
		if (i > first) {
			say("@@ begin %s\n", words[first]);
			rc = run(&words[first]);
			drain_klog();
			say("@@ rc %d %s\n", rc, words[first]);
		}
		first = i + 1;
	}
	/* A command that does not end, which is a lost guest */
	if (word)
		say("@@ begin more than %d words\n", MAX_WORDS);
	say("@@ end\n");
	sync();
	if (port != STDOUT_FILENO) {
		tcdrain(port);
		close(port);
	}
	reboot(RB_POWER_OFF);
	return 1;
}
