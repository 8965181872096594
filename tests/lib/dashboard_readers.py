#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""Many readers of the dashboard's feed at once: ADDRESS SECRET PID

A hundred readers wait and read, fifty never read the answers that they requested.  The process PID must not grow, and the
page must be served all the time."""
import http.client
import json
import os
import socket
import sys
import threading
import time

address, secret, pid = sys.argv[1:]
host, port = address.split(":")
HEADERS = {"Authorization": "Session " + secret}


def rss():
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def get(path, headers):
    c = http.client.HTTPConnection(host, int(port), timeout=20)
    c.request("GET", path, headers=headers)
    answer = c.getresponse()
    return answer.status, answer.read()


ticks, statuses, lock = set(), {}, threading.Lock()


def reader(end):
    since = 0
    while time.monotonic() < end:
        try:
            status, body = get(f"/v1/feed?since={since}", HEADERS)
        except (OSError, http.client.HTTPException):
            status, body = "refused", b""
        # Reconnect as the page does, but sooner.
        if status != 200:
            time.sleep(0.1)
        with lock:
            statuses[status] = statuses.get(status, 0) + 1
            if status == 200:
                since = json.loads(body)["tick"]
                ticks.add(since)


def slow():
    s = socket.create_connection((host, int(port)))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(0.1)
    request = f"GET /v1/feed HTTP/1.1\r\nHost: {address}\r\nAuthorization: Session {secret}\r\n\r\n".encode()
    try:
        for _ in range(100):
            s.sendall(request)
    except OSError:
        pass
    return s


get("/v1/feed", HEADERS)
before, began = rss(), time.monotonic()
stuck = [slow() for _ in range(50)]
readers = [threading.Thread(target=reader, args=(began + 4,)) for _ in range(100)]
for r in readers:
    r.start()
pages = failed = 0
while any(r.is_alive() for r in readers):
    # Of too many connections from one address the oldest is closed.  That may be this one, but not
    # every time.
    try:
        assert get("/", {})[0] == 200
        pages += 1
        failed = 0
    except (OSError, http.client.HTTPException):
        failed += 1
    assert failed < 5
    time.sleep(0.2)
seconds = time.monotonic() - began
grown = rss() - before
for s in stuck:
    s.close()
assert statuses.get(200, 0) > 100, statuses
assert set(statuses) <= {200, 429, "refused"}, statuses
# The coordinator makes the feed at most once a second, however many read it.
assert len(ticks) <= seconds + 2, (len(ticks), seconds)
# Sanitizers keep freed memory.
assert grown < 32768 or os.environ.get("PS_SANITIZED"), f"{grown} kB more"
print(f"{len(readers)} readers and {len(stuck)} slow ones in {seconds:.1f} s: {len(ticks)} pictures, {statuses}, {pages} pages, {grown} kB more")
