"""Starting the explorer: which address, which token, and until when."""

import asyncio
import secrets
import socket
import sys
import threading
import time
from html import escape
from typing import Any

from fans.errors import InputError, check_whole, extra
from fans.serve.app import application
from fans.serve.safety import is_loopback
from fans.serve.source import Source

PORT = 8765
"""The port by default; the next free one where it is taken."""

TRIED = 20


class Served:
    """A running explorer.

    Attributes:
        url: where to open it, its token included where there is one.
    """

    def __init__(self, source: Source, host: str, port: int | None, token: str) -> None:
        try:
            import uvicorn
        except ImportError:
            raise extra("uvicorn", "serve", "the explorer") from None
        self.token = token
        self._socket, self.port = _bound(host, port)
        app, self._explorer = application(source, host, token)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            date_header=False,
            timeout_keep_alive=15,
            h11_max_incomplete_event_size=32 * 1024,
            timeout_graceful_shutdown=2,
            backlog=1024,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="fans-serve", daemon=True)
        self._thread.start()
        started = time.monotonic()
        while not self._server.started and self._thread.is_alive() and time.monotonic() - started < 30:
            time.sleep(0.005)
        name = "localhost" if host in ("127.0.0.1", "::1", "localhost") else host
        if host in ("0.0.0.0", "::"):  # noqa: S104 - what the user asked for
            name = socket.gethostname()
        at = f"[{name}]" if ":" in name else name
        self.url = f"http://{at}:{self.port}/" + (f"?token={token}" if token else "")

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(_told)
        await self._server.serve(sockets=[self._socket])

    def wait(self) -> None:
        """Stay until Ctrl-C."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.2)
        except KeyboardInterrupt:
            pass  # which is how a reader ends it
        finally:
            self.close()

    def close(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._explorer.close()
        self._thread.join(5)
        self._socket.close()

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Served({self.url!r})"

    def _repr_html_(self) -> str:
        return f'<a href="{escape(self.url)}" target="_blank" rel="noopener">{escape(self.url)}</a>'


def serve(
    source: Source,
    *,
    host: str | None = None,
    port: int | None = None,
    token: str | None = None,
    wait: bool | None = None,
) -> Served:
    """Show explained inputs on a local page, on which features are clicked in and out.

    Args:
        source: what to show: `InMemory(explanation, explainer)`, or a run's folder.
        host: the address to listen at; only this machine can reach it by default. Any other needs a token, which is
            made up if none is given, and is part of the address that is printed.
        port: 8765, or the next free one, by default.
        token: what a reader has to show.
        wait: whether to stay until Ctrl-C; by default where Python is not used interactively.
    """
    host = "127.0.0.1" if host is None else host
    if port is not None:
        check_whole("port", port, 0)
        if port > 65535:
            raise InputError(f"Expected `port` up to 65535, got {port}")
    if token is not None and not (8 <= len(token) <= 200 and token.isascii() and token.isprintable()):
        raise InputError("Expected `token` as 8 to 200 plain letters and digits; leave it out to have one made up")
    if token is None:
        token = "" if is_loopback(host) else secrets.token_urlsafe(24)
    served = Served(source, host, port, token)
    if wait if wait is not None else not _is_interactive():
        sys.stderr.write(f"The explorer is at {served.url}\nCtrl-C ends it.\n")
        served.wait()
    return served


def _told(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tell of what went wrong in the loop, but not of every reader who has to wait for a free file descriptor."""
    if not isinstance(context.get("exception"), OSError) or "accept" not in str(context.get("message")):
        loop.default_exception_handler(context)


def more_files(n: int = 16384) -> None:
    """Let this process have as many connections open as the system allows, at most so many files."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = n if hard == resource.RLIM_INFINITY else min(n, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _is_interactive() -> bool:
    """Tell whether somebody types at Python itself: a prompt, or a notebook."""
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules


def _bound(host: str, port: int | None) -> tuple[Any, int]:
    """Return a socket at an address, at the first free port where none was asked for."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tried = [port] if port is not None else [*range(PORT, PORT + TRIED), 0]
    for one in tried:
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio then sends at once
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, one))
        except (OSError, OverflowError) as error:
            bound.close()
            if port is not None or one == tried[-1]:
                raise InputError(
                    f"Expected a free port at {host}, got {one}, which cannot be had ({error}); pass another `port`"
                ) from None
            continue
        return bound, int(bound.getsockname()[1])
    raise AssertionError("one of the ports was tried last")
