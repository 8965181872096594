#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define PSKIT_VERSION "0.1.0"
#define PSKIT_PROTOCOL 1

#endif
