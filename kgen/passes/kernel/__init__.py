"""The passes on kernels: the tasks of all ranks at sample sizes, and whether flags order them."""
