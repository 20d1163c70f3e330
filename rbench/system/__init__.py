"""Services of the operating system: hashes of files, watched places, processes and temporary folders."""
