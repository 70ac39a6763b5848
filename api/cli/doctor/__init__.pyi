from .examination import examine as examine
from .findings import Subject as Subject
from .screen import facts_of as facts_of, show as show
