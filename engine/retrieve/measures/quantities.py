"""Parses quantities in free text or JSON, "less than $20", "10-20", ">= 5", into numeric bounds and currencies.

Knows English, German, French and Spanish words. It does not convert units or currencies. Units of measure, as words
beside numbers and in names of fields.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aidre.engine.model import Json

MAX_QUANTITY_CHARS: Final = 200
"""Characters; a longer text is not a quantity."""
_DOLLARS: Final = ("USD", "CAD", "AUD", "NZD", "SGD", "HKD", "MXN")
_CURRENCY_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "us$": ("USD",), "$": _DOLLARS, "dollar": _DOLLARS, "dollars": _DOLLARS, "buck": _DOLLARS, "bucks": _DOLLARS,
    "€": ("EUR",), "euro": ("EUR",), "euros": ("EUR",),
    "£": ("GBP",), "pound": ("GBP",), "pounds": ("GBP",), "quid": ("GBP",),
    "¥": ("JPY", "CNY"), "yen": ("JPY",), "yuan": ("CNY",), "rmb": ("CNY",), "₹": ("INR",), "rupees": ("INR",),
    "franken": ("CHF",), "francs": ("CHF",), "₩": ("KRW",), "won": ("KRW",), "zł": ("PLN",), "₽": ("RUB",),
    "₺": ("TRY",), "₪": ("ILS",), "r$": ("BRL",), "reais": ("BRL",), "kr": ("SEK", "NOK", "DKK"),
}  # fmt: skip
_CURRENCY_CODES: Final = """
    AED ARS AUD BDT BGN BRL CAD CHF CLP CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR ISK JPY KES KRW KWD MAD MXN MYR
    NGN NOK NZD PEN PHP PKR PLN QAR RON RSD RUB SAR SEK SGD THB TRY TWD UAH USD VND ZAR
