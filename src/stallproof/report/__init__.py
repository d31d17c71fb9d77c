"""What people see: tables, timelines, progress. Plain text when piped."""
