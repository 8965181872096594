/* SPDX-License-Identifier: ISC */
#ifndef CTL_KEY_H
#define CTL_KEY_H

#include "ctl.h"

/* ps-ctl key: changes and lists the keys that a cluster admits.  While the cluster runs, its
 * coordinator is asked to do it; otherwise the files of the run directory are changed. */
struct key_options {
	const char *dir, *role, *public, *expires, *file;
	int64_t grace;
	bool json;
	char *run;  /* the run directory */
	bool alive; /* its cluster is running */
};

/* The actions; args are their operands.  Each returns the program's exit code. */
int key_add(const struct key_options *o, char **args);
int key_revoke(const struct key_options *o, char **args);
int key_release(const struct key_options *o, char **args);
int key_secret(const struct key_options *o, char **args);
int key_list(const struct key_options *o, char **args);

/* Sends a POST request to the coordinator of o->run.  Takes over the reference to body. */
enum err_code key_post(const struct key_options *o, const char *path, json_t *body, json_t **answer,
    struct err *e);

#endif
