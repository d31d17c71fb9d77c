"""What has been checked, how far, and by whom else. Run from the repository's root."""
