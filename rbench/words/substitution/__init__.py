"""Word substitution: the search (`search`), its use on an encoder in training (`batched`), and its `candidates`."""
