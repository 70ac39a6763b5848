"""EML as a document: the body of a message, its header fields, and messages in messages."""

from __future__ import annotations

from email.message import EmailMessage
from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.office.eml import MAX_DEPTH, parse


def message(text: str | None = "Words.", html: str | None = None, **fields: str) -> EmailMessage:
    made = EmailMessage()
    for name, value in ({"Subject": "On mills", "From": "Ann <a@x.org>"} | fields).items():
        made[name] = value
    if text is not None:
        made.set_content(text)
    if html is not None:
        (made.add_alternative if text is not None else made.set_content)(html, subtype="html")
    return made


def read(made: EmailMessage) -> dict[str, Any]:
    return parse(bytes(made), {})


def test_fields_are_members_and_the_body_is_the_text() -> None:
    made = message("First\nline.\n\nSecond.", Subject="Ümlaut ✓", To="b@x.org", Date="Fri, 01 Mar 2024 10:00:00 +0100")
    made.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="a.pdf")
    found = read(made)
    assert (found["title"], found["updated_at"]) == ("Ümlaut ✓", "Fri, 01 Mar 2024 10:00:00 +0100")
    assert found["text"] == "First\nline.\n\nSecond."
    assert found["metadata"] == {"from": "Ann <a@x.org>", "to": "b@x.org", "attachments": ["a.pdf"]}


def test_of_alternatives_the_plain_text_is_read_unless_it_is_empty() -> None:
    assert read(message("plain", "<p>rich</p>"))["text"] == "plain"
    assert read(message(" ", "<h1>T</h1><p>rich</p>"))["text"] == "T\n\nrich"
    assert read(message(None, "<p>only</p>"))["text"] == "only"


def test_a_message_that_is_attached_follows_with_its_subject() -> None:
    made = message("Outer.")
    made.add_attachment(message("Inner.", Subject="The other"))
    found = read(made)
    assert found["text"] == "Outer.\n\nThe other\n\nInner."
    assert [title for _, _, title in found["headings"]] == ["The other"]


@pytest.mark.parametrize("codec", ["iso-8859-1", "utf-8", "iso-2022-jp", "no-such-codec"])
def test_bodies_in_odd_encodings_are_read(codec: str) -> None:
    text = "日本語" if codec == "iso-2022-jp" else "Straße"
    body = text.encode("utf-8" if codec == "no-such-codec" else codec)
    head = f'Subject: x\nContent-Type: text/plain; charset="{codec}"\nContent-Transfer-Encoding: 8bit\n\n'
    assert parse(head.encode() + body, {})["text"] == text


def test_flowed_lines_are_joined() -> None:
    head = b"Subject: x\nContent-Type: text/plain; format=flowed\n\n"
    assert parse(head + b"one \ntwo\nthree\n", {})["text"] == "one two\nthree"


def test_a_message_in_utf16_is_read() -> None:
    assert parse("Subject: x\n\nwords".encode("utf-16"), {}) | {} == parse(b"Subject: x\n\nwords", {})


@pytest.mark.parametrize("field", ["=?utf-8?b?!!!?=", "=?no-such?q?x?=", "\udc80", "a" * 100_000])
def test_odd_fields_cost_no_message(field: str) -> None:
    found = parse(f"Subject: {field}\n\nwords".encode("utf-8", "surrogateescape"), {})
    assert found["text"] == "words" and len(found.get("title") or "") <= 1000


def test_what_is_no_message_and_what_is_too_deep_is_refused() -> None:
    for content in (b"no header here\n\nwords", b"\x00\x01\x02", b"a" * 3_000_000):
        with pytest.raises(InvalidDocument, match="is not a message"):
            parse(content, {})
    deep = b"words"
    for _ in range(MAX_DEPTH + 2):
        deep = b"Subject: x\nContent-Type: message/rfc822\n\n" + deep
    with pytest.raises(InvalidDocument, match="inside each other"):
        parse(deep, {})
    assert parse(b"", {})["text"] == ""
