"""The operator graph: tensors, and one file per operator family."""
