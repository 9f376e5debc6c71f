"""`GET /`: the fleet as one plain table, rendered on the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import Response, get
from litestar.datastructures import State
from litestar.handlers import BaseRouteHandler

from director.http.guards import Connection, needs
from director.http.operations.plans import plan_summary
from director.http.operations.regions import region_rows
from director.http.problem import ProblemRaised
from director.http.state import shared

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

_FOLDER = Path(__file__).parent.parent / "templates"
_templates = Environment(
    loader=FileSystemLoader(_FOLDER),
    # Every name on the page may come from a report, and so from somebody else.
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _tokens_per_s(value: float) -> str:
    """Three figures and a unit: 182 k, 1.25 M."""
    for limit, unit in ((1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value * 100:.0f} %"


_templates.filters.update(tokens_per_s=_tokens_per_s, percent=_percent)


def to_login(connection: Connection, handler: BaseRouteHandler) -> None:
    """A browser without a session is sent to the form; anything else is told 401 like everywhere."""
    try:
        needs("read")(connection, handler)
    except ProblemRaised as raised:
        if raised.problem.status == 401 and "text/html" in connection.headers.get("accept", ""):
            raise SentElsewhere("/login") from None
        raise


class SentElsewhere(Exception):
    """Ends a page with a redirect."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@get("/", guards=[to_login])
async def page(state: State) -> Response[bytes]:
    """Regions with their deployments."""
    http = shared(state)
    table = http.view.table
    rows: list[dict[str, Any]] = [] if table is None else await region_rows(http, table)
    return render(
        "regions.html",
        rows=rows,
        plan=None if table is None else plan_summary(http, table),
        readiness=http.view.readiness(),
        replica=http.view.name,
    )


def render(template: str, status: int = 200, **values: Any) -> Response[bytes]:
    """A page from a template, under the strict policy."""
    text = _templates.get_template(template).render(**values)
    return Response(text.encode(), status_code=status, media_type="text/html", headers=PAGE_HEADERS)


@get("/static/page.css")
async def style() -> Response[bytes]:
    """The page's style sheet: no token, it says nothing about the fleet."""
    return Response(
        (_FOLDER / "page.css").read_bytes(),
        media_type="text/css",
        headers={"x-content-type-options": "nosniff", "cache-control": "max-age=3600"},
    )
