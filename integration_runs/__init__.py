"""Runs with engines that are none of our requirements, each in an environment of its own."""
