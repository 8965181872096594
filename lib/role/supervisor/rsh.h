/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_RSH_H
#define SUPERVISOR_RSH_H

#include "core/buf.h"

/* Command lines that run "ps-ctl remote" on another host through a remote shell: the one in
 * $PS_RSH, else "ssh -o BatchMode=yes", which checks the host's key and never prompts. Pure text;
 * no state. */

/* Append word to out, quoted so that a POSIX shell reads it as one word. */
void rsh_quote(const char *word, struct buf *out);

/* Append to out the command for the remote shell: "ps-ctl remote" with args (NULL-ended), found
 * there in `bin` (our own directory) or in PATH. It contains no secret. */
void rsh_command(const char *bin, const char *const *args, struct buf *out);

/* Fill argv to run the command on host. The strings are borrowed. */
#define RSH_ARGV 7
void rsh_argv(const char *host, const char *command, const char *argv[static RSH_ARGV]);

/* Exit code of a remote shell that could not run the command, or has lost its connection. */
#define RSH_NO_SESSION 255
/* Exit code of the command when that host has no ps-ctl. */
#define RSH_NO_PROGRAM 127

#endif
