"""Asks a shop over NLWeb, and shows the products with what can be done with each."""

from __future__ import annotations

import sys

import aidre


def main(url: str, question: str, price: str) -> None:
    with aidre.connect(url) as client:
        wanted = {"itemType": "Product", "price": price}
        answer = client.nlweb.ask(question, mode="list, summarize", filters=wanted)
        print(answer.summary)
        for item in answer.items:
            offer = item["offers"]
            print(f"\n{item['name']}, {offer['price']} {offer['priceCurrency']}, {item['url']}")
            for action in item.get("actions", []):
                print(f"  {action['name']}: {action['method']} {action['endpoint']} {action['params']}")


if __name__ == "__main__":
    main(*sys.argv[1:4])
