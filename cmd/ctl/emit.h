/* SPDX-License-Identifier: ISC */
#ifndef CTL_EMIT_H
#define CTL_EMIT_H

#include "conf/conf.h"
#include "core/buf.h"
#include "core/err.h"
#include "core/opt.h"
#include "local.h"

/* ps-ctl start --emit: instead of starting a cluster, writes the file with which another system
 * starts it (Slurm, MPI, systemd, Kubernetes). */

struct emit {
	const struct conf *conf;
	const struct opt_list *set;  /* the values of --set */
	char *file, *here, *program; /* the cluster file, the current directory, ps-ctl: absolute */
	const struct local_place *place;
	const char *image; /* container image, for k8s */
};

#define EMIT_FORMS "sbatch|systemd|k8s|mpirun"
/* Appends the file to out. form is one of EMIT_FORMS; file is the cluster file from which conf was
 * read. */
enum err_code emit(const char *form, const struct conf *conf, const char *file,
    const struct opt_list *set, const struct local_place *place, const char *image, struct buf *out,
    struct err *e);
/* emit() for the form k8s. */
enum err_code emit_k8s(const struct emit *m, struct buf *out, struct err *e);

#endif
