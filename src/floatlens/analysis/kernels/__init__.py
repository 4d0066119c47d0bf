"""Numpy kernels: plain arrays in, plain arrays out, keys on the last axis. They know nothing of traces or figures."""
