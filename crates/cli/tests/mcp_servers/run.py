"""Servers of the official Python SDK of MCP as tools of an agent: over standard input and output,
and over HTTP.

Takes the binary `aion`. `cargo xtask mcp-clients` runs this.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

SERVER = str(pathlib.Path(__file__).with_name("server.py"))

SCENARIO = r"""
[[agent.team-lead.rule]]
when = [{ given = "Begin" }]
call = [
  { tool = "mcp__local__add", input = { a = 2, b = 40 }, outcome = "ok", expect = "^42$" },
  { tool = "mcp__remote__add", input = { a = 3, b = 40 }, outcome = "ok", expect = "^43$" },
  { tool = "mcp__local__variables", outcome = "ok", expect = "FOREIGN_KEY" },
  { tool = "mcp__local__refuse", outcome = "failed", expect = "refuse" },
  { tool = "mcp__local__leave", outcome = "failed", expect = "may have done its work" },
  { tool = "mcp__local__add", input = { a = 4, b = 40 }, outcome = "ok", expect = "^44$" },
  { tool = "mcp__local__add", input = { a = "x" }, outcome = "failed" },
]
then = "All of it works."
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main(aion):
    root = pathlib.Path(tempfile.mkdtemp(prefix="aion-mcp-"))
    work = root / "work"
    work.mkdir()
    port = free_port()
    settings = root / "config.toml"
    settings.write_text(
        f"""
[mcp_servers.local]
command = "{sys.executable}"
args = ["{SERVER}"]
env = {{ FOREIGN_KEY = "env:KEY_OF_THE_PERSON" }}

[mcp_servers.remote]
url = "http://127.0.0.1:{port}/mcp"
"""
    )
    scenario = root / "scenario.toml"
    scenario.write_text(SCENARIO)
    environment = {
        "HOME": str(root),
        "PATH": os.environ.get("PATH", ""),
        "AION_CONFIG": str(settings),
        "KEY_OF_THE_PERSON": "canary-of-the-person",
    }
    remote = subprocess.Popen(
        [sys.executable, SERVER, str(port)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not answers(port):
            assert remote.poll() is None and time.monotonic() < deadline, "it does not listen"
            time.sleep(0.05)
        command = [aion, "run", "Begin", "--no-daemon", "--script", str(scenario), "--yes", "--json"]
        ran = subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, timeout=300
        )
    finally:
        remote.terminate()
        remote.wait(timeout=60)
    last = json.loads(ran.stdout.splitlines()[-1])
    assert last["status"] == "completed", (last, ran.stderr)
    assert last["answer"] == "All of it works.", last
    assert "canary-of-the-person" not in ran.stdout + ran.stderr
    for path in root.rglob("*"):
        if path.is_file():
            assert b"canary-of-the-person" not in path.read_bytes(), path
    print("servers over standard input and output and over HTTP: called, failed, begun again")


main(os.path.abspath(sys.argv[1]))
