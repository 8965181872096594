# SPDX-License-Identifier: ISC
"""Try to open a session with a server, using a key of the run directory, and print the outcome.

    knock.py RUN KEY SERVER [SECONDS]

Prints "admitted" or "refused"; with SECONDS, also "closed" if the session ends within that time.
"""

import json
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "contrib", "python"))
import psclient


def main():
    run, key, name = sys.argv[1:4]
    # Read the address from state.json: the coordinator may not be running.
    with open(os.path.join(run, "state.json"), encoding="utf-8") as f:
        server = json.load(f)["servers"][int(name.rsplit("-", 1)[1])]
    try:
        session = psclient.Session(
            server["tcp"],
            psclient.base64.b64decode(server["key"]),
            psclient.read_key(run, "psk"),
            psclient.read_key(run, f"{key}.key"),
        )
        session.send(psclient.BATCH)
    except (psclient.ProtocolError, OSError) as e:
        print(f"refused: {e}")
        return
    print("admitted", flush=True)
    if len(sys.argv) > 4:
        session.sock.settimeout(float(sys.argv[4]))
        try:
            while session.sock.recv(4096):
                pass
            print("closed")
        except socket.timeout:
            print("still open")


main()
