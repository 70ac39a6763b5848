"""The root: a search page for people, a signpost for programs."""
