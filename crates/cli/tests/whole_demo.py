#!/usr/bin/env python3
"""The whole demo through the API alone, with nothing but Python's standard library.

    whole_demo.py URL TOKEN_FILE WORKSPACE "MESSAGE"

Makes a team, sends it the message, watches it over the WebSocket, answers its requests, and says
at the end what it saw, as one JSON object.
"""

import base64
import hashlib
import http.client
import json
import os
import socket
import struct
import sys
from urllib.parse import urlsplit


class Api:
    """REST: every call carries the token, every change an idempotency key."""

    def __init__(self, url, token_file):
        with open(token_file, encoding="ascii") as file:
            self.token = file.read().strip()
        self.host = urlsplit(url).netloc

    def call(self, method, path, body=None, expect=(200, 201, 202)):
        connection = http.client.HTTPConnection(self.host)
        headers = {"Authorization": "Bearer " + self.token}
        data = None
        if body is not None:
            data = json.dumps(body)
            headers["Content-Type"] = "application/json"
            headers["Idempotency-Key"] = os.urandom(8).hex()
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status not in expect:
            raise SystemExit(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text) if text else None

    def try_without_token(self):
        connection = http.client.HTTPConnection(self.host)
        connection.request("GET", "/api/teams")
        return connection.getresponse().status


class Socket:
    """A WebSocket by hand (RFC 6455): the handshake, text frames, pings."""

    def __init__(self, api):
        host, port = api.host.split(":")
        self.stream = socket.create_connection((host, int(port)))
        self.buffer = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self.stream.sendall(
            (
                f"GET /api/ws HTTP/1.1\r\nHost: {api.host}\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
                f"Authorization: Bearer {api.token}\r\n\r\n"
            ).encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.read(1)
        magic = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(magic.encode()).digest()).decode()
        assert head.startswith(b"HTTP/1.1 101 "), head
        assert f"sec-websocket-accept: {accept}".lower() in head.decode().lower(), head

    def read(self, count):
        while len(self.buffer) < count:
            piece = self.stream.recv(65536)
            if not piece:
                raise SystemExit("the WebSocket ended")
            self.buffer += piece
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def send(self, opcode, payload):
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        size = len(payload)
        length = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack(">H", size)
        self.stream.sendall(bytes([0x80 | opcode]) + length + mask + masked)

    def say(self, value):
        self.send(1, json.dumps(value).encode())

    def next(self):
        while True:
            first, second = self.read(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack(">H", self.read(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self.read(8))
            payload = self.read(size)
            opcode = first & 0x0F
            if opcode == 1:
                return json.loads(payload)
            if opcode == 9:
                self.send(10, payload)
            elif opcode == 8:
                raise SystemExit(f"the WebSocket was closed: {payload!r}")


def decision(asked):
    """Files for the whole team, everything else once."""
    if asked["kind"] == "permission" and asked["detail"]["tool"] == "Write":
        return {"decision": "allow", "scope": "team"}
    if asked["kind"] in ("permission", "network"):
        return {"decision": "allow"}
    if asked["kind"] == "question":
        options = asked["detail"].get("options")
        return {"decision": "answer", "text": options[0]} if options else {"decision": "decline"}
    if asked["kind"] in ("spawn", "create_team", "raise_budget", "delete_team"):
        return {"decision": "consent"}
    # A plan is the lead's to decide, and a member answers a request to leave by itself.
    return None


def settled(api, team):
    state = api.call("GET", f"/api/teams/{team}")
    row = next(row for row in api.call("GET", "/api/teams")["teams"] if row["id"] == team)
    counts = state["task_counts"]
    idle = all(agent["status"] == "idle" for agent in state["agents"])
    open_tasks = counts["pending"] + counts["in_progress"]
    waits = state["requests_open"] + row["messages_open"]
    return counts["completed"] > 0 and idle and open_tasks + waits == 0


def main():
    url, token_file, workspace, message = sys.argv[1:]
    api = Api(url, token_file)
    assert api.try_without_token() == 401

    team = api.call("POST", "/api/teams", {"name": "open-day", "workspace": workspace})["id"]
    events = Socket(api)
    events.say({"type": "subscribe", "team_id": team, "after": 0})
    assert events.next() == {"type": "subscribed", "team_id": team, "after": 0}
    accepted = api.call("POST", f"/api/teams/{team}/messages", {"text": message})

    seen, decided, streamed = [], 0, 0
    while True:
        event = events.next()
        if event["type"] == "message.stream":
            streamed += 1
            continue
        assert event["type"] != "error", event
        assert event["seq"] == len(seen) + 1, event
        seen.append(event)
        if event["type"] == "team.approval.requested":
            for asked in api.call("GET", "/api/approvals")["approvals"]:
                answer = decision(asked)
                if answer and asked["team"] == team:
                    # Whoever comes second is told so.
                    path = "/api/approvals/" + asked["request_id"]
                    api.call("POST", path, answer, expect=(202, 409))
                    decided += 1
        ends = ("team.turn.ended", "team.agent.removed", "team.approval.resolved")
        if event["type"] in ends and settled(api, team):
            break

    # What the WebSocket said is what REST says.
    listed, after = [], 0
    while after is not None:
        page = api.call("GET", f"/api/teams/{team}/events?after={after}&limit=100")
        listed += page["events"]
        after = page.get("next")
    assert listed[: len(seen)] == seen
    assert any(event["seq"] == accepted["seq"] for event in listed)
    state = api.call("GET", f"/api/teams/{team}/state?at={len(seen)}")
    result = {
        "team": team,
        "events": len(seen),
        "streamed": streamed,
        "decided": decided,
        "completed": state["team"]["task_counts"]["completed"],
        "members": [agent["agent_name"] for agent in state["team"]["agents"]],
        "dead": sum(e["data"]["type"] == "message_dead_lettered" for e in listed),
    }
    print(json.dumps(result))


main()
