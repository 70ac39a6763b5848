"""Blocks: every file is in one, in order; rows of a large file are divided by their ids."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aidre.engine.model import Document
from aidre.ingest.records import File, Item, ListingEnd, Rejected
from aidre_ray import blocks
from aidre_ray.blocks import Block, block_from_json, block_to_json, divide, items_of_part


def file(folder: Path, name: str, size: int = 10) -> File:
    path = folder / name
    path.write_bytes(b"x" * size)
    return File(path, "docs", name, within=folder)


def test_every_file_is_in_one_block_and_in_order(tmp_path: Path) -> None:
    files = [file(tmp_path, f"{number:03d}.md", number) for number in range(200)]
    divided = divide(files, 3)
    assert [one for block in divided for one in block.files] == files
    assert [block.number for block in divided] == list(range(len(divided)))
    assert 12 <= len(divided) <= 14 and all(block.parts == 1 for block in divided)


def test_a_large_file_of_rows_is_read_in_parts_and_a_large_page_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "MIN_BLOCK_BYTES", 100)
    files = [file(tmp_path, "a.md"), file(tmp_path, "b.jsonl", 1_000), file(tmp_path, "c.md", 1_000)]
    divided = divide(files, 1)
    assert [(block.files[0].origin, block.part, block.parts) for block in divided] == [
        ("a.md", 0, 1),
        ("b.jsonl", 0, 2),
        ("b.jsonl", 1, 2),
        ("c.md", 0, 1),
    ]


def test_each_item_is_in_one_part_and_those_of_one_id_are_together(tmp_path: Path) -> None:
    one = file(tmp_path, "a.jsonl")
    items: list[Item] = [
        *((f"a.jsonl:{row}", Document(f"id-{row % 40}", "text")) for row in range(80)),
        Rejected("a.jsonl:81", "wrong", "docs", "a.jsonl", "id-3"),
        Rejected("a.jsonl:82", "no JSON", "docs", "a.jsonl"),
        ListingEnd("docs", "a.jsonl", "rows", {}),
    ]
    parts = [list(items_of_part(iter(items), Block(0, (one,), part, 4))) for part in range(4)]
    assert sorted(repr(item) for part in parts for item in part) == sorted(map(repr, items))
    assert all(parts)
    place = {item[1].id: number for number, part in enumerate(parts) for item in part if isinstance(item, tuple)}
    for number, part in enumerate(parts):
        assert all(place[item[1].id] == number for item in part if isinstance(item, tuple))
    assert items[80] in parts[place["id-3"]]


def test_a_block_as_text_keeps_names_that_are_no_text() -> None:
    path = Path(os.fsdecode(b"/folder\xff/a.md"))
    block = Block(3, (File(path, "docs", "a.md", "https://a/b", within=path.parent), File(path, "s", "a.md")), 1, 2)
    text = block_to_json(block)
    assert text.isascii() and block_from_json(text) == block
