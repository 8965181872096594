#ifndef BASE_VERSION_H
#define BASE_VERSION_H

/* A test builds one of another version. */
#ifndef PSKIT_VERSION
#define PSKIT_VERSION "0.1.0"
#endif
#define PSKIT_PROTOCOL 1

#endif
