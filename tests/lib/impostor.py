# SPDX-License-Identifier: ISC
"""A worker's key that claims a rank: usage impostor.py RUN KEY RANK.  Prints how the first server answers
the handshake of a session with that key, the rank, and the incarnation of the rank's holder."""

import base64
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "contrib", "python"))
import psclient as ps  # noqa: E402

RUN, KEY, RANK = sys.argv[1], sys.argv[2], int(sys.argv[3])
CLUSTER = ps.Cluster(RUN)
SERVER = CLUSTER.view["servers"][0]
HOLDER = int(CLUSTER.view["workers"][RANK]["incarnation"])
try:
    ps.Session(SERVER["tcp"], base64.b64decode(SERVER["key"]), CLUSTER.psk, ps.read_key(RUN, KEY + ".key"), rank=RANK,
               incarnation=HOLDER)
    print("welcome")
except ps.ProtocolError as error:
    print(error)
