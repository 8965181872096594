# SPDX-License-Identifier: ISC
"""Peers without a key: usage strangers.py RUN.

Many connections that never finish their handshake, each opened again as soon as the server closes it,
while a peer with a key comes again and again.  Exits 0 when that peer was served each time."""

import os
import resource
import selectors
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "contrib", "python"))
import psclient as ps  # noqa: E402

STRANGERS, VISITS, PATIENCE = 5000, 20, 20


def hold(address, ready):
    """Keep STRANGERS connections open forever; report when the first ones are open."""
    chosen = selectors.DefaultSelector()

    def open_one():
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(address)
        chosen.register(sock, selectors.EVENT_READ)

    for _ in range(min(STRANGERS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 64)):
        open_one()
    os.write(ready, b"x")
    while True:
        for key, _ in chosen.select():
            try:
                gone = not key.fileobj.recv(4096)
            except OSError:
                gone = True
            if gone:
                chosen.unregister(key.fileobj)
                key.fileobj.close()
                open_one()


def visit(server, cluster):
    """Open and close a session, dialling again as the programs do.

    On a busy machine so many strangers can come during one handshake that it becomes the oldest half-open one
    and is closed."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return ps.Session(server["tcp"], ps.base64.b64decode(server["key"]), cluster.psk, cluster.secret,
                              timeout=PATIENCE).close()
        except (ps.ProtocolError, OSError):
            if time.monotonic() > end:
                raise


def main():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    cluster = ps.Cluster(sys.argv[1])
    server = cluster.view["servers"][0]
    host, port = server["tcp"].rsplit(":", 1)
    heard, ready = os.pipe()
    child = os.fork()
    if child == 0:
        hold((host, int(port)), ready)
    try:
        os.read(heard, 1)
        for _ in range(VISITS):
            visit(server, cluster)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


main()
