"""Plans of overlapped kernels: what a template prints, the order of tiles, what a call costs."""
