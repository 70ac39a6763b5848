"""What a run counts and reports: failures, repeated ids, documents without text, and the members of the summary."""

from __future__ import annotations

from aidre.ingest.pipeline.run_events import RunProgress
from tests.support.ingests import Bench


def test_a_document_without_text_is_skipped_and_no_failure(bench: Bench) -> None:
    bench.write("a.md", " \n\n")
    bench.rows("r.jsonl", {"id": "a", "text": " "})
    bench.write("z.md", "Apples.")
    summary = bench.run()
    assert (summary.skipped, summary.failed, summary.documents, summary.exit_status) == (2, 0, 1, 0)
    assert bench.notices == ["a.md: no text, skipped", "r.jsonl:1: no text, skipped"]


def test_of_many_rows_without_text_few_are_named_and_the_others_counted(bench: Bench) -> None:
    bench.rows("r.jsonl", *({"id": str(number), "text": ""} for number in range(1_203)))
    bench.write("a.md", "\n")
    bench.write("b.md", "\n")
    assert bench.run().skipped == 1_205
    assert bench.notices == [
        "a.md: no text, skipped",
        "b.md: no text, skipped",
        *(f"r.jsonl:{number}: no text, skipped" for number in (1, 2, 3)),
        "r.jsonl: 1,200 more rows without text skipped: if they have one, map its column in [collections.NAME.mapping]",
    ]


def test_failures_are_named_counted_and_do_not_stop_the_rest(bench: Bench) -> None:
    bench.write("r.jsonl", '{"id": "a", "text": "x"}\n{oops\n\n[1]\n{"id": "b", "text": "y"}\n')
    bench.write("bad.md", bytes(range(256)))
    summary = bench.run()
    assert (summary.documents, summary.failed, summary.exit_status) == (2, 3, 1)
    assert [problem.split(": ")[0] for problem in bench.problems] == ["bad.md", "r.jsonl:2", "r.jsonl:4"]


def test_the_last_of_equal_ids_wins_whether_or_not_a_commit_lies_between(bench: Bench) -> None:
    rows = [{"id": "a", "text": "one"}, {"id": "b", "text": "b"}, {"id": "a", "text": "two"}]
    bench.rows("r.jsonl", *rows)
    assert bench.run().documents == 3
    assert bench.text("a#chunk_1") == "two"
    assert "1 document repeats the id of an earlier one (a): the last of each id was kept" in bench.notices
    bench.rows("r.jsonl", *rows[:2], {"id": "a", "text": "three"})
    bench.run(commit_every=1)
    assert (bench.text("a#chunk_1"), bench.ids()) == ("three", ["a", "b"])


def test_the_done_event_has_the_promised_members(bench: Bench) -> None:
    bench.write("a.md", "Apples.")
    summary = bench.run()
    assert bench.events[-1] is summary
    members = "event documents chunks embedded updated unchanged deleted failed skipped left_out seconds"
    assert list(summary.as_json()) == members.split()
    assert bench.commits[0].as_json() == {"event": "commit", "generation": 1, "documents": 1, "chunks": 1}


def test_a_reason_is_one_printable_line_whatever_a_row_says(bench: Bench) -> None:
    bench.rows("r.jsonl", {"id": "a", "vectors": {"\x1b[31m\n" + "x" * 9999: [1]}})
    bench.run()
    (problem,) = bench.problems
    assert problem.isprintable() and len(problem) < 600


def test_progress_counts_the_files_of_all_sources_before_the_first_is_read(bench: Bench) -> None:
    for name in ("a.md", "sub/b.md", ".hidden.md", "image.png"):
        bench.write(name, "Apples.")
    bench.rows("r.jsonl", {"id": "x", "text": "Pears."}, {"id": "y", "text": "Plums."})
    bench.run()
    progress = [event for event in bench.events if isinstance(event, RunProgress)]
    assert progress[0] == RunProgress(0, 0, 0, 3)
    assert (progress[-1].documents, progress[-1].files, progress[-1].total_files) == (4, 3, 3)


def test_files_that_wait_for_their_embedding_are_not_processed(bench: Bench) -> None:
    for number in range(300):
        bench.write(f"{number:03}.md", f"# Soup {number}\n\nA soup.")
    bench.run()
    progress = [event for event in bench.events if isinstance(event, RunProgress)]
    assert len(progress) > 1 and all(event.files <= event.documents for event in progress)
    assert (progress[-1].files, progress[-1].total_files) == (300, 300)
