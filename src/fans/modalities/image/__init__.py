"""Images: pixels, cells, patches and superpixels."""
