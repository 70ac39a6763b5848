"""Programs that make or a workflow runs, with what only they share; tests ask some of them."""
