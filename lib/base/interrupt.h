#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

#include <stdbool.h>
#include <stddef.h>

/* How a thread that waits is told to give it up. */
struct interrupt {
	int fd;                         /* readable: it is to be */
	/* Called in that thread, before and now and again while it waits; it may make fd readable.  NULL: nobody is asked. */
	void (*ask)(void *ctx);
	void *ctx;
};

/* Has it been told?  NULL: it never is. */
bool interrupt_came(const struct interrupt *i);
static inline int interrupt_fd(const struct interrupt *i)
{
	return i ? i->fd : -1;
}

#endif
