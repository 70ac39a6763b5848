"""For tests: nginx, HAProxy and Caddy with the settings that the documentation gives, on a socket in a folder."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests import ROOT
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.programs import needed

UPSTREAM = "127.0.0.1:8080"
"""The address of aidre in the documentation."""


def snippet(language: str) -> str:
    """The settings of a proxy, as `docs/proxies.md` has them."""
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "docs/proxies.md").read_text("utf-8"), re.S | re.M)
    assert UPSTREAM in found
    return str(found)


def nginx(settings: str, folder: Path) -> tuple[str, list[str]]:
    """The configuration with `settings` in a server on the socket, and the arguments that run it in the foreground."""
    server = f"server {{ listen unix:{folder}/socket;\n{settings} }}"
    http = f"http {{ access_log off;\n{nginx_folders(folder)}{server} }}"
    text = f"daemon off; worker_processes 1; pid {folder}/pid; error_log stderr;\nevents {{}}\n{http}"
    return text, ["-p", str(folder), "-c"]


def nginx_folders(folder: Path) -> str:
    """Where nginx keeps bodies; by default in folders of the system, which an unprivileged user cannot write."""
    return "".join(f"{name}_temp_path {folder};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))


def haproxy(settings: str, folder: Path) -> tuple[str, list[str]]:
    bound = re.sub(r"bind :443 .*", f"bind unix@{folder}/socket mode 666", settings)
    defaults = "defaults\n    timeout client 60s\n    timeout server 60s\n    timeout connect 60s\n"
    return defaults + bound, ["-db", "-f"]


def caddy(settings: str, folder: Path) -> tuple[str, list[str]]:
    site = settings.replace("www.example.com {", f"http://localhost {{\n    bind unix/{folder}/socket", 1)
    return "{\n    admin off\n    auto_https off\n}\n" + site, ["run", "--adapter", "caddyfile", "--config"]


PROXIES: dict[str, Callable[[str, Path], tuple[str, list[str]]]] = {"nginx": nginx, "haproxy": haproxy, "caddy": caddy}


@contextmanager
def proxied(name: str, port: int, folder: Path) -> Iterator[httpx.Client]:
    """A client of a proxy before the server on `port`; skips the test where the proxy is not installed."""
    program = needed(name)
    text, arguments = PROXIES[name](snippet(name).replace(UPSTREAM, f"127.0.0.1:{port}"), folder)
    configuration = folder / "configuration"
    configuration.write_text(text + "\n", "utf-8")
    with started([program, *arguments, str(configuration)], folder) as client:
        yield client


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[httpx.Client]:
    """A client of a proxy that listens on the socket in the folder."""
    said = folder / "said"
    with said.open("wb") as output:
        environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        until(lambda: process.poll() is not None or _listens(folder / "socket"), f"{command[0]} does not listen")
        assert process.poll() is None, said.read_text("utf-8", "replace")
        transport = httpx.HTTPTransport(uds=str(folder / "socket"))
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=WAIT_SECONDS) as client:
            yield client
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0
