"""Run a callable over jobs. Each module is one way to do so, and knows nothing of encoders or attacks."""
