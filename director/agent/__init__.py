"""Runs in a region: scrapes engines and Endpoint Pickers, summarises them per model version, reports to directors."""
