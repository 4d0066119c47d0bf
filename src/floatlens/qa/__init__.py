"""Question answering: examples and the file formats they come in.

It reads data and checks it where it enters. It builds no prompts and runs no models.
"""

from floatlens.qa.examples import Example, read_examples

__all__ = ["Example", "read_examples"]
