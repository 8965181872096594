/* SPDX-License-Identifier: ISC */
#ifndef SOCKET_UNIXPATH_H
#define SOCKET_UNIXPATH_H

#include "core/err.h"

/* Unix sockets with paths of any length. No state, no locks. */
#define UNIXPATH_MAX 108 /* sizeof sun_path */

/* Gives a name by which bind(2) and connect(2) reach the socket at path: the path itself when it
 * fits, else the file by way of its directory's descriptor under /proc/self/fd, which needs no
 * temporary file and is valid in this process only. *dirfd is that
 * descriptor, to be closed when the name is no longer needed, or -1. ERR_CONFIG when the last
 * component alone does not fit; ERR_NOTFOUND or ERR_IO when the directory cannot be opened. */
enum err_code unixpath_open(const char *path, char name[static UNIXPATH_MAX], int *dirfd,
    struct err *e);

#endif
