"""A plan becomes a project: texts by path, then files on disk."""
