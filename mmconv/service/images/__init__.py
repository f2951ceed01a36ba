"""`/v1/images`, and the images that other requests name."""
