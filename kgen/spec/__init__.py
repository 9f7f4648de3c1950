"""The spec language: YAML with places, the models of its structure, and its JSON Schema."""
