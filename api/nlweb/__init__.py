"""NLWeb 0.55: conversational questions, answered as schema.org items."""
