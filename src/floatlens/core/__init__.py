"""What every room may use: errors, registries, files, digests and validation messages. Nothing about models."""
