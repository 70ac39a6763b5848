"""The usual names of columns, and what the column of a table that no mapping describes means by its name.

Names are compared without case, spaces and signs: `Product Name`, `product_name` and `productName` are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

IDS: Final = (
    "id", "sku", "identifier", "uuid", "guid", "productid", "itemid", "articleid", "documentid", "docid", "recordid",
    "objectid", "entryid", "asin", "gtin", "gtin13", "ean", "isbn", "isbn13", "isbn10", "articlenumber", "itemnumber",
    "partnumber", "productcode", "itemcode", "handle", "slug", "artikelnummer", "artikelnr", "bestellnummer",
)  # fmt: skip
TITLES: Final = (
    "title", "name", "headline", "heading", "productname", "producttitle", "itemname", "itemtitle", "articlename",
    "articletitle", "displayname", "fullname", "subject", "label", "question", "product", "titel", "bezeichnung",
    "produktname", "titre", "nom", "nombre", "titulo", "nome", "titolo", "naam",
)  # fmt: skip
URLS: Final = (
    "url", "link", "href", "permalink", "pageurl", "producturl", "itemurl", "articleurl", "weburl", "canonicalurl",
    "sourceurl", "productlink", "uri", "webpage", "website", "homepage",
)  # fmt: skip
DATES: Final = (
    "updated", "modified", "lastmodified", "datemodified", "modifiedat", "lastupdated", "lastupdate", "dateupdated",
    "updatedon", "lastmod",
)  # fmt: skip
TEXTS: Final = frozenset(
    {
        "description", "content", "body", "bodyhtml", "bodytext", "fulltext", "articlebody", "summary", "abstract",
        "details", "longdescription", "shortdescription", "productdescription", "review", "reviewtext", "reviewbody",
        "comment", "comments", "note", "notes", "message", "answer", "excerpt", "transcript", "plot", "synopsis",
        "overview", "bio", "biography", "beschreibung", "inhalt", "zusammenfassung", "descripcion", "descrizione",
        "omschrijving",
    }
)  # fmt: skip
"""Columns of free text, which nobody filters by."""

PROPERTIES: Final[Mapping[str, tuple[str, ...]]] = {
    "price": (
        "price", "unitprice", "saleprice", "listprice", "retailprice", "currentprice", "regularprice", "priceeur",
        "priceusd", "pricegbp", "pricechf", "priceineur", "priceinusd", "preis", "verkaufspreis", "preiseur",
        "preisineur", "prix", "precio", "prezzo", "prijs",
    ),
    "priceCurrency": ("pricecurrency", "currency", "currencycode", "waehrung", "währung"),
    "brand": ("brand", "brandname", "marke", "marque", "marca", "merk"),
    "image": (
        "image", "imageurl", "imagelink", "imagesrc", "mainimage", "img", "imgurl", "picture", "pictureurl", "photo",
        "photourl", "thumbnail", "thumbnailurl", "bild", "bildurl",
    ),
    "author": ("author", "authors", "authorname", "writer", "writtenby", "autor", "auteur"),
    "startDate": ("startdate", "startdatetime", "starttime", "startsat", "eventdate"),
    "endDate": ("enddate", "enddatetime", "endsat"),
    "datePublished": ("datepublished", "publisheddate", "publicationdate", "publishedat", "publishedon", "pubdate"),
    "sku": ("sku",),
    "isbn": ("isbn", "isbn13", "isbn10"),
    "category": ("category", "productcategory", "kategorie"),
    "color": ("color", "colour"),
    "availability": ("availability",),
    "location": ("location", "venue"),
}  # fmt: skip
"""Properties of schema.org by the names of columns that hold them."""

DATE_PROPERTIES: Final = frozenset({"startDate", "endDate", "datePublished"})
TYPES: Final = (
    ("isbn", "Book"),
    ("sku", "Product"),
    ("startDate", "Event"),
    ("price", "Product"),
    ("brand", "Product"),
)
"""The type of a row that names none, by the first of these properties that it has."""

_SIGNS: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table by their use, the most usual name first; `properties` maps properties to columns."""

    ids: tuple[str, ...]
    titles: tuple[str, ...]
    urls: tuple[str, ...]
    dates: tuple[str, ...]
    texts: frozenset[str]
    properties: Mapping[str, str]


@lru_cache(maxsize=256)
def find_columns(names: tuple[str, ...]) -> Columns:
    """What columns of these names are used for. Of several columns with one name the first counts."""
    written: dict[str, str] = {}
    for name in names:
        written.setdefault(squeeze(name), name)
    return Columns(
        _known(written, IDS),
        _known(written, TITLES) or _ending(names, ("title", "titel", "name")),
        _known(written, URLS),
        _known(written, DATES),
        frozenset(name for name in names if squeeze(name) in TEXTS),
        {name: found[0] for name, usual in PROPERTIES.items() if (found := _known(written, usual))},
    )


def squeeze(name: str) -> str:
    """A name without case, spaces and signs."""
    return _SIGNS.sub("", name).lower()


def _known(written: Mapping[str, str], usual: Iterable[str]) -> tuple[str, ...]:
    return tuple(written[name] for name in usual if name in written)


def _ending(names: Iterable[str], ends: tuple[str, ...]) -> tuple[str, ...]:
    """Columns such as `recipe_title` and `Station Name`; not `first_name` and `file_name`, which are of others."""
    last = ((name, _words(name)) for name in names)
    return tuple(name for name, words in last if len(words) > 1 and words[-1] in ends and words[-2] not in _OTHERS)


def _words(name: str) -> list[str]:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+", " ", name).lower().split()


_OTHERS: Final = frozenset(
    {
        "first", "last", "middle", "sur", "given", "family", "user", "file", "brand", "category", "author", "job",
        "column", "host", "domain", "nick", "currency", "state", "country", "city",
    }
)  # fmt: skip
