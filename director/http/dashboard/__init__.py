"""The dashboard: pages rendered on the server from the same objects that decide."""
