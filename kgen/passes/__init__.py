"""The passes from operators to a placed graph, and the pipeline that runs them."""
