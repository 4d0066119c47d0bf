"""Put questions to a model and score its answers. It reads no data and writes no files."""
