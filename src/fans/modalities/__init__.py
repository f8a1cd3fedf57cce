"""What a feature is in each modality, how to perturb it, and how to show it."""
