"""Who may come in, as whom, and how often: the one place that every protocol passes through."""
