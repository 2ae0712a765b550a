"""Follows a growing and pruned log over WebSocket, as a crowd of clients that do what clients do.

    python3 subscribers.py CONFIG

CONFIG is a JSON object: `servers` (addresses), `token`, `workspace_id`, `begins` (a position), `subscribers`
(how many), `stall_secs` (the longest stall), `seed`. A line on standard input, the last position of the log,
says that nothing is written any more. The token must see every event.

Each client connects to one server or another, takes some events, and then goes away, breaks the connection,
reads nothing for a while, sleeps, or goes on. It resumes by the position of its last event, by a resume
token, or as a durable consumer that acknowledges now and then. What it gets is checked at the end: within a
connection each event follows the one before it and links to it; over connections nothing is skipped but what
a `must_refetch` has told was pruned, and that only where something was; a consumer is sent again only what it
has not acknowledged.

Prints one object: `connections`, `events`, `told` (how often a client was told of a floor), `faults`, and
`controls`: how often the check has found what is broken on purpose in a copy of what was received.
"""

import asyncio
import copy
import json
import random
import re
import sys

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

EVENT = re.compile(r'\{"id":(\d+),"lsn":\d+,"prev_hash":"([^"]+)","content_hash":"([^"]+)"')
FINISHES_WITHIN = 1800


class Follower:
    """A client, and what it has received: a list of connections."""

    def __init__(self, number, config, over):
        self.config, self.over = config, over
        self.random = random.Random(config["seed"] * 1000 + number)
        self.consumer = f"crowd-{number}" if number % 4 == 0 else None
        self.begins = self.at = config["begins"]
        self.token = None
        self.floor = None
        self.connections = []

    def first_frame(self):
        """How it goes on, and the position that it names, if it does."""
        first = {"token": self.config["token"]}
        wanted = {"workspace_id": self.config["workspace_id"]}
        if self.consumer:
            first |= {"at_least_once": True, "consumer_id": self.consumer}
        if self.floor:
            after, self.floor = self.floor - 1, None
            return first | {"filter": wanted, "after_id": after}, after
        if self.token and self.random.random() < 0.4 and not self.consumer:
            return first | {"resume_token": self.token[1]}, self.token[0]
        if self.consumer and self.connections:
            return first | {"filter": wanted}, None
        return first | {"filter": wanted, "after_id": self.at}, self.at

    def is_done(self):
        return self.over.done() and self.at >= self.over.result()

    async def follow(self):
        while not self.is_done():
            server = self.random.choice(self.config["servers"])
            try:
                async with asyncio.timeout(120):
                    await self.connection(server)
            except (OSError, TimeoutError, InvalidHandshake, InvalidMessage, ConnectionClosed):
                await asyncio.sleep(0.05)

    async def connection(self, server):
        first, asked = self.first_frame()
        received = {"asked": asked, "begins": None, "lsns": [], "told": None, "broken": []}
        options = {"ping_interval": None, "max_queue": 8, "open_timeout": 60, "compression": None, "proxy": None}
        async with connect(f"ws://{server}/ws/subscribe", **options) as socket:
            await socket.send(json.dumps(first))
            self.connections.append(received)
            try:
                await self.receive(socket, received)
            except ConnectionClosed as closed:
                code = closed.rcvd.code if closed.rcvd else None
                if code == 1008 and received["told"] is None:
                    received["broken"].append(f"closed: {closed.rcvd.reason}")
                raise

    async def receive(self, socket, received):
        left, last_hash = self.random.randint(1, 400), None
        while not self.is_done():
            try:
                async with asyncio.timeout(0.3):
                    frame = await socket.recv()
            except TimeoutError:
                left -= 20
                frame = None
            event = EVENT.match(frame) if frame else None
            if event:
                lsn = int(event[1])
                received["lsns"].append(lsn)
                if last_hash not in (None, event[2]):
                    received["broken"].append(f"{lsn} does not link to the event before it")
                last_hash, self.at, left = event[3], max(self.at, lsn), left - 1
                if self.consumer and self.random.random() < 0.1:
                    await self.say(socket, {"ack": lsn})
            elif frame:
                self.status(json.loads(frame), received)
                if received["told"]:
                    return
                if frame.startswith('{"type":"replay_truncated"'):
                    await self.say(socket, {"after_id": json.loads(frame)["after_id"]})
            if left <= 0:
                left = self.random.randint(1, 400)
                if not await self.acts(socket):
                    return

    async def say(self, socket, frame):
        try:
            await socket.send(json.dumps(frame))
        except ConnectionClosed:
            # What has come before the close, and why, is still to be read.
            pass

    def status(self, frame, received):
        if frame["type"] == "must_refetch":
            received["told"] = self.floor = frame["floor"]
        elif frame["type"] == "subscribe_ack":
            received["begins"] = frame["after_id"]
        if "resume_token" in frame:
            self.token = (frame["after_id"], frame["resume_token"])

    async def acts(self, socket):
        """Does what a client does, and returns whether the connection goes on."""
        what = self.random.random()
        if what < 0.3:
            return False
        if what < 0.5:
            socket.transport.abort()
            return False
        if what < 0.7:
            # Meanwhile nothing is read from the socket.
            await asyncio.sleep(self.random.random() * self.config["stall_secs"])
            return True
        if what < 0.8:
            await socket.close()
            await asyncio.wait([self.over], timeout=self.random.random() * 4 * self.config["stall_secs"])
            return False
        return True


