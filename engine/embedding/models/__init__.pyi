from .adding import add_from as add_from, add_known as add_known, missing_offline as missing_offline, obtain as obtain
from .catalogue import (
    DEFAULT as DEFAULT,
    KNOWN as KNOWN,
    MULTILINGUAL as MULTILINGUAL,
    KnownModel as KnownModel,
    known_model as known_model,
)
from .fetching import Progress as Progress, is_offline as is_offline
from .four_bits import FOUR_BITS as FOUR_BITS, read_four_bits as read_four_bits
from .installed import (
    InstalledModel as InstalledModel,
    find_model as find_model,
    installed_models as installed_models,
    read_model_card as read_model_card,
    remove_model as remove_model,
)
