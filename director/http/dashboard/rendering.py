"""Pages from templates, under a strict policy: no script and no style but our own files, nothing inline, no CDN."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Response, get
from litestar.connection import ASGIConnection
from markupsafe import Markup

from director.http.dashboard import words
from director.http.dashboard.session import Session
from director.http.problem import Problem, ProblemRaised
from director.http.replies import AnyRequest
from director.http.state import HttpState

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    # An address carries tenants and sessions: it is told to nobody, and no other window reaches ours.
    "cross-origin-opener-policy": "same-origin",
}
THEME_COOKIE = "director_theme"
TABS = (
    ("fleet", "/", "Fleet"),
    ("why", "/dashboard/why", "Why"),
    ("timeline", "/dashboard/timeline", "Timeline"),
    ("act", "/dashboard/act", "Act"),
    ("policy", "/dashboard/policy", "Policy"),
)
STATIC = {
    "dashboard.css": "text/css",
    "dashboard.js": "text/javascript",
    "timeline.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "uplot.min.js": "text/javascript",
    "uplot.min.css": "text/css",
    "icon.svg": "image/svg+xml",
    "LICENSES.txt": "text/plain",
}
REASONS = {
    "no_plan": "no plan was ever read",
    "no_region_reported": "no region has reported yet",
    "database_unavailable": "the database cannot be reached: figures below are from memory",
    "planner_silent": "the planner is silent",
    "fleet_silent": "so much of the fleet fell silent at once that its inputs are frozen",
    "snapshot": "serving from the snapshot on disk",
}


@cache
def environment() -> Environment:
    templates = Environment(
        loader=PackageLoader("director.http.dashboard"),
        # Every name on a page may come from a report, and so from somebody else.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(words.FILTERS)
    templates.globals.update(static=static_path, bar=bar, query=query, tabs=TABS)
    return templates


@cache
def _static_bytes(name: str) -> bytes:
    return (resources.files("director.http.dashboard") / "static" / name).read_bytes()


@cache
def static_path(name: str) -> str:
    """Where a file is served. Its content is in the address, so that it can be kept for ever."""
    return f"/static/{name}?v={sha256(_static_bytes(name)).hexdigest()[:12]}"


@cache
def land_path() -> str:
    """The outline of the land as an SVG path on a plane of 720 × 317."""
    path: str = msgspec.json.decode(_static_bytes("world.json"))["land"]
    return path


@get("/static/{name:str}")
async def static_file(name: str) -> Response[bytes]:
    """Styles, scripts and licences of this package: no token, they say nothing about the fleet."""
    if name not in STATIC:
        raise ProblemRaised(Problem(404, "not_found", "no such file"))
    headers = {"x-content-type-options": "nosniff", "cache-control": "public, max-age=31536000, immutable"}
    return Response(_static_bytes(name), media_type=STATIC[name], headers=headers)


def query(**values: Any) -> str:
    """A query string of what is not empty; lists repeat nothing: they are joined by commas."""
    told = {name: ",".join(value) if isinstance(value, list | tuple) else value for name, value in values.items()}
    return urlencode({name: value for name, value in told.items() if value not in (None, "", False)})


def bar(*parts: tuple[float, str], limit: float = 1.0, mark: float | None = None) -> Markup:
    """A horizontal bar of parts of `limit`, each with a class; `mark` is a line across it. No inline style."""
    x, rects = 0.0, []
    for value, kind in parts:
        width = max(0.0, min(100.0 - x, 100.0 * value / limit if limit > 0 else 0.0))
        rects.append(f'<rect class="{kind}" x="{x:.1f}" width="{width:.1f}" height="10"/>')
        x += width
    if mark is not None:
        rects.append(f'<rect class="mark" x="{100 * mark / limit - 0.5:.1f}" width="1" height="10"/>')
    inside = "".join(rects)
    svg = f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{inside}</svg>'
    return Markup(svg)  # noqa: S704  figures and our own class names only


def status_of(http: HttpState) -> dict[str, Any]:
    """What every page says at its top: whether answers rest on a live plan, and which."""
    readiness, table = http.view.readiness(), http.view.table
    return {
        "readiness": readiness.status,
        "reasons": [REASONS.get(one, one) for one in readiness.reasons],
        "static": table is not None and http.view.static,
        "epoch": None if table is None else table.plan.epoch,
        "made_at_ms": None if table is None else table.plan.made_at_ms,
        "age_ms": None if table is None else http.view.plan_age_ms(),
        "policy": http.view.policy_version,
        "replica": http.view.name,
        "now_ms": http.view.now_ms(),
    }


def page(request: AnyRequest, template: str, session: Session, status: int = 200, **values: Any) -> Response[bytes]:
    """A page for somebody who is logged in, with what every page shows."""
    http: HttpState = request.app.state.http
    return render(
        request,
        template,
        status,
        session=session,
        csrf=session.csrf,
        operates=session.allows("operate"),
        status=status_of(http),
        here=str(request.url.path) + ("?" + request.url.query if request.url.query else ""),
        **values,
    )


def render(
    request: ASGIConnection[Any, Any, Any, Any], template: str, status_code: int = 200, **values: Any
) -> Response[bytes]:
    """A page from a template, under the strict policy."""
    theme = request.cookies.get(THEME_COOKIE, "")
    theme = theme if theme in ("light", "dark") else ""
    text = environment().get_template(template).render(theme=theme, **values)
    return Response(text.encode(), status_code=status_code, media_type="text/html", headers=dict(PAGE_HEADERS))


def is_htmx(request: AnyRequest) -> bool:
    """Whether the page asks for a part of itself."""
    return request.headers.get("hx-request") == "true" and "hx-history-restore-request" not in request.headers
