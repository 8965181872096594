#ifndef LAUNCH_RSH_H
#define LAUNCH_RSH_H

#include "base/buf.h"

/* A command on another host, by the remote shell that $PS_RSH names; unless it is set,
 * "ssh -o BatchMode=yes", which checks the host's key and asks for nothing. */

/* The one word that a POSIX shell makes of it again, appended to out. */
void rsh_quote(const char *word, struct buf *out);

/* What is to be given to the remote shell: "ps-ctl remote" there, from `bin` (where it lies here)
 * or from that host's PATH, with args (NULL-ended).  Appended to out; holds no secret. */
void rsh_command(const char *bin, const char *const *args, struct buf *out);

/* argv that runs the command on host: fixed strings, and the two. */
#define RSH_ARGV 7
void rsh_argv(const char *host, const char *command, const char *argv[static RSH_ARGV]);

/* How a remote shell ends that has not run the command, or has lost the other end. */
#define RSH_NO_SESSION 255
/* How the command ends when there is no ps-ctl on that host. */
#define RSH_NO_PROGRAM 127

#endif
