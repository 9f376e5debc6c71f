"""Postgres: tables, repositories, notifications, the lease, and an embedded server."""
