// SPDX-License-Identifier: GPL-2.0
/*
 * Files in debugfs to which a request is written, and from which, over the same
 * open file, its answer is read.
 *
 * Nothing outlives a write but its answer: no reference to a task or an mm is
 * held between system calls. An open file holds a reference to the module, by
 * way of debugfs, so the module goes only when no file of it is open.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "pteopt.h"

/* No request is longer than this */
#define REQUEST_MAX	255

/*
 * One open file. @lock is for threads that share it; @answer is NULL until a
 * request succeeded.
 */
struct session {
	const struct pteopt_file *file;
	struct mutex lock;
	void *answer;
	loff_t line;
};

/* With no file to print to, show() says whether there is such a line */
static void *session_line(struct session *s, loff_t pos)
{
	if (!s->answer || !s->file->show(NULL, s->answer, pos))
		return NULL;
	s->line = pos;
	return &s->line;
}

static void *session_start(struct seq_file *seq, loff_t *pos)
{
	struct session *s = seq->private;

	mutex_lock(&s->lock);
	return session_line(s, *pos);
}

static int session_show(struct seq_file *seq, void *v)
{
	struct session *s = seq->private;

	s->file->show(seq, s->answer, s->line);
	return 0;
}

static void *session_next(struct seq_file *seq, void *v, loff_t *pos)
{
	struct session *s = seq->private;

	return session_line(s, ++*pos);
}

static void session_stop(struct seq_file *seq, void *v)
{
	struct session *s = seq->private;

	mutex_unlock(&s->lock);
}

static const struct seq_operations session_seq = {
	.start	= session_start,
	.next	= session_next,
	.stop	= session_stop,
	.show	= session_show,
};

static int session_open(struct inode *inode, struct file *file)
{
	struct session *s = __seq_open_private(file, &session_seq, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->file = inode->i_private;
	mutex_init(&s->lock);
	return 0;
}

static int session_release(struct inode *inode, struct file *file)
{
	struct seq_file *seq = file->private_data;
	struct session *s = seq->private;

	s->file->release(s->answer);
	mutex_destroy(&s->lock);
	return seq_release_private(inode, file);
}

static ssize_t session_write(struct file *file, const char __user *buf,
			     size_t len, loff_t *ppos)
{
	struct seq_file *seq = file->private_data;
	struct session *s = seq->private;
	void *answer = NULL;
	char *text;
	int ret;

	if (!len || len > REQUEST_MAX)
		return -EINVAL;
	text = memdup_user_nul(buf, len);
	if (IS_ERR(text))
		return PTR_ERR(text);

	if (strlen(text) == len)
		ret = s->file->request(strim(text), &answer);
	else
		ret = -EINVAL;	/* a NUL in the middle */
	kfree(text);
	if (ret)
		return ret;

	mutex_lock(&s->lock);
	swap(s->answer, answer);
	mutex_unlock(&s->lock);
	s->file->release(answer);
	/* The next read starts at the first line of the new answer */
	*ppos = 0;

	return len;
}

static const struct file_operations session_fops = {
	.owner		= THIS_MODULE,
	.open		= session_open,
	.read		= seq_read,
	.write		= session_write,
	.llseek		= seq_lseek,
	.release	= session_release,
};

/**
 * pteopt_file_create - make a file for requests
 * @dir: where
 * @file: what it does; has to stay
 *
 * Context: Process context.
 */
void pteopt_file_create(struct dentry *dir, const struct pteopt_file *file)
{
	debugfs_create_file(file->name, 0600, dir, (void *)file, &session_fops);
}