"""
NUMBER: Final = r"[+-]?(?:\d+(?: \d{3}(?!\d))*(?:[.,']\d+)*|\.\d+)\s?(?:k|m|million|thousand)?(?![\w])"
_COUNTED_NOUN: Final = re.compile(
    r"(?<=\d) ?(?:stars?|points?|people|persons?|servings?|pages?|calories|kcal|sterne?|étoiles)\b"
)
_WORD: Final = re.compile(r"us\$|r\$|[$€£¥₹₩₽₺₪]|[^\W\d_]+")
BELOW: Final = (
    "less than|fewer than|lower than|smaller than|cheaper than|lighter than|shorter than|no more than|not more than|"
    "no larger than|no heavier than|not over|under|below|<=|=<|≤|<|up to|at most|maximum|max|until|within|"
    "unter|weniger als|billiger als|günstiger als|leichter als|nicht mehr als|maximal|bis zu|höchstens|bis|"
    "moins de|moins cher que|pas plus de|au plus|au maximum|jusqu'à|menos de|no más de|como máximo|hasta"
)
ABOVE: Final = (
    "more than|greater than|higher than|larger than|bigger than|heavier than|longer than|no less than|no fewer than|"
    "not less than|not under|over|above|>=|=>|≥|>|at least|minimum|min|starting at|starting from|from|"
    "über|mehr als|mindestens|minimal|nicht weniger als|ab|plus de|au moins|pas moins de|más de|al menos|desde"
)
_STRICT: Final = frozenset(
    """
    less than|fewer than|lower than|smaller than|cheaper than|lighter than|shorter than|under|below|<|unter|weniger als|
    billiger als|günstiger als|leichter als|moins de|moins cher que|menos de|more than|greater than|higher than|
    larger than|bigger than|heavier than|longer than|over|above|>|über|mehr als|plus de|más de
    """.replace("\n", "")
    .replace("    ", "")
    .split("|")
)
"""Comparisons that exclude the bound itself."""
_SINGLE: Final = re.compile(rf"(?P<word>{BELOW}|{ABOVE}|=|==|exactly|equals?|is)?\s*:?\s*(?P<number>{NUMBER})")
_SUFFIXED: Final = re.compile(
    rf"(?P<number>{NUMBER})\s*(?P<word>\+|and up|and above|or more|or above|or higher|and more|or less|or below|"
    r"or under|or fewer|or lower|and below|and under|max|maximum|min|minimum|oder mehr|oder weniger)"
)
_RANGE: Final = re.compile(
    rf"(?:between|from|zwischen|von|entre|de)?\s*(?P<low>{NUMBER})\s*"
    rf"(?:-|–|—|\.\.\.?|…|to|and|und|bis|et|y|à|a|through)\s*(?P<high>{NUMBER})"
)
_TWO_BOUNDS: Final = re.compile(
    rf"(?P<above>{ABOVE})\s*(?P<low>{NUMBER})\s*(?:and|but|,|und|aber|&)?\s*"
    rf"(?P<below>{BELOW})\s*(?P<high>{NUMBER})"
)
_MEMBER_OPERATORS: Final[Mapping[str, str]] = {
    "min": "gte", "minimum": "gte", "minvalue": "gte", "minprice": "gte", "low": "gte", "lowprice": "gte",
    "from": "gte", "gte": "gte", ">=": "gte", "ge": "gte", "atleast": "gte", "gt": "gt", ">": "gt", "above": "gt",
    "over": "gt", "max": "lte", "maximum": "lte", "maxvalue": "lte", "maxprice": "lte", "high": "lte",
    "highprice": "lte", "to": "lte", "lte": "lte", "<=": "lte", "le": "lte", "atmost": "lte", "upto": "lte",
    "lt": "lt", "<": "lt", "below": "lt", "under": "lt", "value": "eq", "price": "eq", "eq": "eq", "=": "eq",
}  # fmt: skip
_CURRENCY_MEMBERS: Final = ("currency", "pricecurrency")


@dataclass(frozen=True, slots=True)
class Bounds:
    """An interval of numbers; None is unbounded, and a closed end belongs to it. `currencies` are ISO 4217 codes,
    any of which satisfies the bounds."""

    low: float | None = None
    high: float | None = None
    low_closed: bool = True
    high_closed: bool = True
    currencies: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return self.low is not None and self.low == self.high

    def operators(self) -> dict[str, float]:
        """The bounds as operators of the filter grammar."""
        if self.exact and self.low is not None:
            return {"eq": self.low}
        operators = {}
        if self.low is not None:
            operators["gte" if self.low_closed else "gt"] = self.low
        if self.high is not None:
            operators["lte" if self.high_closed else "lt"] = self.high
        return operators


def read_bounds(value: Json) -> Bounds | None:
    """The bounds that a number, a text or an object of bounds states; None where it states none."""
    if type(value) in {int, float}:
        return Bounds(value, value) if _is_finite(value) else None
    if type(value) is str:
        return _parse_text(value)
    return _parse_members(value) if type(value) is dict else None


def _is_finite(number: float) -> bool:
    return abs(number) < 1e300


def _parse_text(written: str) -> Bounds | None:
    if len(written) > MAX_QUANTITY_CHARS:
        return None
    text, currencies = read_currencies(written.lower())
    bounds = _parse_comparison(" ".join(_COUNTED_NOUN.sub(" ", text).split()).rstrip(" .?!"))
    if bounds is None or (bounds.low is not None and bounds.high is not None and bounds.low > bounds.high):
        return None
    return Bounds(bounds.low, bounds.high, bounds.low_closed, bounds.high_closed, currencies)


def read_currencies(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without names and signs of currencies, and the ISO codes of the most specific of them."""
    codes_by_word: dict[str, tuple[str, ...]] = {}

    def remove(match: re.Match[str]) -> str:
        word = match[0]
        is_code = len(word) == 3 and word.upper() in _CURRENCY_CODES
        codes = _CURRENCY_WORDS.get(word) or ((word.upper(),) if is_code else None)
        if codes is None:
            return word
        codes_by_word[word] = codes
        return " "

    rest = _WORD.sub(remove, text)
    return rest, min(codes_by_word.values(), key=len, default=())  # CAD for "$20 CAD"


def _parse_comparison(text: str) -> Bounds | None:
    if text in {"free", "gratis", "kostenlos", "gratuit", "for free", "no cost"}:
        return Bounds(0, 0)
    if match := _TWO_BOUNDS.fullmatch(text):
        low, high = _parse_number(match["low"]), _parse_number(match["high"])
        return _bounds(low, high, match["above"] not in _STRICT, match["below"] not in _STRICT)
    if match := _RANGE.fullmatch(text):
        return _bounds(_parse_number(match["low"]), _parse_number(match["high"]), True, True)
    if match := _SUFFIXED.fullmatch(text):
        number, word = _parse_number(match["number"]), match["word"]
        is_upper = word.startswith("max") or word.endswith(("less", "below", "under", "fewer", "lower", "weniger"))
        return _bounds(None, number, True, True) if is_upper else _bounds(number, None, True, True)
    match = _SINGLE.fullmatch(text)
    return None if match is None else _single_bound(_parse_number(match["number"]), match["word"])


