#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/launch.h"

#define TAIL_MAX 65536

enum err_code launch_tail(const char *log_path, size_t nlines, struct buf *out, struct err *e)
{
	int fd = open(log_path, O_RDONLY | O_CLOEXEC);
	enum err_code rc = ERR_OK;
	struct buf text = BUF_INIT;
	struct stat st;
	size_t from, newlines = 0;
	ssize_t n;

	if (fd < 0)
		return err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot read %s",
		               log_path);
	if (fstat(fd, &st) == 0 && st.st_size > TAIL_MAX)
		lseek(fd, st.st_size - TAIL_MAX, SEEK_SET);
	/* The log may grow meanwhile; what comes later is not waited for. */
	buf_reserve(&text, TAIL_MAX);
	do {
		n = read(fd, buf_reserve(&text, 4096), 4096);
		if (n > 0)
			buf_commit(&text, (size_t)n);
	} while ((n > 0 && text.len < TAIL_MAX) || (n < 0 && errno == EINTR));
	if (n < 0)
		rc = err_sys(e, ERR_IO, "cannot read %s", log_path);
	close(fd);
	for (from = text.len; from > 0; from--) {
		bool last = from == text.len;

		if (text.data[from - 1] == '\n' && !last && ++newlines == nlines)
			break;
	}
	if (text.len > 0 && nlines > 0)
		buf_append(out, text.data + from, text.len - from);
	buf_release(&text);
	return rc;
}

void launch_how(const struct launch_event *event, char out[static 64])
{
	const char *name = event->signalled ? sigabbrev_np(event->status) : NULL;

	if (name)
		snprintf(out, 64, "ended by SIG%s", name);
	else if (event->signalled)
		snprintf(out, 64, "ended by signal %d", event->status);
	else
		snprintf(out, 64, "ended with code %d", event->status);
}
