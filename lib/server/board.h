#ifndef SERVER_BOARD_H
#define SERVER_BOARD_H

/* What dashboards are shown.  A picture is taken at most once a second, and only while somebody
 * asks; all who ask then get it, each the parts that changed since it asked last.  So any number
 * of them costs the coordinator one picture a second, and one that falls behind costs no memory:
 * it is told more when it asks again.  Thread-safe; the host's lock is taken inside. */
struct board;

struct board *board_new(void);
void board_free(struct board *b);

#endif
