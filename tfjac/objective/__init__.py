"""What is minimised: residuals and losses of a user's function, and conditions on its variables."""
