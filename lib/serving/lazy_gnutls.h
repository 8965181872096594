/* SPDX-License-Identifier: ISC */
#ifndef SERVING_LAZY_GNUTLS_H
#define SERVING_LAZY_GNUTLS_H

#include <microhttpd.h>
#include <stdbool.h>

/* Has the client of this TLS connection shown a certificate that an authority of serve_ca has
 * issued, and that is valid now? libmicrohttpd asks clients for one, but leaves this to its user.
 * GnuTLS is loaded already, because libmicrohttpd needs it; it is not linked a second time. */
bool gnutls_peer_is_verified(struct MHD_Connection *mhd);

#endif
