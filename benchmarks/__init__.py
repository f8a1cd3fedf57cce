"""Time, memory and quality, measured: `make bench`."""