def check(begins, connections, last, is_durable):
    """What is wrong with what a client has received."""
    faults, at, told, sure = [], begins, None, begins
    for received in connections:
        faults += received["broken"]
        position = received["begins"]
        if position is None:
            if received["told"] is not None:
                # A consumer is told of the place where it stands, which may be behind what it has seen.
                stands = received["asked"] if received["asked"] is not None else sure
                if received["told"] <= stands + 1:
                    faults.append(f"told of {received['told']} at {stands}, where nothing is missing")
                told = received["told"]
            continue
        if received["asked"] is not None and position != received["asked"]:
            faults.append(f"began after {position} instead of {received['asked']}")
        if position > at and (told is None or position != told - 1):
            faults.append(f"skipped from {at} to {position}")
        if is_durable and position < sure:
            faults.append(f"went back to {position}, behind {sure}")
        sure = position if is_durable else sure
        for lsn in received["lsns"]:
            if lsn != position + 1:
                faults.append(f"{lsn} came after {position}")
            position = lsn
        at = max(at, position)
        if received["told"] is not None:
            if received["told"] <= position + 1:
                faults.append(f"told of {received['told']} at {position}, where nothing is missing")
            told = received["told"]
    if at < last:
        faults.append(f"ends at {at} of {last}")
    return faults


def controls(follower, last):
    """Whether what is broken on purpose is found."""

    def is_found(breaks):
        connections = copy.deepcopy(follower.connections)
        breaks(max((received["lsns"] for received in connections), key=len))
        return bool(check(follower.begins, connections, last, bool(follower.consumer)))

    def swap(lsns):
        lsns[0], lsns[1] = lsns[1], lsns[0]

    untold = copy.deepcopy(follower.connections)
    for received in untold:
        received["told"] = None
    # Of a client that went on behind the floor; one that came to it by an old token has missed nothing.
    at, has_jumped = follower.begins, False
    for received in follower.connections:
        has_jumped |= (received["begins"] or 0) > at
        at = max([at] + received["lsns"])
    return {
        "gap": is_found(lambda lsns: lsns.pop(1)),
        "reorder": is_found(swap),
        "repetition": is_found(lambda lsns: lsns.insert(1, lsns[0])),
        "untold": bool(check(follower.begins, untold, last, bool(follower.consumer))) if has_jumped else None,
    }


async def main(config):
    over = asyncio.get_running_loop().create_future()

    async def end():
        line = await asyncio.to_thread(sys.stdin.readline)
        over.set_result(int(line))

    followers = [Follower(number, config, over) for number in range(config["subscribers"])]
    ends = asyncio.create_task(end())
    following = [asyncio.create_task(follower.follow()) for follower in followers]
    late = []
    _, pending = await asyncio.wait(following, timeout=FINISHES_WITHIN)
    for number, task in enumerate(following):
        if task in pending:
            task.cancel()
            late.append(f"{number}: did not come to the end")
        elif task.exception():
            late.append(f"{number}: {task.exception()!r}")
    await ends
    last = over.result()
    faults = late + [
        f"{number}: {fault}"
        for number, follower in enumerate(followers)
        for fault in check(follower.begins, follower.connections, last, bool(follower.consumer))
    ]
    whole = [follower for follower in followers if any(len(c["lsns"]) > 2 for c in follower.connections)]
    found = [controls(follower, last) for follower in whole]
    connections = [received for follower in followers for received in follower.connections]
    report = {
        "connections": len(connections),
        "events": sum(len(received["lsns"]) for received in connections),
        "told": sum(received["told"] is not None for received in connections),
        "faults": faults[:20],
        "controls": {
            name: {
                "broken": sum(control[name] is not None for control in found),
                "found": sum(control[name] is True for control in found),
            }
            for name in ("gap", "reorder", "repetition", "untold")
        },
    }
    print(json.dumps(report))


asyncio.run(main(json.loads(sys.argv[1])))
