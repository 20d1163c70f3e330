"""Back-ends that run a callable over jobs, and nothing more: they know neither encoders nor attacks."""
