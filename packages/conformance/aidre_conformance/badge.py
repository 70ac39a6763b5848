"""The badge: a small SVG picture that says by which profile a server was tested, and the outcome."""

from __future__ import annotations

from xml.sax.saxutils import escape

from aidre_conformance.runner import Report

GREEN, YELLOW, RED, GREY = "#2e7d32", "#8a6d00", "#b3261e", "#5f6368"
"""With white letters each has a contrast of at least 4.5 (WCAG 2, AA)."""
LABELS = {
    "letter": "conformance",
    "compat": "client compatibility",
    "aidre": "AIDRE",
    "nlweb": "NLWeb 0.55",
    "intent": "Agentic Intent",
    "intake": "Agent Intake",
}
CHAR_WIDTH, PADDING, HEIGHT = 6.6, 12, 20
"""Pixels; the width is that of a letter of Verdana at 11 pixels on average."""


def badge(report: Report) -> bytes:
    """The picture of a report: green where it is `ok`, yellow where only a SHOULD failed, red for a MUST."""
    label = LABELS[report.profile]
    state, color = _state(report)
    left, right = (round(len(text) * CHAR_WIDTH) + PADDING for text in (label, state))
    title = escape(f"{label}: {state}")
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{HEIGHT}" role="img">
<title>{title}</title>
<rect width="{left + right}" height="{HEIGHT}" rx="3" fill="#424242"/>
<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v{HEIGHT - 6}a3 3 0 0 1-3 3h-{right - 3}z" fill="{color}"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{left / 2}" y="14">{escape(label)}</text>
<text x="{left + right / 2}" y="14">{escape(state)}</text>
</g>
</svg>
""".encode()


def _state(report: Report) -> tuple[str, str]:
    """What the badge says of a report, and its color."""
    failed = [verdict for verdict in report.verdicts if verdict.outcome == "fail" and not verdict.expected]
    if failed:
        is_must = any(verdict.check.level == "MUST" for verdict in failed)
        return f"{len(failed)} failed", RED if is_must else YELLOW
    if not report.ok:
        return "not tested" if not report.count("pass") or report.untested else "list out of date", GREY
    return f"{report.count('pass')} passed", GREEN
