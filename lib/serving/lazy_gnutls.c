/* SPDX-License-Identifier: ISC */
#include "serving/lazy_gnutls.h"

#include <gnutls/gnutls.h>

#include "core/lazy_load.h"

#define GNUTLS_CALL(type, name, params, args) \
	LAZY_CALL("libgnutls.so.30", "libgnutls30", type, name, params, args)

GNUTLS_CALL(int, gnutls_certificate_verify_peers2, (gnutls_session_t session, unsigned int *status),
    (session, status))
GNUTLS_CALL(const gnutls_datum_t *, gnutls_certificate_get_peers,
    (gnutls_session_t session, unsigned int *n), (session, n))

bool gnutls_peer_is_verified(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd,
	    MHD_CONNECTION_INFO_GNUTLS_SESSION);
	unsigned int status = 0, n = 0;

	if (!info || !info->tls_session || !gnutls_certificate_get_peers(info->tls_session, &n) ||
	    !n)
		return false;
	return gnutls_certificate_verify_peers2(info->tls_session, &status) == 0 && status == 0;
}
