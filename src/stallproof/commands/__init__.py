"""What each verb of the command line does. Each imports what it needs when it runs."""

from stallproof.commands.exploring import check, compare, diagram, policies
from stallproof.commands.running import bench, drive, explain, replay

__all__ = ["bench", "check", "compare", "diagram", "drive", "explain", "policies", "replay"]
