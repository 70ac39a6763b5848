from .intake import (
    RATE_PERIODS as RATE_PERIODS,
    IntakeSettings as IntakeSettings,
    OfferedIntake as OfferedIntake,
    declared_retention as declared_retention,
    fill_all_templates as fill_all_templates,
    fill_template as fill_template,
    hit_values as hit_values,
    retention_of as retention_of,
)
from .intent import (
    DOMAIN as DOMAIN,
    HOSTNAME as HOSTNAME,
    EditorialDomain as EditorialDomain,
    IntentSettings as IntentSettings,
)
from .json_schema import (
    BIND_DATA as BIND_DATA,
    schema_violation as schema_violation,
)
from .nlweb import (
    ACTION_MEMBERS as ACTION_MEMBERS,
    ActionSettings as ActionSettings,
    ElicitationSettings as ElicitationSettings,
    LanguageModel as LanguageModel,
    QuestionSettings as QuestionSettings,
)
from .origins import is_loopback as is_loopback
from .settings import (
    DEFAULT_GRANTS as DEFAULT_GRANTS,
    CollectionSettings as CollectionSettings,
    Embedding as Embedding,
    Key as Key,
    Limits as Limits,
    OAuth as OAuth,
    Protocol as Protocol,
    ServerSettings as ServerSettings,
    Settings as Settings,
    Space as Space,
    StoreSettings as StoreSettings,
    declared_spaces as declared_spaces,
    load_settings as load_settings,
    settings_of as settings_of,
    spaces_for as spaces_for,
)
from .toml import MIN_SECRET_CHARS as MIN_SECRET_CHARS, Rate as Rate
