"""The demo: ingests a small corpus, serves it, sends a few queries over each protocol and prints short answers.

It uses only the command `aidre` and HTTP, like any client. Afterwards the server runs until interrupted. With
`--verbose` it also prints every request and answer as JSON.
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
import textwrap
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
"""The partner of Agentic Intent in demo/aidre.toml, and its shared secret."""
START_SECONDS = 120
"""Time-out for the start of the server, which builds the graph of the embedding model on its first run."""
QUESTIONS = ("mend a flat tyre at the roadside", "something warm with lentils", "a concert on a summer evening")
PASSAGE_CHARS = 220


def main() -> int:
    """Ingests, serves and queries; then keeps serving, unless `--once`."""
    options = arguments()
    print("1. Ingest: documents become chunks, vectors and postings in one folder.", flush=True)
    ingest("demo/corpus", "--collection", "ellery")
    ingest("docs", "--collection", "docs", "--url-base", "https://example.com/aidre/docs/")
    print("\n2. Serve that folder.", flush=True)
    port = usable(options.port)
    server = start(port)
    try:
        Visitor(f"http://127.0.0.1:{port}", options.verbose).ask_everything()
        print(NEXT.format(port=port, store=STORE), flush=True)
        if not options.once:
            print(f"Serving on http://127.0.0.1:{port} until interrupted (Ctrl-C).", flush=True)
            return server.wait()
    finally:
        stop(server)
    return 0


NEXT = """
5. Next
   search page     http://127.0.0.1:{port}/
   your own folder . .venv/bin/activate && aidre ingest YOUR_FOLDER --store {store} --collection mine
   all requests    make demo VERBOSE=1
   read on         README.md, docs/guide.md
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description="Show aidre at work on a small corpus.")
    parser.add_argument("--port", type=int, default=8321)
    parser.add_argument("--once", action="store_true", help="stop the server after the queries")
    parser.add_argument("--verbose", action="store_true", help="also print every request and answer as JSON")
    return parser.parse_args()


def ingest(*words: str) -> None:
    command = ("ingest", *words, "--store", STORE, "--config", CONFIG)
    print(f"   $ aidre {shlex.join(command)}", flush=True)
    subprocess.run([AIDRE, *command], cwd=ROOT, check=True)


def usable(port: int) -> int:
    """Returns `port` if it is free, else another free port."""
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
    """Starts the server and waits until it is ready."""
    command = ("serve", "--store", STORE, "--config", CONFIG, "--port", str(port))
    print(f"   $ aidre {shlex.join(command)}", flush=True)
    server = subprocess.Popen([AIDRE, *command], cwd=ROOT)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise SystemExit(f"demo: the server exited with status {server.returncode}")
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


