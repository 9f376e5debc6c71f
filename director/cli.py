"""One command, `director`. Each sub-command is imported when it is used: a process carries what it runs, no more."""

from __future__ import annotations

import importlib

import click

COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("director.serve.command:serve_command", "Run the director: api, dns and planner as one process tree."),
    "demo": (
        "director.demo.command:demo_command",
        "Run it with a small live fleet, so that everything can be seen moving.",
    ),
    "agent": ("director.agent.command:agent_command", "Run in a region: scrape engines and gateways, send reports."),
    "decide": ("director.commands.offline:decide_command", "Decide offline, from a policy and a file of reports."),
    "simulate": ("director.sim.command:simulate_command", "Drive planner and decisions with a workload and faults."),
    "policy": ("director.commands.policy:policy_group", "Check, apply and roll back policies."),
    "explain": ("director.commands.ask:explain_command", "Ask a running director why a request goes where it goes."),
    "regions": ("director.commands.ask:regions_command", "The regions of a running director."),
    "plan": ("director.commands.ask:plan_command", "The plan in force."),
    "events": ("director.commands.ask:events_command", "What changed, when, and why."),
    "top": ("director.commands.top:top_command", "The fleet in a terminal, live."),
    "drain": ("director.commands.operate:drain_command", "Take no new sessions into a region, until a deadline."),
    "undrain": ("director.commands.operate:undrain_command", "End a drain."),
    "down": ("director.commands.operate:down_command", "Take a region out at once."),
    "up": ("director.commands.operate:up_command", "Bring a region back."),
    "cap": ("director.commands.operate:cap_command", "Limit a region's share of any route."),
    "dns": ("director.commands.dns:dns_group", "Ask the DNS responder."),
    "l7": ("director.commands.l7:l7_group", "Feed a proxy with fallbacks; hear from it how requests ended."),
    "token": ("director.commands.token:token_group", "Create, list and revoke bearer tokens."),
    "migrate": ("director.commands.migrate:migrate_command", "Bring the database's schema to this release."),
}


class LazyGroup(click.Group):
    """Knows its commands by name, and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Without importing any of them.
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from None


@click.command(cls=LazyGroup)
@click.version_option(package_name="region-director", prog_name="director")
def main() -> None:
    """The Region Director: which region should this LLM request enter?"""
