/* SPDX-License-Identifier: ISC */
#ifndef MATH_CLONES_H
#define MATH_CLONES_H

/* KERN_CLONES before a function compiles it for several instruction sets; the loader chooses one
 * (an ifunc), once a process. Callers see one name. Use it for small functions that are mostly a
 * loop, and fix the order of additions, so that every clone gives the same bits.
 *
 * It is empty where it cannot work: under sanitizers, because the resolver runs before they are set
 * up; without glibc, which ifuncs need; and with clang 14, which names the function "f.ifunc", so
 * that no other object finds it. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(PS_SANITIZED)
#define KERN_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KERN_CLONES
#endif

#endif
