"""The graph of tasks and events."""
