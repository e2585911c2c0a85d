"""A Triton server with a model for each role, and clients that send it requests."""
