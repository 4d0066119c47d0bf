"""What every training loop of the project shares: the state it resumes from, and its log."""
