"""The languages of source code by the suffixes of their files."""

from __future__ import annotations

from collections.abc import Mapping

CODE_SUFFIXES: Mapping[str, str] = {
    ".py": "Python", ".pyi": "Python", ".rb": "Ruby", ".go": "Go", ".rs": "Rust", ".js": "JavaScript",
    ".mjs": "JavaScript", ".cjs": "JavaScript", ".jsx": "JavaScript", ".ts": "TypeScript", ".tsx": "TypeScript",
    ".java": "Java", ".kt": "Kotlin", ".kts": "Kotlin", ".scala": "Scala", ".swift": "Swift", ".c": "C", ".h": "C",
    ".cc": "C++", ".cpp": "C++", ".cxx": "C++", ".hpp": "C++", ".cs": "C#", ".php": "PHP", ".lua": "Lua",
    ".ex": "Elixir", ".exs": "Elixir", ".jl": "Julia", ".pl": "Perl", ".pm": "Perl", ".r": "R", ".sh": "Shell",
    ".bash": "Shell", ".dart": "Dart", ".groovy": "Groovy", ".sql": "SQL", ".vue": "Vue", ".svelte": "Svelte",
    ".zig": "Zig", ".nim": "Nim", ".proto": "Protobuf",
}  # fmt: skip

BRACED = frozenset({"JavaScript", "TypeScript", "Java", "C", "C++", "C#", "Shell", "Dart", "Groovy", "Vue", "Svelte"})
"""Languages in which a function may have no word of its own before its name, but a brace behind it."""
