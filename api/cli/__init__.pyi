from . import console as console, maintenance as maintenance, search as search
