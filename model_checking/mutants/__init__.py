"""Every guard and comparison of the pass and of ``resident-first``, mutated mechanically; which claim notices.

``operators`` makes the mutants from the shipped source, ``running`` explores one, ``__main__`` runs all and prints the
matrix. The record is ``matrix.json``; what survives has its reason in ``survivors.toml``.
"""
