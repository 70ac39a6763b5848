from .mentions import (
    Direction as Direction,
    MeasureOrder as MeasureOrder,
    Mention as Mention,
    find_mentions as find_mentions,
    without as without,
)
from .periods import (
    DURATION_MEMBERS as DURATION_MEMBERS,
    Period as Period,
    read_minutes as read_minutes,
    read_period as read_period,
    spell_durations as spell_durations,
)
from .quantities import UNITS as UNITS, Bounds as Bounds, read_bounds as read_bounds, read_currencies as read_currencies
