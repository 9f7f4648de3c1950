"""SmolLM2 with its real weights: greedy tokens and perplexity against the committed transformers reference.

Usage: text.py PROJECT LIBRARY GGUF REFERENCE. Needs the gguf package to read the weights.
"""
