"""`make fuzz`: damaged inputs, seeded and bounded, against everything that reads a file."""
