#ifndef KERN_CLONES_H
#define KERN_CLONES_H

/* KERN_CLONES before a function compiles it for several instruction sets; the
 * loader picks one (an ifunc), once a process.  Callers see one name.  Write
 * it before small functions that are loops and little else, and let them
 * associate in one fixed order, so that every clone gives the same bits.
 *
 * Empty where it cannot work: the resolver runs before the sanitizers are set
 * up; ifuncs need glibc; and clang 14 names the function "f.ifunc", so that no
 * other object file finds it. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(PS_SANITIZED)
#define KERN_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KERN_CLONES
#endif

#endif
