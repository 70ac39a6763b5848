"""Keys, ids and data of the faulty server: a kit may be given them, and the faults use them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fixtures:
    """Keys, ids and data of the server. The data are invented, and the secrets open this server alone."""

    intent_key_id: str = "platform"
    intent_secret: str = "test-secret-0123456789abcdef"
    intent_domain: str = "finance.markets"
    query: str = "alpha"
    """Words that the public collection and the editorial domain have hits for."""
    collection: str = "articles"
    private_collection: str = "vault"
    private_chunk: str = "secret#chunk_1"
    bearer: str = "the secret of a reader"
    """Opens the private collection."""
    slash_chunk: str = "guides/sso#chunk_1"
    """A public chunk whose id has a slash."""
    site: str = "recipes.example"
    """One of two or more; others have better hits for `query`."""
    promised_by: str = "respond-async"
    """A member of NLWeb's `prefer`: where it is true the answer is a promise."""
    bind_data: tuple[tuple[str, str], ...] = (("email", "jane@example.com"), ("full_name", "Jane Doe"))
    intake: str = "find-an-article"
    intake_data: tuple[tuple[str, str], ...] = (("need", "alpha"), ("audience", "expert"))
    """Of `intake` and of `brief_intake`; bound by `bind_data`."""
    declined_intake: str = "choosy"
    """Declines these data."""
    brief_intake: str = "hurried"
    """Its offers expire after `brief_seconds`."""
    brief_seconds: int = 1


FIXTURES = Fixtures()
