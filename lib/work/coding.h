#ifndef WORK_CODING_H
#define WORK_CODING_H

#include "conf/conf.h"
#include "work/worker.h"

/* What a configuration says of the wire. */
enum err_code coding_of(const struct conf *c, struct client_coding *out, struct err *e);

#endif
