/* SPDX-License-Identifier: ISC */
#ifndef CORE_LOCK_HOLDER_H
#define CORE_LOCK_HOLDER_H

/* Finds the process that holds the lock of a file (flock(2)), where that process is stopped
 * (SIGSTOP) and so never gives the lock back. It reads /proc: processes of other users, and of
 * other process namespaces, are not found. A process that a debugger has stopped does not count.
 * Any thread.
 *
 * fd: the file. Returns a descriptor of the process (pidfd_open(2)), which the caller closes, and
 * sets *pid; -1: no such process. */
int lock_holder_stopped(int fd, int *pid);

#endif
