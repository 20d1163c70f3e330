"""The papers' printed tables: read, with our numbers beside theirs, and claims judged on them."""
