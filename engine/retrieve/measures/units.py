"""Units of measure, as words beside numbers and in names of fields."""

from __future__ import annotations

from typing import Final

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
