"""The pure core: no clock, no input or output, no randomness, no environment, no logging. A test holds it to that."""
