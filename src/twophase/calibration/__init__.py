"""From floors to expectations: kernels' measured efficiency, engines' overheads, a user's own passes."""
