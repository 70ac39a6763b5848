"""An agent that has read nothing about AIDRE: from the address of a page to an answer with its source, verified.

It knows public standards alone: RFC 8288 (links), RFC 9727 (catalogs), OpenAPI, RFC 7515 and 7517 (signatures, keys).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from typing import Any
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def main(page: str, question: str) -> None:
    with urlopen(Request(page, headers={"Accept": "text/html"})) as answer:
        links = dict(re.findall(r'<([^>]+)>; rel="([\w-]+)"', answer.headers["Link"]))
    [catalog] = [url for url, relation in links.items() if relation == "api-catalog"]
    print(f"the page links to {catalog}")
    apis = {one["anchor"]: one for one in get(catalog)["linkset"]}
    for url, about in apis.items():
        print(f"  {url}", *(one["title"] for one in about.get("item", ())))
    # Of the interfaces, one that is described and takes a question in a POST.
    for url, about in apis.items():
        for described in about.get("service-desc", ()):
            description = get(described["href"])
            operation = description["paths"].get(url.removeprefix(description["servers"][0]["url"]), {}).get("post")
            if operation is not None and "query" in members(description, operation):
                found = get(url, {"query": question, "top_k": 1, "return": {"text": True}})
                read(description, operation, found, get(about["service-meta"][0]["href"]))
                return


def members(description: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    """What the body of a request may have."""
    name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    return dict(description["components"]["schemas"][name]["properties"])


def read(description: dict[str, Any], operation: dict[str, Any], found: Any, about: dict[str, Any]) -> None:
    """Follows the link from the answer to the best passage, and verifies what is stated about it."""
    link = operation["responses"]["200"]["links"]["chunk"]
    values = {name: pointed(found, to) for name, to in link["parameters"].items()}
    reads = {of["get"]["operationId"]: path for path, of in description["paths"].items() if "get" in of}
    path = reads[link["operationId"]].replace("{id}", quote(values.pop("id"), safe=""))
    passage = get(f"{description['servers'][0]['url']}{path}?{urlencode(values)}")
    print(f"\n{passage['text']}\n  from: {passage['source']['title']}, {passage['source']['url']}")
    head, payload, signature = passage["metadata"]["provenance"].split(".")
    keys = {key["kid"]: key["x"] for key in get(about["provenance"]["jwks_uri"])["keys"]}
    key = Ed25519PublicKey.from_public_bytes(decoded(keys[json.loads(decoded(head))["kid"]]))
    key.verify(decoded(signature), f"{head}.{payload}".encode())  # InvalidSignature
    stated = json.loads(decoded(payload))
    assert stated["content_hash"] == "sha256:" + hashlib.sha256(passage["text"].encode()).hexdigest()
    print(f"verified: {stated['iss']} has signed this text of {stated['source_url']}")


def pointed(found: Any, expression: str) -> str:
    """The value that a runtime expression of OpenAPI points at."""
    for step in expression.partition("#/")[2].split("/"):
        found = found[int(step) if step.isdigit() else step]
    return str(found)


def get(url: str, body: Any = None) -> Any:
    headers = {"Accept": "application/json, */*;q=0.1", "Content-Type": "application/json"}
    with urlopen(Request(url, None if body is None else json.dumps(body).encode(), headers)) as answer:
        return json.load(answer)


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


if __name__ == "__main__":
    main(*sys.argv[1:3])
