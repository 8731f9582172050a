//! The edge: REST, WebSocket, MCP, auth.
