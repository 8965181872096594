# SPDX-License-Identifier: ISC
"""A malicious worker that keeps its heartbeats up: usage absurd.py RUN RANK STEP|mute.

It joins as that rank by hand.  With a STEP it sends a push, a CLOCK and a pull of that step, each on a
session of its own, prints the answers, and goes on with heartbeats that report the step.  With `mute` it
pushes at its first step and sends no CLOCK; it prints the receipt of its push, and then, when it has been
declared lost, the answer to a CLOCK.  It ends when the coordinator ends its session."""

import base64
import json
import os
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "contrib", "python"))
import psclient as ps  # noqa: E402

CLOCK, CLOCKED = 14, 15
RUN, RANK, WHAT = sys.argv[1], int(sys.argv[2]), sys.argv[3]
INCARNATION = int.from_bytes(os.urandom(7), "little") + 1
EXAMPLES = 400


def say(*words):
    print(*words, flush=True)


def control_session():
    psk, server = ps.read_key(RUN, "psk"), ps.read_key(RUN, "coordinator.pub")
    out = ps.Session(os.path.join(os.path.abspath(RUN), "coordinator.sock"), server, psk,
                     ps.read_key(RUN, f"worker-{RANK}.key"), incarnation=INCARNATION, timeout=None)
    out.send(ps.CTL, json.dumps({"op": "worker_join", "rank": RANK, "pid": os.getpid(), "host": "absurd",
                                 "examples": EXAMPLES, "tables": []}).encode(), seq=1)
    while "rank" not in (answer := out.text()):
        if "error" in answer:
            sys.exit(f"worker-{RANK} cannot join: {answer}")
    return out


def send_heartbeats(control, step):
    """Send heartbeats for as long as the coordinator takes them."""
    beat = json.dumps({"op": "beat", "stats": {"step": step, "settings": 1, "doing": "compute", "doing_seconds": 0}}).encode()
    try:
        while True:
            control.send(ps.CTL, beat)
            time.sleep(0.1)
    except OSError:
        os._exit(0)


def wait_until_active():
    """Wait for a view in which this worker is active."""
    while True:
        found = ps.Cluster(RUN)
        if found.view["phase"] == "running" and found.view["workers"][RANK]["state"] == "active":
            return found
        time.sleep(0.02)


def open_session(found):
    server = found.view["servers"][0]
    return ps.Session(server["tcp"], base64.b64decode(server["key"]), found.psk, ps.read_key(RUN, f"worker-{RANK}.key"),
                      incarnation=INCARNATION, rank=RANK, timeout=60)


def make_dense_push(found):
    table = next(t for t in found.tables.values() if not t["sparse"])
    n = table["rows"] * table["cols"]
    return struct.pack(f"<{n}f", *[1e-6] * n), {"table": table["id"], "part": 0, "examples": 1, **found.era()}


def print_answer(found, name, kind, payload, wait, **fields):
    """Send one record, and print how the server answers."""
    s = open_session(found)
    s.send(kind, payload, **fields)
    # A record for a future step is not answered: do not wait.
    if not wait:
        say(name, "sent")
        return s
    try:
        record = s.receive()
        if record.type != ps.NACK:
            say(name, "taken")
            return s
        try:
            s.receive()
        except ps.ProtocolError:
            say(name, "refused and closed")
    except ps.ProtocolError:
        say(name, "closed")
    return s


def send_absurd_step(found, step):
    payload, push = make_dense_push(found)
    sync, refused = found.view["config"]["sync"], step >= 1 << 62
    kept = [
        print_answer(found, "clock", CLOCK, b"", True, step=step, examples=1, **found.era()),
        print_answer(found, "push", ps.PUSH, payload, refused or sync != "bsp", step=step, **push),
        print_answer(found, "pull", ps.PULL, struct.pack("<III", push["table"], 0, 1), refused or sync == "asp", step=step,
               seq=1, **found.era()),
    ]
    return kept


def push_without_clock(found):
    payload, push = make_dense_push(found)
    step = found.view["workers"][RANK].get("from", 0)
    threading.Thread(target=send_heartbeats, args=(control, step), daemon=True).start()
    s = open_session(found)
    s.send(ps.PUSH, payload, step=step, **push)
    body = s.expect(ps.RECEIPT).payload
    say("receipt", ps.STATUS[struct.unpack("<HBBIQQII", body)[1]])
    # In asp and ssp the receipt comes at once.  Send the CLOCK when the worker has been declared
    # lost.
    while ps.Cluster(RUN).view["workers"][RANK]["state"] == "active":
        time.sleep(0.1)
    s.send(CLOCK, b"", step=step, examples=1, **found.era())
    try:
        s.expect(CLOCKED)
        say("clock taken")
    except ps.ProtocolError as fault:
        say("clock", fault)
    while True:
        time.sleep(1)


control = control_session()
cluster = wait_until_active()
if WHAT == "mute":
    push_without_clock(cluster)
else:
    held = send_absurd_step(cluster, int(WHAT))
    send_heartbeats(control, min(int(WHAT), (1 << 63) - 1))
