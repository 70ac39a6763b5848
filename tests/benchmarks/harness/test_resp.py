"""RESP: replies are read whole, whatever the parts they arrive in."""

from __future__ import annotations

import pytest

from benchmarks.harness import resp

REPLY = b"*4\r\n:1\r\n$5\r\nrow:7\r\n*2\r\n$-1\r\n$4\r\na\r\nb\r\n+OK\r\n"


def test_a_reply_ends_where_its_last_element_ends() -> None:
    assert resp.reply_length(REPLY + b":5\r\n") == len(REPLY)
    assert [resp.reply_length(REPLY[:cut]) for cut in range(len(REPLY))] == [0] * len(REPLY)


def test_elements_are_read_as_values_and_errors_are_raised() -> None:
    assert resp.value(REPLY) == [1, b"row:7", [None, b"a\r\nb"], b"OK"]
    with pytest.raises(ValueError, match="no such index"):
        resp.value(b"-ERR no such index\r\n")


def test_commands_are_lists_of_strings() -> None:
    assert resp.command("SET", b"\r\n", 7) == b"*3\r\n$3\r\nSET\r\n$2\r\n\r\n\r\n$1\r\n7\r\n"
