"""Forward and backward passes: what they start from, how many run at once, and what is made of what they bring back."""
