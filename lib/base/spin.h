#ifndef BASE_SPIN_H
#define BASE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* Looking again and again for a while before going to sleep: waking up costs more than
 * what is waited for, often.  It gives way to whoever else wants the core, and where that
 * has happened does not spin for some time, up to a second where it happens again and
 * again.  One thread's. */
struct spin {
	int64_t span;                   /* ns, 0: it never spins */
	int64_t now, end, rest, nap;    /* inside */
	long displaced;
};

/* A turn of spinning looks at so many places of memory, and asks the system once. */
#define SPIN_LOOKS 64

/* A wait begins. */
void spin_begin(struct spin *s);
/* Nothing was found; is it to look once more? */
bool spin_again(struct spin *s);

#endif
