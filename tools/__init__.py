"""What made files that are kept in the repository."""
