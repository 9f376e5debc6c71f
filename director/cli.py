"""One command, `director`. Each sub-command is imported when it is used: a process carries what it runs, no more."""

from __future__ import annotations

import errno
import importlib
import sys
from typing import Any

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
    "keys": ("director.commands.keys:keys_group", "Rotate the keys that sign affinity tokens."),
    "migrate": ("director.commands.migrate:migrate_command", "Bring the database's schema to this release."),
}


class LazyGroup(click.Group):
    """Knows its commands by name, and imports one when it is asked for.

    Its errors are one line: what is wrong, and what to do.
    """

    def main(self, *args: Any, **extra: Any) -> Any:
        if not extra.setdefault("standalone_mode", True):
            return super().main(*args, **extra)
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.UsageError as error:
            _end(f"{error.format_message().rstrip('.')} (see {_help(error)})", error.exit_code)
        except click.ClickException as error:
            _end(error.format_message(), error.exit_code)
        except click.Abort:
            _end("stopped", 130)
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            # Whoever read our output has gone (`director events | head`).
            sys.stdout = None
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)

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


def _help(error: click.UsageError) -> str:
    return f"{error.ctx.command_path if error.ctx is not None else 'director'} --help"


def _end(line: str, code: int) -> None:
    click.echo(f"director: {line}", err=True)
    sys.exit(code)


@click.command(cls=LazyGroup)
@click.version_option(package_name="region-director", prog_name="director")
def main() -> None:
    """The Region Director: which region should this LLM request enter?"""
