from . import console as console, maintenance as maintenance, search as search, select as select, serve as serve
