"""The rules of consuming, without I/O: which source delivered, what is tried next, what its answer is."""
