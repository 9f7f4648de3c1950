"""The compilers and build tools that generated projects need: found, provided from wheels, and driven."""
