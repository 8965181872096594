/* SPDX-License-Identifier: ISC */
#ifndef CORE_PROCESS_ONE_H
#define CORE_PROCESS_ONE_H

/* This module does what process 1 of a container has to do. Linux ignores signals there unless the
 * program handles them, so that a program without a handler for SIGTERM cannot be stopped. Processes
 * whose parent has ended become its children, and remain as zombies unless it waits for them. */

/* In process 1: forks, and returns in the child, which runs the program. The parent passes signals
 * on to the child and waits for all processes; when the child has ended, it exits with the child's
 * code (128 + N after signal N), and Linux kills the processes that are left. Returns at once in
 * other processes, and in process 1 when it cannot fork. To be called first in main, before there
 * are threads. */
void process_one_begin(void);

#endif
