/* SPDX-License-Identifier: ISC */
#ifndef CORE_VERSION_H
#define CORE_VERSION_H

/* The version of the programs, and of the protocol on the wire. */

/* A test defines another version. */
#ifndef PSKIT_VERSION
#define PSKIT_VERSION "0.2.0"
#endif
#define PSKIT_PROTOCOL 1

#endif
