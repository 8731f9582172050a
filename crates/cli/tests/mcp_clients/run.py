"""The official Python SDK of MCP as a member of a team: over HTTP and over the bridge.

Takes the binary `aion`. Starts a daemon of its own, and ends it. `cargo xtask mcp-clients` runs this.
"""

import asyncio
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

SCENARIO = """
[[agent."*".rule]]
otherwise = true
say = "Noted."
"""

# With a handshake; by asking first; the revision that has no handshake, at once.
MODES = ["legacy", "auto", "2026-07-28"]


class Daemon:
    """`aion serve` over a directory of its own, called with the standard library alone."""

    def __init__(self, aion, root):
        scenario = root / "scenario.toml"
        scenario.write_text(SCENARIO)
        command = [aion, "serve", "--json", "--port", "0", "--script", str(scenario)]
        command += ["--data-dir", str(root / "data")]
        environment = {"HOME": str(root), "PATH": os.environ.get("PATH", "")}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        serving = json.loads(self.process.stdout.readline())
        self.url = serving["url"]
        self.token = pathlib.Path(serving["token_file"]).read_text()

    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", "Bearer " + self.token)
        if data:
            request.add_header("Content-Type", "application/json")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def end(self):
        self.process.terminate()
        code = self.process.wait(timeout=60)
        assert code == 0, f"the daemon ended with {code}"


@contextlib.asynccontextmanager
async def over_http(_, made, mode):
    headers = {"Authorization": "Bearer " + made["token"]}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=30) as http:
        transport = streamable_http_client(made["url"], http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=30) as client:
            yield client


@contextlib.asynccontextmanager
async def over_the_bridge(aion, made, mode):
    environment = {
        "TEAM_MCP_PORT": str(made["port"]),
        "TEAM_MCP_TOKEN": made["token"],
        "TEAM_AGENT_SLOT_ID": str(made["slot_id"]),
    }
    server = StdioServerParameters(command=aion, args=["mcp", "bridge"], env=environment)
    async with Client(server, mode=mode, read_timeout_seconds=30) as client:
        yield client


def text(result):
    return result.content[0].text


async def as_lead(client):
    # Without a handshake nobody introduces himself.
    if client.server_info is not None:
        assert client.server_info.name == "aion-team", client.server_info
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert "team_spawn_agent" in tools, sorted(tools)
    assert tools["team_whoami"].annotations.read_only_hint is True
    assert tools["team_whoami"].meta["anthropic/alwaysLoad"] is True
    who = text(await client.call_tool("team_whoami"))
    assert who.startswith("name: team-lead\n"), who


async def as_teammate(client, daemon, team, said):
    tools = [tool.name for tool in (await client.list_tools()).tools]
    assert "team_send_message" in tools and "team_spawn_agent" not in tools, tools
    sent = await client.call_tool("team_send_message", {"to": "team-lead", "message": said})
    assert not sent.is_error and text(sent) == "Message sent to team-lead", sent
    messages = daemon.call("GET", team + "/messages?limit=500")["messages"]
    arrived = [message for message in messages if message["text"] == said]
    assert len(arrived) == 1 and arrived[0]["from"] == "s2" and arrived[0]["to"] == [1], arrived
    claims = {"slot_id": 1, "role": "lead", "from": "team-lead"}
    member = {"name": "eve", "prompt": "work"}
    refused = await client.call_tool("team_spawn_agent", member, meta=claims)
    assert refused.is_error and "may bring members in" in text(refused), refused
    members = daemon.call("GET", team + "/agents")["agents"]
    assert [member["slot_id"] for member in members] == [1, 2], members


async def act(aion, daemon):
    team = "/api/teams/" + daemon.call("POST", "/api/teams", {"name": "web"})["id"]
    daemon.call("POST", team + "/agents", {"name": "bob", "prompt": "wait"})
    doors = {"HTTP": over_http, "the bridge": over_the_bridge}
    for door, enter in doors.items():
        for mode in MODES:
            lead = daemon.call("POST", team + "/agents/1/credential")
            async with enter(aion, lead, mode) as client:
                await as_lead(client)
            bob = daemon.call("POST", team + "/agents/2/credential")
            async with enter(aion, bob, mode) as client:
                await as_teammate(client, daemon, team, f"over {door}, {mode}")
                daemon.call("DELETE", team + "/agents/2/credential")
                try:
                    ended = await client.call_tool("team_whoami")
                except (MCPError, httpx2.HTTPError, OSError):
                    ended = None
                assert ended is None, ended
            print(f"{door}, {mode}: lead and teammate did what they may", flush=True)


def main():
    aion = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="aion-clients-") as root:
        daemon = Daemon(aion, pathlib.Path(root))
        try:
            asyncio.run(act(aion, daemon))
        finally:
            daemon.end()
    print("the SDK is served at both doors")


main()
