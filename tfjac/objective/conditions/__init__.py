"""What is asked of parameters: bounds, equations, manifolds, and what is known of them beforehand."""
