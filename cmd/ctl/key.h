#ifndef CTL_KEY_H
#define CTL_KEY_H

#include "ctl.h"

/* ps-ctl key: what is done to the keys of a run directory, whether its cluster runs or not. */
struct key_options {
	const char *dir, *role, *public, *expires, *file;
	int64_t grace;
	bool json;
	char *run;                      /* the run directory that was found */
	bool alive;                     /* its cluster runs */
};

/* Each gives the exit code. */
int key_add(const struct key_options *o, char **args);
int key_revoke(const struct key_options *o, char **args);
int key_release(const struct key_options *o, char **args);
int key_secret(const struct key_options *o, char **args);
int key_list(const struct key_options *o, char **args);

/* POST with a body, which it takes, to the cluster of o->run. */
enum err_code key_post(const struct key_options *o, const char *path, json_t *body, json_t **answer, struct err *e);

#endif
