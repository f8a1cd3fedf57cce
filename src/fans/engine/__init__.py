"""PNS: its equations, the neighbourhood of an input, perturbation, trials, estimates and their uncertainty."""
