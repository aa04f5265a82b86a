"""The door over HTTP: JSON-RPC by POST and WebSocket, events by SSE. Opened on request only."""
