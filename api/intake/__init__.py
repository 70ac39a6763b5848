"""Agent Intake Protocol 0.1.0: what agents can submit here, the offers that retrieval makes of it, their binding."""
