/* SPDX-License-Identifier: ISC */
#ifndef CORE_BOOT_H
#define CORE_BOOT_H

/* A process id has a meaning only in one running kernel and one namespace of process ids in it. Two
 * hosts that share files, or two containers of one host, have other processes of the same ids. No state;
 * any thread. */
#define BOOT_TEXT 64

/* The id of the running kernel; "": unknown. */
void boot_id(char out[static BOOT_TEXT]);
/* The name of the namespace of this process; "": unknown. */
void boot_pid_namespace(char out[static BOOT_TEXT]);

#endif
