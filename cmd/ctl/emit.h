#ifndef CTL_EMIT_H
#define CTL_EMIT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/opt.h"
#include "conf/conf.h"
#include "local.h"

/* What another starts a cluster with, as text: ps-ctl start --emit. */

struct emit {
	const struct conf *conf;
	const struct opt_list *set;     /* --set, as it was given */
	char *file, *here, *program;    /* the cluster file, the current directory, ps-ctl: absolute */
	const struct local_place *place;
};

#define EMIT_FORMS "sbatch|systemd|mpirun"
/* In one of the forms, appended to out. */
enum err_code emit(const char *form, const struct conf *conf, const char *file, const struct opt_list *set,
                   const struct local_place *place, struct buf *out, struct err *e);

#endif
