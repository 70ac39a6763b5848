from .profiles import PROFILES as PROFILES
