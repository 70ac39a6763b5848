from . import console as console, exposure as exposure, maintenance as maintenance, search as search, select as select
