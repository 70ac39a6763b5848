"""What the distributions in packages/ import of aidre: by room its names, or any."""

from __future__ import annotations

from collections.abc import Collection, Mapping

ANY: Collection[str] = ()
ENGINE_SEAM: Mapping[str, Collection[str]] = {
    "aidre.engine.errors": ANY,
    "aidre.engine.model": ANY,
    "aidre.engine.ports": ANY,
    "aidre.engine.types": ANY,
    "aidre.engine.collection": {
        *("DocumentLocator", "Snapshot", "SourceStates", "Store", "Writer"),
        *("check_upsert", "find_vectors", "local_store"),
        "stale_spaces",
    },
    "aidre.engine.embedding": {"Embedder", "available_cores", "cosine_floor", "reads_language"},
    "aidre.engine.index.fields": {
        *("And", "Compare", "Filter", "Instant", "Not", "Or", "Scalar", "TITLE", "ValueRange", "filter_digest"),
        *("FieldIndex", "Kind", "ReservedColumns", "build_fields", "meant_field", "parse_instant", "unknown_fields"),
        *("Wording", "range_with_dates", "stored_name", "with_dates", "with_members"),
    },
    "aidre.engine.index.text": {
        *("LexicalText", "Lexicon", "WordFinder", "build_lexicon", "comparable_text", "declared_language"),
        *("find_codes", "find_sequences", "lexical_column", "phrase_pattern", "query_terms", "question_language"),
        "required_words",
    },
    "aidre.engine.search": {
        *("FEEDBACK_DEPTH", "FacetPart", "MIN_CHUNKS", "UNMEASURED_WEIGHT", "bm25", "codes", "count_facet", "hybrid"),
    },
    "aidre.engine.index.vectors": {
        *("VectorColumn", "decode", "dtype_of", "encode", "encode_query", "is_unit", "score_rows"),
    },
    "aidre.engine.segment": {
        *("BoundedCache", "PendingCommit", "RecordColumns", "Staging", "to_columns", "to_record", "write_pending"),
    },
    "aidre.engine.storage": {
        *("NO_KEY", "WriterLock", "adjacent_floats", "adjacent_integers", "check_collection_name", "make_folder"),
        *("SegmentEntry", "durable", "now", "precision_of", "to_utf8", "upkeep", "with_precision"),
    },
    "aidre.ingest.pipeline": {
        *("Committed", "Event", "IngestOptions", "Mirror", "Notice"),
        *("Run", "RunCounters", "RunProgress", "SeenIds", "Summary"),
        *("Tally", "find_stored_drafts", "ingest", "save_read_times"),
    },
    "aidre.ingest.records": {"File", "Item", "Rejected", "RowBatch", "Unpublished", "VectorRules"},
    "aidre.ingest.sandbox": {"SHARED", "TABLES", "set_rules"},
    "aidre.ingest.sites": {"Sites"},
    "aidre.ingest.sources": {
        *("FileIds", "FileSource", "ReadFiles", "Source", "check_source_roots", "read_file", "settle_ids"),
        *("source_files", "survey_sources", "with_page"),
    },
}
"""What is here they can rely on."""
CLIENT_SEAM: Mapping[str, Collection[str]] = {
    "aidre.engine.embedding": {"DEFAULT_SPACE", "Embedder", "load_stored"},
    "aidre.engine.model": {"Document", "EmbeddingSpace"},
}
"""What the client imports of aidre where that is installed, in functions and for type checkers."""
