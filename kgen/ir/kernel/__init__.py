"""Kernel graphs: a few operators over tensors that are spread over ranks. One file per operator family."""
