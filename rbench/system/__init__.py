"""What rbench asks of the operating system: hashes of files, places that are watched, processes, temporary folders."""
