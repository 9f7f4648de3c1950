"""Checkpoints (safetensors, GGUF) to the packed weight file of a generated project, and their tokenizers."""
