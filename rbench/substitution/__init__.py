"""Word substitution: the search (`search`), the same on an encoder in training (`batched`), and its `candidates`."""
