"""`/select-region`: bytes in, bytes out, memory only. The same function serves the fast protocol and plain ASGI."""
