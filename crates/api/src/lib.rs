//! The words spoken over HTTP, WebSocket and the command line.