def _single_bound(number: float | None, word: str | None) -> Bounds | None:
    if number is None:
        return None
    if word is None or word in {"=", "==", "exactly", "equal", "equals", "is"}:
        return Bounds(number, number)
    closed = word not in _STRICT
    is_upper = re.fullmatch(BELOW, word) is not None
    return Bounds(None, number, True, closed) if is_upper else Bounds(number, None, closed, True)


def _bounds(low: float | None, high: float | None, low_closed: bool, high_closed: bool) -> Bounds | None:
    if low is None and high is None:
        return None
    return Bounds(low, high, low_closed, high_closed)


_SCALES: Final = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6}


def _parse_number(written: str) -> float | None:
    """One number: "1,200.50", "1.200,50", "1 200", "20k"."""
    match = re.fullmatch(r"([+-]?)([\d.,' ]*\d)\s?([a-z]*)", written.strip())
    if match is None:
        return None
    digits = re.sub(r"[' ]", "", match[2])
    dot, comma = digits.rfind("."), digits.rfind(",")
    if dot >= 0 and comma >= 0:
        digits = digits.replace(",", "") if dot > comma else digits.replace(".", "").replace(",", ".")
    elif comma >= 0:
        thousands = re.fullmatch(r"\d{1,3}(?:,\d{3})+", digits)
        digits = digits.replace(",", "") if thousands else digits.replace(",", ".")
    elif digits.count(".") > 1:
        digits = digits.replace(".", "")
    try:
        number = float(digits) * _SCALES.get(match[3], 1.0)
    except ValueError:
        return None
    number = -number if match[1] == "-" else number
    return (int(number) if number.is_integer() else number) if _is_finite(number) else None


def _parse_members(members: Mapping[str, Json]) -> Bounds | None:
    """{"min": 10, "max": 20}, {"lte": 20}, {"@type": "QuantitativeValue", "maxValue": 20}."""
    operands: dict[str, float] = {}
    currencies: tuple[str, ...] = ()
    for name, value in members.items():
        key = re.sub(r"[\s_-]", "", name.lower())
        if key in _CURRENCY_MEMBERS and type(value) is str:
            _, currencies = read_currencies(value.lower())
        elif not name.startswith("@"):
            number = value if type(value) in {int, float} else _parse_exact(value)
            operator = _MEMBER_OPERATORS.get(key)
            if operator is None or number is None or not _is_finite(number) or math.isnan(number):
                return None
            operands[operator] = number
    if not operands:
        return None
    if "eq" in operands:
        return Bounds(operands["eq"], operands["eq"], currencies=currencies) if len(operands) == 1 else None
    low, high = operands.get("gte", operands.get("gt")), operands.get("lte", operands.get("lt"))
    if low is not None and high is not None and low > high:
        return None
    return Bounds(low, high, "gte" in operands or low is None, "lte" in operands or high is None, currencies)


def _parse_exact(value: Json) -> float | None:
    bounds = _parse_text(value) if type(value) is str else None
    return bounds.low if bounds is not None and bounds.exact else None


_NAMES: Final = {
    "bytes": "b byte bytes 1; kb 1e3; mb mib megabytes 1e6; gb gib gig gigabyte gigabytes 1e9; tb tib terabyte "
    "terabytes 1e12",
    "mass": "mg 1e-3; g gram grams gramm 1; kg kilo kilos kilogram kilograms kilogramm 1e3; lb lbs 453.592",
    "length": "mm 1; cm 10; m meter meters metre metres 1e3; km kilometer kilometers kilometre kilometres 1e6; "
    "inch inches zoll pouces pulgadas 25.4; ft feet 304.8",
    "time": "ms 1e-3; s sec second seconds 1; min mins minute minutes minuten minutos 60; h hr hrs hour hours stunden "
    "heures horas 3600; day days tage jours días 86400",
    "power": "w watt watts 1; kw 1e3",
    "frequency": "hz 1; khz 1e3; mhz 1e6; ghz 1e9",
    "volume": "ml 1; cl 10; l liter liters litre litres litros 1e3",
    "share": "% percent pct prozent 1",
    "charge": "mah 1; ah 1e3",
    "pixels": "px pixel pixels 1; mp megapixel megapixels 1e6",
    "energy": "kcal calories 1",
}
UNITS: Final = {
    name: (measure, float(size))
    for measure, units in _NAMES.items()
    for *names, size in map(str.split, units.split(";"))
    for name in names
}
"""By name: what it measures, and how large it is in the smallest unit of that."""
