"""Who may ask the server, and how much: everything else is refused in one sentence before a route is looked at."""

import ipaddress
import json
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY = 2**20
"""Bytes of a question."""

MOST_PATH, MOST_QUERY = 256, 8192
MOST_AT_ONCE = 256
"""Requests that are answered at a time; more are told to come again."""

COOKIE = "fans_token"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


class Refused(Exception):
    """A request that is not answered: the status, and why in one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Guard:
    """Lets through what comes from this server's own page, and adds the headers that keep the page to itself.

    Args:
        app: what answers.
        host: the address that is listened at.
        token: what a reader has to show; "" for nothing.
    """

    def __init__(self, app: App, host: str, token: str = "") -> None:
        self.app, self.token = app, token
        self.local = is_loopback(host)
        self.names = {"localhost", "127.0.0.1", "::1"} | ({host.lower()} if not self.local else {host})
        if not self.local:
            self.names.add(socket.gethostname().lower())
        self.n_now = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        self.n_now += 1
        try:
            if self.n_now > MOST_AT_ONCE:
                raise Refused(503, f"Expected at most {MOST_AT_ONCE} requests at a time, got more; try again")
            where = self._checked(scope)
            if where is not None:
                await _answer(send, 303, b"", {"location": where, "set-cookie": self._cookie()})
                return
            await self.app(scope, _limited(scope, receive), _with_headers(send))
        except Refused as refused:
            body = json.dumps({"error": str(refused)}).encode()
            kind = {"content-type": "application/json", "connection": "close"}
            await _answer(send, refused.status, body, kind)
        finally:
            self.n_now -= 1

    def _checked(self, scope: Scope) -> str | None:
        """Refuse what is not this page's own question; return where to go on where the address had the token."""
        headers = _headers(scope)
        query = bytes(scope.get("query_string", b""))
        if len(scope["path"]) > MOST_PATH or len(query) > MOST_QUERY:
            raise Refused(414, f"Expected an address of at most {MOST_QUERY} letters, got a longer one")
        host = headers.get("host", "")
        if not self._is_own(host):
            raise Refused(
                421, f"Expected this server's own name as the host, got {host[:60]!r}; open the address it printed"
            )
        if scope["method"] not in ("GET", "HEAD", "POST"):
            raise Refused(405, f"Expected GET or POST, got {scope['method'][:20]}")
        where = self._token(scope, headers, query)
        if scope["method"] == "POST":
            self._own_page(headers, host)
        return where

    def _is_own(self, host: str) -> bool:
        """Tell whether a request's host is a name of this server, so that no other name can be made to lead here."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        if name in self.names:
            return True
        if self.local:
            return False
        try:  # a name can be made to lead elsewhere, an address cannot
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _token(self, scope: Scope, headers: Mapping[str, str], query: bytes) -> str | None:
        if not self.token:
            return None
        given = parse_qs(query.decode("latin-1"), keep_blank_values=True, max_num_fields=100).get("token", [""])[0]
        if given and scope["method"] in ("GET", "HEAD") and self._is_right(given):
            rest = [part for part in query.decode("latin-1").split("&") if not part.startswith("token=")]
            path = "/" + quote(scope["path"].lstrip("/"))  # never another host's
            return path + ("?" + quote("&".join(rest), safe="=&%+") if rest else "")
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if any(self._is_right(one) for one in (headers.get("x-fans-token", ""), bearer, _cookie(headers))):
            return None
        raise Refused(401, "Expected this server's token, got none or another; open the address it printed")

    def _is_right(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def _cookie(self) -> str:
        return f"{COOKIE}={quote(self.token, safe='')}; Path=/; HttpOnly; SameSite=Strict"

    def _own_page(self, headers: Mapping[str, str], host: str) -> None:
        """Refuse a question that another site's page had the browser ask."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refused(415, f"Expected application/json, got {kind[:60]!r}")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            raise Refused(403, f"Expected a question of this server's own page, got one of {origin[:60]!r}")
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Refused(403, "Expected a question of this server's own page, got one of another site")
        length = headers.get("content-length", "0")
        if not length.isdigit() or len(length) > 12 or int(length) > MOST_BODY:
            raise Refused(413, f"Expected at most {MOST_BODY:,} bytes, got {length[:20]}")


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _headers(scope: Scope) -> dict[str, str]:
    """Return the headers by their names in small letters; one that came twice is told twice."""
    found: dict[str, str] = {}
    for key, value in scope["headers"]:
        name, text = key.decode("latin-1").lower(), value.decode("latin-1")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _cookie(headers: Mapping[str, str]) -> str:
    from urllib.parse import unquote

    try:
        jar = SimpleCookie(headers.get("cookie", "")[:4096])
    except CookieError:
        return ""
    return unquote(jar[COOKIE].value) if COOKIE in jar else ""


def _limited(scope: Scope, receive: Receive) -> Receive:
    """Count the bytes of a question that does not say how many it has."""
    n_read = 0

    async def counted() -> Message:
        nonlocal n_read
        message = await receive()
        n_read += len(message.get("body", b""))
        if n_read > MOST_BODY:
            raise Refused(413, f"Expected at most {MOST_BODY:,} bytes, got more")
        return message

    return counted if scope["method"] == "POST" else receive


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {key.lower() for key, _ in message.get("headers", [])}
            more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in own]
            message["headers"] = [*message.get("headers", []), *more]
        await send(message)

    return sent


async def _answer(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    told = {**HEADERS, **headers, "content-length": str(len(body))}
    packed = [(k.encode(), v.encode("latin-1")) for k, v in told.items()]
    await send({"type": "http.response.start", "status": status, "headers": packed})
    await send({"type": "http.response.body", "body": body})
