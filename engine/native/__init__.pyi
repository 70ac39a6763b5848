from . import kernel as kernel
from .loading import FALL_BACK as FALL_BACK, kernel_name as kernel_name, native as native
