"""Word resources (`resources`) and the search for words in place of others (`substitution`)."""
