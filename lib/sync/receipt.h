#ifndef SYNC_RECEIPT_H
#define SYNC_RECEIPT_H

/* What becomes of a push (ps-consistency(7)); the numbers are on the wire. */
enum push_status { PUSH_APPLIED = 1, PUSH_MERGED, PUSH_DUPLICATE, PUSH_LATE, PUSH_REFUSED, PUSH_SPLIT };

#endif
