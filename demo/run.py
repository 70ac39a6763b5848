"""The demo: ingests the corpus, serves it, asks one question of each kind and prints the answers.

It uses nothing but the command `aidre` and HTTP, as a stranger would. Afterwards it keeps serving until interrupted.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
AIDRE = Path(sys.executable).with_name("aidre")
STORE = ".demo/store"
CONFIG = "demo/aidre.toml"
PARTNER, SECRET = "a-platform", "known-to-all-who-read-this"
"""A key of Agentic Intent, as it stands in the configuration."""
DOCUMENTATION = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
START_SECONDS = 120


def main() -> int:
    """Ingest, serve, ask; then serve on, unless `--once`."""
    options = arguments()
    ingest("demo/corpus", "--collection", "ellery")
    ingest(*DOCUMENTATION, "--collection", "docs", "--source", "aidre", "--url-base", "https://example.com/aidre/")
    port = usable(options.port)
    server = start(port)
    try:
        ask_everything(f"http://127.0.0.1:{port}")
        if not options.once:
            print(f"\nServing on http://127.0.0.1:{port} until interrupted (Ctrl-C).", flush=True)
            return server.wait()
    finally:
        stop(server)
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description="Show aidre at work on a small corpus.")
    parser.add_argument("--port", type=int, default=8321)
    parser.add_argument("--once", action="store_true", help="end after the queries")
    return parser.parse_args()


def ingest(*words: str) -> None:
    command = ("ingest", *words, "--store", STORE, "--config", CONFIG)
    print(f"\n$ aidre {shlex.join(command)}", flush=True)
    subprocess.run([AIDRE, *command], cwd=ROOT, check=True)


def usable(port: int) -> int:
    """The port, or a free one where it is taken."""
    for candidate in (port, 0):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            return int(listener.getsockname()[1])
    raise SystemExit("demo: no free port on 127.0.0.1")


def start(port: int) -> subprocess.Popen[bytes]:
    """The server, once it is ready to answer."""
    command = ("serve", "--store", STORE, "--config", CONFIG, "--port", str(port))
    print(f"\n$ aidre {shlex.join(command)}", flush=True)
    server = subprocess.Popen([AIDRE, *command], cwd=ROOT)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise SystemExit(f"demo: the server ended with status {server.returncode}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return server
        except OSError:
            time.sleep(0.1)
    stop(server)
    raise SystemExit(f"demo: the server was not ready after {START_SECONDS} seconds")


def stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        server.terminate()
    try:
        server.wait(timeout=15)
    except subprocess.TimeoutExpired:
        server.kill()


def ask_everything(base: str) -> None:
    """One query of each protocol, and of each kind."""
    ask_aidre(base)
    ask_nlweb(base)
    ask_intent(base)
    ask_intake(base)


def ask_aidre(base: str) -> None:
    """Discovery, a search by text, one by vector, a look-up, the change feed."""
    discovery = show("Discovery: what is there?", base, "/.well-known/ai-discovery")
    text = {"query": "mend a flat tyre at the roadside", "top_k": 2, "return": {"text": True, "vectors": True}}
    found = show("Search by text", base, "/search", text)
    first = found["results"][0]
    space = discovery["embedding_spaces"][0]["id"]
    near = {"query_vector": first["vectors"][space], "embedding_space": space, "top_k": 3}
    show(f"Search by vector: what lies near {first['id']}?", base, "/search", near)
    show("Look up one chunk", base, f"/chunks/{urllib.parse.quote(first['id'], safe='')}")
    show("Follow what changes", base, "/collections/ellery/changes?limit=2")


def ask_nlweb(base: str) -> None:
    """A question with a filter and a summary, and the same tools by MCP."""
    query = {"text": "something warm with lentils or leeks", "itemType": "Recipe", "limit": 2}
    show("NLWeb: ask", base, "/ask", {"query": query, "prefer": {"mode": "list, summarize"}})
    call = {"name": "search", "arguments": {"query": "boats in the harbour"}}
    show("MCP: call a tool", base, "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})


def ask_intent(base: str) -> None:
    """Agentic Intent: what a partner with a key may have of an editorial domain."""
    show("Agentic Intent: what is declared?", base, "/.well-known/aip.json")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    wanted = {
        "aip_version": "0.1",
        "request_id": "req_" + secrets.token_hex(8),
        "timestamp": now,
        "platform": {"id": PARTNER},
        "intent": {"domain": "food.recipes"},
        "context": {"language": "en"},
        "runtime": {"session_id": secrets.token_hex(8), "turn_index": 0, "query_text": "a cake for a birthday"},
    }
    show("Agentic Intent: retrieve", base, "/aip/retrieve", wanted, signed=True)


def ask_intake(base: str) -> None:
    """Agent Intake: say what somebody needs, and get an offer."""
    show("Agent Intake: what can be asked for?", base, "/.well-known/agent-intake.json")
    needed = {
        "aip_version": "0.1.0",
        "agent": {"id": PARTNER, "platform": "demo", "consent_scope": ["intake", "offer"]},
        "intake_data": {"ingredients": "lentils, carrots, an onion"},
        "session_id": str(uuid.uuid4()),
    }
    show("Agent Intake: submit", base, "/intakes/find-a-recipe", needed)


def signature(path: str, body: bytes) -> dict[str, str]:
    """The fields of a signed request of Agentic Intent."""
    now, nonce = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), secrets.token_urlsafe(16)
    text = "\n".join(("POST", path, hashlib.sha256(body).hexdigest(), now, nonce))
    code = base64.b64encode(hmac.digest(SECRET.encode(), text.encode(), "sha256")).decode()
    signed = {"Version": "0.1", "Key-Id": PARTNER, "Timestamp": now, "Nonce": nonce, "Signature": f"v1={code}"}
    return {f"X-AIP-{name}": value for name, value in signed.items()}


def show(
    title: str, base: str, path: str, body: dict[str, Any] | None = None, *, signed: bool = False
) -> dict[str, Any]:
    """Send one request and print it with its answer."""
    print(f"\n--- {title}\n{'GET' if body is None else 'POST'} {base}{path}")
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    data = None
    if body is not None:
        print(pretty(body))
        data = json.dumps(body).encode()
        headers |= signature(path, data) if signed else {}
    request = urllib.request.Request(base + path, data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            status, answer = response.status, json.load(response)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"demo: {path} answered {error.code}: {error.read().decode(errors='replace')}") from None
    print(f"{status}\n{pretty(answer)}", flush=True)
    return dict(answer)


def pretty(value: Any) -> str:
    return json.dumps(shortened(value), indent=2, ensure_ascii=False)


def shortened(value: Any) -> Any:
    """Vectors cut to their first numbers: nobody reads the other three hundred."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        if len(value) > 16 and all(isinstance(item, float | int) for item in value):
            return [*value[:3], f"... {len(value) - 3} more"]
        return [shortened(item) for item in value]
    return value


def terminated(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, terminated)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except subprocess.CalledProcessError as error:
        sys.exit(f"demo: aidre {error.cmd[1]} ended with status {error.returncode}")
