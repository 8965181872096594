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

/* Options for Kubernetes alone. */
struct emit_k8s_options {
	const char *image; /* container image */
	const char *keys;  /* file of the secret from which all keys are derived */
	const char *cpus,
	    *memory;            /* of each container, as Kubernetes writes them; NULL: no limit */
	const char *storage;    /* size of the volume of the run directory */
	const char *env_secret; /* Secret with variables for all containers, or NULL */
	const struct opt_list *mounts; /* CLAIM:PATH, volumes that all containers may read */
	bool standby;                  /* two coordinators, of which one stands by */
	const char *base; /* directory of a Kustomize base, written instead of `out`, or NULL */
};

struct emit {
	const struct conf *conf;
	const struct opt_list *set;  /* the values of --set */
	char *file, *here, *program; /* the cluster file, the current directory, ps-ctl: absolute */
	const struct local_place *place;
	const struct emit_k8s_options *k8s;
};

#define EMIT_FORMS "sbatch|sbatch-het|systemd|k8s|k8s-sets|mpirun"
/* Appends the file to out. form is one of EMIT_FORMS; file is the cluster file from which conf was
 * read. For Kubernetes, k8s is completed: without `keys`, the file lies beside the cluster file; with
 * `base`, out stays empty. */
enum err_code emit(const char *form, const struct conf *conf, const char *file,
    const struct opt_list *set, const struct local_place *place, const struct emit_k8s_options *k8s,
    struct buf *out, struct err *e);
/* Can this form have a coordinator that stands by? */
bool emit_has_standby(const char *form);
/* emit() for the forms k8s, where workers are an indexed job, and k8s-sets, where they are a stateful
 * set. */
enum err_code emit_k8s_jobs(const struct emit *m, struct buf *out, struct err *e);
enum err_code emit_k8s_sets(const struct emit *m, struct buf *out, struct err *e);

#endif
