"""Graphs: edges, or columns of the nodes."""
