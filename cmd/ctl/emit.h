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
	const char *image;              /* of a container */
};

#define EMIT_FORMS "sbatch|systemd|k8s|mpirun"
/* In one of the forms, appended to out. */
enum err_code emit(const char *form, const struct conf *conf, const char *file, const struct opt_list *set,
                   const struct local_place *place, const char *image, struct buf *out, struct err *e);
/* The form k8s. */
enum err_code emit_k8s(const struct emit *m, struct buf *out, struct err *e);

#endif
