"""Names and titles as parts of addresses, in the manner of the generators that have one of their own."""

from __future__ import annotations

import re
import unicodedata


def github_slug(text: str) -> str:
    """As github-slugger, which Astro and others use: lower case, letters and digits, a hyphen for each space."""
    kept = (one for one in text.lower() if one in "-_ " or unicodedata.category(one)[0] in "LMN")
    return "".join(kept).replace(" ", "-")


def jekyll_slug(text: str, *, pretty: bool = False) -> str:
    """As Jekyll: runs of other characters become one hyphen. A pretty one keeps case and some signs."""
    others = r"[^\w.~!$&'()+,;=@]+" if pretty else r"[^\w]+"
    kept = re.sub(others, "-", text if pretty else text.replace("_", "-")).strip("-")
    return kept if pretty else kept.lower()


def hugo_path(path: str, *, lower: bool = True) -> str:
    """As Hugo since 0.123 writes paths of files: a hyphen for each space, letters, digits and a few signs."""
    kept = (one for one in path.replace(" ", "-") if _is_kept_by_hugo(one))
    return "".join(kept).lower() if lower else "".join(kept)


def hugo_slug(text: str, *, lower: bool = True) -> str:
    """As Hugo writes titles and slugs: one hyphen for spaces and hyphens beside each other, whatever is between."""
    words = (hugo_path(word, lower=lower) for word in re.split(r"[\s-]+", text))
    return "-".join(filter(None, words))


def _is_kept_by_hugo(one: str) -> bool:
    return one in "./\\_#+~-@" or unicodedata.category(one)[0] in "LMN"


_SPELLED = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "ẞ": "Ss", "&": " and "}
)


def eleventy_slug(text: str) -> str | None:
    """As the filter `slugify` of Eleventy: plain letters, hyphens between words; None for letters of other scripts."""
    spelled = re.sub(r"(\w)['’]([ts])(?=\s|$)", r"\1\2", text.translate(_SPELLED))
    plain = "".join(one for one in unicodedata.normalize("NFKD", spelled) if not unicodedata.combining(one))
    if any(one.isalpha() and not one.isascii() for one in plain):
        return None
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
