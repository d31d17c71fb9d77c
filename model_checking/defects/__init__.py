"""The defect shelf: policies one rule away from ``resident-first``, each known to break a property.

A file a defect. Each is ``RESIDENT_FIRST`` with one rule of ``rules.md`` switched back, and is
checked by ``tests/test_defects.py``: where the good policy holds, this one must fail.
"""
