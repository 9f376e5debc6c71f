"""Asking a running director over HTTP. `DIRECTOR_URL` and `DIRECTOR_TOKEN` say which, and as whom."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote

import click
import httpx

DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_S = 10.0
COMPLETION_S = 1.0
"""Somebody waits with a finger on the Tab key."""
REFUSED = (404, 409, 422, 503)
"""Statuses that are an answer, "no", rather than a mistake of the asker's."""


def get(path: str, **query: str | int | None) -> Any:
    """The JSON of a GET. Ends the command with one line when there is none."""
    return _ask("GET", path, params={name: value for name, value in query.items() if value is not None})


def post(path: str, body: Any) -> Any:
    return _ask("POST", path, json=body)


def put(path: str, body: Any, **query: str | int | None) -> Any:
    return _ask("PUT", path, json=body, params={name: value for name, value in query.items() if value is not None})


def region_names() -> list[str]:
    """The regions of the running director; none where it does not answer at once. Never ends the command."""
    url, token = os.environ.get("DIRECTOR_URL", DEFAULT_URL).rstrip("/"), os.environ.get("DIRECTOR_TOKEN", "")
    try:
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.get(f"{url}/regions", headers=headers, timeout=COMPLETION_S).raise_for_status().json()
        return [str(one["region"]) for one in answer["regions"]]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
        return []


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def _ask(method: str, path: str, **parts: Any) -> Any:
    url = os.environ.get("DIRECTOR_URL", DEFAULT_URL).rstrip("/")
    token = os.environ.get("DIRECTOR_TOKEN")
    if not token:
        raise _end(2, "set DIRECTOR_TOKEN to a bearer token (director token create NAME --scope read)")
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    try:
        response = httpx.request(method, url + path, headers=headers, timeout=TIMEOUT_S, **parts)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise _end(2, f"DIRECTOR_URL: expected a URL such as {DEFAULT_URL}, got {url!r}") from error
    except httpx.HTTPError as error:
        words = str(error) or type(error).__name__
        raise _end(2, f"no answer from {url}: {words} (DIRECTOR_URL says where a director listens)") from error
    if response.is_success:
        return response.json()
    raise _refused(response)


def _refused(response: httpx.Response) -> click.exceptions.Exit:
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    line = f"{response.status_code}: {problem.get('detail') or problem.get('title') or response.reason_phrase}"
    retry_after = response.headers.get("Retry-After")
    if retry_after:
        line += f" (try again in {retry_after} s)"
    if response.status_code in (401, 403):
        line += "; DIRECTOR_TOKEN says who asks"
    return _end(1 if response.status_code in REFUSED else 2, line)


def _end(code: int, line: str) -> click.exceptions.Exit:
    click.echo(f"director: {line}", err=True)
    return click.exceptions.Exit(code)
