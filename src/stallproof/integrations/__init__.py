"""Watchers of engines we did not write: each turns what one engine does into observations for a monitor."""
