"""The process tree: a supervisor, and the roles api, dns and planner as processes of their own.

`supervisor` starts and restarts, `child` is one process of it, `role` is what a child runs, `prepare` migrates and
imports a policy before the roles start, `running` says on disk where everything is.
"""
