"""The gate: check a RUN against a baseline (`rbench baseline`, `rbench check`) and against conditions (`--fail-if`)."""
