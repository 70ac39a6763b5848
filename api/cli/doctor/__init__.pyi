from .findings import Subject as Subject
from .screen import examine as examine, facts_of as facts_of, show as show
