"""Executors run a callable over jobs, a module each way. They know neither encoders nor attacks."""
