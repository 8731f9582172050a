"""A server of the official Python SDK of MCP: over standard input and output, or HTTP at a port."""

import os
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("foreign")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def variables() -> str:
    """Names the variables of its environment."""
    return " ".join(sorted(os.environ))


@server.tool()
def refuse() -> str:
    """Fails."""
    raise ValueError("not today")


@server.tool()
def leave() -> str:
    """Ends the server in the middle of a call."""
    print("I leave", file=sys.stderr, flush=True)
    os._exit(7)


if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run()
