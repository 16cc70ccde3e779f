"""What is minimised: the variables, and the residuals found in a loss or computed by a function of the user's."""
