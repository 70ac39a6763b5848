"""URLs: one normal form, and a refusal of what two programs could read differently."""

from __future__ import annotations

import pytest

from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch.urls import display_url, is_url, read_url

READ = {
    "HTTP://Example.COM": "http://example.com/",
    "https://example.com:443/a": "https://example.com/a",
    "http://example.com:8080?q=1": "http://example.com:8080/?q=1",
    "http://example.com:/": "http://example.com/",
    "https://example.com./x#part": "https://example.com/x",
    "https://bücher.example/straße?ü=%C3%BC": "https://xn--bcher-kva.example/stra%C3%9Fe?%C3%BC=%C3%BC",
    "http://[2606:4700::0:1111]/": "http://[2606:4700::1111]/",
    "http://[::FFFF:127.0.0.1]/": "http://[::ffff:7f00:1]/",
    "http://１２７。０.0.1/": "http://127.0.0.1/",
    "http://ⓛocalhost/": "http://localhost/",
    "http://a_b.example/a%20b|c": "http://a_b.example/a%20b%7Cc",
    "http://1e100.example/": "http://1e100.example/",
    "http://127.0.0.1.example.com/": "http://127.0.0.1.example.com/",
}


@pytest.mark.parametrize(("text", "normal"), READ.items())
def test_a_url_is_read_into_one_form(text: str, normal: str) -> None:
    assert str(read_url(text)) == normal
    assert str(read_url(normal)) == normal


REFUSED = [
    "http://127.1/", "http://127.0.1/", "http://2130706433/", "http://0x7f000001/", "http://0x7f.0.0.1/",
    "http://0X7F.1/", "http://017700000001/", "http://0177.0.0.1/", "http://127.0.0.01/", "http://127.0.0.1.5/",
    "http://256.0.0.1/", "http://1.2.3/", "http://1.2.3.4.5/", "http://0/", "http://0x/", "http://127.0.0.0x1/",
    "http://example.com.1/", "http://..127.0.0.1/", "http://127.0.0.1../", "http://127..1/",
    "http://user@127.0.0.1/", "http://example.com@127.0.0.1/", "http://example.com:80@127.0.0.1/",
    "http://127.0.0.1:80@example.com/", "http://a:b@c@d/", "http://@example.com/",
    "http://example.com\\@127.0.0.1/", "http:\\\\127.0.0.1\\", "http://127.0.0.1\\.example.com/",
    "http:/127.0.0.1/", "http:127.0.0.1", "http:///127.0.0.1/", "//127.0.0.1/", "127.0.0.1", "http://",
    "http://?x", "http://#x", "http://:80/", "http:// example.com/", "http://exa mple.com/",
    "http://example.com\t/", "http://example.com\n.evil.test/", "http://example.com\r\nHost: evil.test/",
    "http://example.com/\r\nX: y", "http://example.com/\x00", "http://exam\u200bple.com/", "http://example.com\ufeff/",
    "http://exa%6dple.com/", "http://127.0.0.1%2f@example.com/", "http://%31%32%37.0.0.1/", "http://example.com%00.test/",
    "http://[::1", "http://::1/", "http://[::1]x/", "http://[::1%25eth0]/", "http://[fe80::1%eth0]/",
    "http://[127.0.0.1]/", "http://[::ffff:127.1]/", "http://[1:2]/", "http://[]/", "http://[v1.x]/",
    "http://example.com:99999/", "http://example.com:0/", "http://example.com:-80/", "http://example.com:８０/",
    "http://example.com:80:80/", "http://-a.example/", "http://a-.example/", "http://a,b/", "http://a;b/",
    "http://a..b/", "http://.a/", "http://faß.de/", "http://xn--\u0080/", f"http://{'a' * 64}.com/",
    f"http://{'a.' * 130}com/", "http://example.com/" + "a" * 5000,
    "ftp://example.com/", "file:///etc/passwd", "gopher://127.0.0.1:70/_x", "javascript:alert(1)", "data:text/html,x",
    "ws://example.com/", "httpx://example.com/", "feed:http://example.com/", "", " ",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_plain_url_is_refused(text: str) -> None:
    with pytest.raises(FetchFailed) as caught:
        read_url(text)
    assert "\n" not in caught.value.message


def test_there_are_sixty_hostile_urls() -> None:
    assert len(set(REFUSED)) >= 60


def test_a_reference_is_joined_and_read_as_strictly() -> None:
    url = read_url("https://example.com/a/b?x=1")
    assert str(url.join("../c#d")) == "https://example.com/c"
    assert str(url.join("//other.example/é")) == "https://other.example/%C3%A9"
    assert str(url.join("?y=2")) == "https://example.com/a/b?y=2"
    for reference in ("javascript:alert(1)", "//u@h/", "http://[::1", "/a\nb", "\\\\h\\x", "http:///x", "//127.1/"):
        with pytest.raises(FetchFailed):
            url.join(reference)


def test_a_source_is_an_address_when_it_has_a_scheme() -> None:
    assert all(
        map(is_url, ["http://a", "HTTPS://a", "ftp://a", "file:///etc/passwd", "http:a", "https:/a", " http://a"])
    )
    assert not any(map(is_url, ["docs", "./http", "c:docs", "a:b", "/http://x", "docs/http:", ""]))


def test_no_password_is_shown() -> None:
    assert display_url("http://user:secret@example.com/a\nb") == "http://example.com/a\\nb"
    assert len(display_url("http://example.com/" + "a" * 5000)) == 300
