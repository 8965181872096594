#ifndef AUTH_AUTHFILE_H
#define AUTH_AUTHFILE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* Opening of the files that authentication rests on.  Only the opened
 * descriptor is judged, so that the path cannot be swapped in between. */

/* Open path for reading: it must be a regular file (not a symbolic link), owned
 * by us or by root, with no mode bit of `forbidden` set, of at most max bytes.
 * Never blocks (a fifo is opened and refused).  Gives the descriptor, which the
 * caller closes, and the size.  ERR_AUTH (with the chmod to run), ERR_NOTFOUND,
 * ERR_IO. */
enum err_code authfile_open(const char *path, mode_t forbidden, size_t max, int *fd, size_t *size,
                            struct err *e);

/* The path of a credential that the service manager has put there for this service alone
 * (LoadCredential= of systemd.exec(5)): $CREDENTIALS_DIRECTORY/name, fresh; NULL when there is
 * none.  name has no "/".  Such a file of root's may be readable by its group: that bit is the
 * mask of the access list that lets the service in. */
char *authfile_credential(const char *name);

/* Make path, which must not exist, with mode 0600 and these contents, durable
 * when this returns.  A failure leaves no file behind.  ERR_EXISTS, ERR_IO. */
enum err_code authfile_create(const char *path, const void *data, size_t n, struct err *e);

#endif
