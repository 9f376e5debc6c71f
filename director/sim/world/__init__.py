"""The model of everything outside the director: engines, regions, their agents, clients and what goes wrong."""