class Visitor:
    """Queries a running server over HTTP, and prints a readable summary of each answer."""

    def __init__(self, base: str, verbose: bool) -> None:
        self._base = base
        self._verbose = verbose

    def ask_everything(self) -> None:
        print("\n3. Query: hybrid search, vectors and BM25 fused.")
        answers = [self._search(question) for question in QUESTIONS]
        print("\n4. The same passages over four protocols.")
        self._ask_aidre(answers[0]["results"][0])
        self._ask_nlweb()
        self._ask_intent()
        self._ask_intake()

    def _search(self, question: str) -> dict[str, Any]:
        """Sends one query; prints title, score, passage and source of the best hit."""
        body = {"query": question, "top_k": 1, "return": {"text": True, "vectors": True}}
        answer = self._send("/search", body)
        best = answer["results"][0]
        passage = " ".join(best["text"].split())
        print(f"\n   {question}?")
        print(f"   {best['source']['title']}   score {best['score']:.2f}")
        print(textwrap.indent(textwrap.fill(textwrap.shorten(passage, PASSAGE_CHARS, placeholder=" ..."), 96), "     "))
        print(f"     {best['source']['url']}", flush=True)
        return answer

    def _ask_aidre(self, best: dict[str, Any]) -> None:
        """AIDRE: discovery, a search by vector, a look-up of a chunk, the change feed."""
        discovery = self._send("/.well-known/ai-discovery")
        space = discovery["embedding_spaces"][0]["id"]
        body = {"query_vector": best["vectors"][space], "embedding_space": space, "top_k": 3}
        hits = self._send("/search", body)["results"]
        self._send(f"/chunks/{urllib.parse.quote(best['id'], safe='')}")
        self._send("/collections/ellery/changes?limit=2")
        self._line("AIDRE", "/.well-known/ai-discovery", f"search by vector: {len(hits)} passages near {best['id']}")

    def _ask_nlweb(self) -> None:
        """NLWeb: a question with a type and a summary, and a tool call over MCP."""
        query = {"text": "something warm with lentils or leeks", "itemType": "Recipe", "limit": 2}
        answer = self._send("/ask", {"query": query, "prefer": {"mode": "list, summarize"}})
        recipes = [item["name"] for item in answer["results"] if item["@type"] == "Recipe"]
        self._line("NLWeb", "/ask", f"schema.org objects: {', '.join(recipes)}; and a summary")
        call = {"name": "search", "arguments": {"query": "boats in the harbour"}}
        answer = self._send("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        self._line("MCP", "/mcp", "tool search: " + ("failed" if answer["result"].get("isError") else "answered"))

    def _ask_intent(self) -> None:
        """Agentic Intent: passages of an editorial domain, for a partner with signed requests."""
        self._send("/.well-known/aip.json")
        body = {
            "aip_version": "0.1",
            "request_id": "req_" + secrets.token_hex(8),
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "platform": {"id": PARTNER},
            "intent": {"domain": "food.recipes"},
            "context": {"language": "en"},
            "runtime": {"session_id": secrets.token_hex(8), "turn_index": 0, "query_text": "sweet buns for a birthday"},
        }
        answer = self._send("/aip/retrieve", body, signed=True)
        self._line("Agentic Intent", "/.well-known/aip.json", f"signed retrieval: {answer['status']}, with a receipt")

    def _ask_intake(self) -> None:
        """Agent Intake: submits a request and gets an offer."""
        self._send("/.well-known/agent-intake.json")
        body = {
            "aip_version": "0.1.0",
            "agent": {"id": PARTNER, "platform": "demo", "consent_scope": ["intake", "offer"]},
            "intake_data": {"ingredients": "lentils, carrots, an onion"},
            "session_id": str(uuid.uuid4()),
        }
        answer = self._send("/intakes/find-a-recipe", body)
        self._line("Agent Intake", "/.well-known/agent-intake.json", f"find-a-recipe: {answer['status']}")

    def _line(self, protocol: str, path: str, outcome: str) -> None:
        print(f"   {protocol:15} {self._base + path:56} {outcome}", flush=True)

    def _send(self, path: str, body: dict[str, Any] | None = None, *, signed: bool = False) -> dict[str, Any]:
        """Sends one request; an error status ends the demo."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers |= signature(path, data) if signed else {}
        request = urllib.request.Request(self._base + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                status, answer = response.status, json.load(response)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"demo: {path} answered {error.code}: {error.read().decode(errors='replace')}") from None
        if self._verbose:
            print(f"\n{'GET' if body is None else 'POST'} {self._base}{path}")
            print(*([pretty(body)] if body is not None else []), status, pretty(answer), sep="\n", flush=True)
        return dict(answer)


def signature(path: str, body: bytes) -> dict[str, str]:
    """The signature header fields of an Agentic Intent request."""
    now, nonce = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), secrets.token_urlsafe(16)
    text = "\n".join(("POST", path, hashlib.sha256(body).hexdigest(), now, nonce))
    code = base64.b64encode(hmac.digest(SECRET.encode(), text.encode(), "sha256")).decode()
    signed = {"Version": "0.1", "Key-Id": PARTNER, "Timestamp": now, "Nonce": nonce, "Signature": f"v1={code}"}
    return {f"X-AIP-{name}": value for name, value in signed.items()}


def pretty(value: Any) -> str:
    return json.dumps(shortened(value), indent=2, ensure_ascii=False)


def shortened(value: Any) -> Any:
    """Truncates long lists of numbers to the first three."""
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
        sys.exit(f"demo: aidre {error.cmd[1]} exited with status {error.returncode}")
