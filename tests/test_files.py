"""A file is written whole or not at all, and what cannot be written is told with place and remedy."""

from __future__ import annotations

import resource

import pytest

from stallproof.errors import UsageError
from stallproof.files import write_whole


def test_what_is_written_is_there(tmp_path):
    write_whole(tmp_path / "a", "text")
    assert (tmp_path / "a").read_text() == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_full_disk_leaves_what_stood_there_and_nothing_else(tmp_path):
    """A limit on the size of files stands for the disk."""
    kept = tmp_path / "kept"
    kept.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(UsageError, match=r"^--json: '.*kept' cannot be written \(.+\)\. Give a file"):
            write_whole(kept, "x" * 5000, "--json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert kept.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_device_that_is_full_is_told():
    with pytest.raises(UsageError, match="/dev/full' cannot be written"):
        write_whole("/dev/full", "x" * 100_000)


def test_a_folder_that_is_not_there_is_told_by_the_name_that_was_given(tmp_path):
    with pytest.raises(UsageError, match="nowhere/file' cannot be written"):
        write_whole(tmp_path / "nowhere" / "file", "")
